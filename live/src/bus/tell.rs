//! Telling: what was told at the same time goes out together, and what could not go out becomes "anything".

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::backoff::pause;
use crate::bus::health::{Half, Health};
use crate::bus::message::{self, Item};
use crate::bus::way::Speaker;

/// Items that wait to be told, at most: beyond, everybody is told of anything.
pub(super) const WAITING: usize = 64 * 1024;
/// How long after the shutdown began there may be something to tell: calls that are being answered make events.
const LINGER: Duration = Duration::from_secs(10);

pub(super) struct Teller {
    pub speaker: Speaker,
    pub items: mpsc::Receiver<Item>,
    /// That somebody could not be told: there was no room in `items`.
    pub owing: Arc<Notify>,
    pub health: Health,
}

impl Teller {
    /// Tells until nobody can have anything to say any more.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let end = async {
            shutdown.cancelled().await;
            sleep(LINGER).await;
        };
        tokio::select! {
            () = self.tell() => {}
            () = end => {}
        }
    }

    async fn tell(&mut self) {
        let mut items = Vec::new();
        // Some were not told of: all have to hear that, as soon as anybody hears anything.
        let mut owed = false;
        let (mut failures, mut again_at) = (0, Instant::now());
        loop {
            tokio::select! {
                n = self.items.recv_many(&mut items, WAITING) => if n == 0 { return },
                () = self.owing.notified() => owed = true,
                () = sleep_until(again_at), if owed => {}
            }
            if owed && Instant::now() < again_at {
                items.clear();
                continue;
            }
            match self.speaker.say(&message::write(items.drain(..), owed)).await {
                Ok(()) => {
                    (owed, failures) = (false, 0);
                    self.health.works(Half::Telling);
                }
                Err(error) => {
                    owed = true;
                    failures += 1;
                    again_at = Instant::now() + pause(failures, rand::random());
                    self.health.broke(Half::Telling, &error.to_string());
                }
            }
        }
    }
}
