//! Looking after streams: what is heard of on the bus, everybody now and then, heartbeats, and those whose time has come.

use std::sync::Arc;
use std::time::Duration;

use bongsu_live::Heard;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::Shared;

/// How often streams are looked at, at most and at least; between, four times in a heartbeat.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Messages of the bus taken together.
const TOGETHER: usize = 256;

/// Ends streams, makes heartbeats, and has everybody's inbox looked at: a hint that was lost costs so much time.
pub async fn run(shared: Arc<Shared>) {
    let settings = shared.settings;
    let mut ticks = tokio::time::interval((settings.heartbeat / 4).clamp(LOOKS.0, LOOKS.1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked_at = Instant::now();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let all = shared.registry().all();
        for connection in all {
            if connection.look(now, settings.heartbeat, settings.stalled_after) {
                // Whoever carries it may not hear of it for long.
                shared.leave(&connection);
            }
        }
        if now - looked_at >= settings.look_every {
            looked_at = now;
            shared.registry().look_at_all();
            shared.read.notify_one();
        }
    }
}

/// Passes on who has something new.
pub async fn listen(shared: Arc<Shared>, mut bus: mpsc::Receiver<Heard>) {
    let mut messages = Vec::with_capacity(TOGETHER);
    while bus.recv_many(&mut messages, TOGETHER).await > 0 {
        let now = Instant::now();
        {
            let mut registry = shared.registry();
            for heard in messages.drain(..) {
                match heard {
                    Heard::Users(users) => registry.heard(users, now),
                    Heard::Anything => registry.look_at_all(),
                }
            }
        }
        shared.read.notify_one();
    }
}
