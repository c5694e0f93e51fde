//! Sweeping: what no owner of a batch will do.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{SweepLane, Swept};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;

/// Every sender sweeps about this often; the jitter keeps them apart.
const EVERY: Duration = Duration::from_millis(800);
/// Partitions are looked after this often.
const HOURLY: Duration = Duration::from_secs(3_600);

pub(super) async fn run(engine: Arc<Engine>, shutdown: CancellationToken) {
    tokio::select! {
        // In the middle of a statement, too: the next sweep, of whomever, does what this one did not.
        () = shutdown.cancelled() => {}
        () = sweep(&engine) => {}
    }
}

async fn sweep(engine: &Engine) {
    let mut lane = engine.store.sweep_lane();
    let mut troubled = false;
    let mut hourly = Instant::now();
    let mut pause = EVERY;
    loop {
        tokio::time::sleep(pause.mul_f64(0.75 + 0.5 * rand::random::<f64>())).await;
        let began = Instant::now();
        let swept = lane.sweep().await;
        pause = swept.as_ref().map_or(EVERY, |swept| swept.pause(began.elapsed(), EVERY));
        let mut result = swept.map(|swept| report(&swept));
        if result.is_ok() && hourly <= Instant::now() {
            hourly = Instant::now() + HOURLY;
            result = housekeep(engine, &mut lane).await;
        }
        if let Err(error) = &result
            && !troubled
        {
            tracing::warn!("cannot sweep: {error}");
        }
        troubled = result.is_err();
    }
}

fn report(swept: &Swept) {
    if swept.settled > 0 {
        tracing::info!(deliveries = swept.settled, "settled deliveries of cancelled or expired broadcasts");
    }
    for id in &swept.completed {
        tracing::info!(broadcast_id = id.0, "broadcast ended");
    }
}

async fn housekeep(engine: &Engine, lane: &mut SweepLane) -> bongsu_store::Result<()> {
    engine.store.ensure_partitions().await?;
    lane.forget_senders().await
}
