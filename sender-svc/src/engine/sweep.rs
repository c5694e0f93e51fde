//! Completing broadcasts whose last batch was closed here, and sweeping what no owner will do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{BroadcastId, SweepLane};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Engine;

/// Every sender sweeps about this often; the jitter keeps them apart.
const EVERY: Duration = Duration::from_millis(800);
/// Partitions are looked after this often.
const HOURLY: Duration = Duration::from_secs(3_600);
/// Broadcasts completed in one statement at most.
const MOST: usize = 500;
/// Between two completions: a broadcast of many batches asks with each of its flushes, and each look is planned anew.
const COMPLETE_EVERY: Duration = Duration::from_millis(20);

/// Runs until the flush, which holds the other end of `touched`, has ended.
pub(super) async fn run(engine: Arc<Engine>, mut touched: mpsc::Receiver<BroadcastId>) {
    let mut lane = engine.store.sweep_lane();
    let mut troubled = false;
    let mut next = Instant::now() + EVERY;
    let mut hourly = Instant::now();
    let mut ids = Vec::new();
    let mut complete_next = Instant::now();
    loop {
        let closed = async {
            tokio::time::sleep_until(complete_next).await;
            touched.recv_many(&mut ids, MOST).await
        };
        let result = tokio::select! {
            n = closed => {
                if n == 0 {
                    return;
                }
                complete_next = Instant::now() + COMPLETE_EVERY;
                let distinct: Vec<_> = ids.drain(..).collect::<BTreeSet<_>>().into_iter().collect();
                complete(&engine, &distinct).await
            }
            () = tokio::time::sleep_until(next) => {
                // One step a turn, so that completions do not wait behind a long sweep.
                let swept = sweep(&mut lane).await;
                let more = swept.as_ref().is_ok_and(|more| *more);
                let pause = if more { Duration::ZERO } else { EVERY.mul_f64(0.75 + 0.5 * rand::random::<f64>()) };
                next = Instant::now() + pause;
                if swept.is_ok() && hourly <= Instant::now() {
                    hourly = Instant::now() + HOURLY;
                    housekeep(&engine, &mut lane).await
                } else {
                    swept.map(|_| ())
                }
            }
        };
        match result {
            Ok(()) => troubled = false,
            Err(error) => {
                // Nothing is lost: the next sweep completes what this did not.
                if !troubled {
                    tracing::warn!("cannot sweep: {error}");
                }
                troubled = true;
            }
        }
    }
}

async fn complete(engine: &Engine, ids: &[BroadcastId]) -> bongsu_store::Result<()> {
    // The last acknowledgement may have come while what waits for it was being recorded: one of the two sees both.
    let awaits = |id: &BroadcastId| engine.holdings.broadcast(*id).is_some_and(|w| w.ack_timeout.is_some());
    let awaiting: Vec<_> = ids.iter().copied().filter(awaits).collect();
    if !awaiting.is_empty() {
        engine.store.wake_acknowledged(&awaiting).await?;
    }
    for id in engine.store.complete_broadcasts(ids).await? {
        tracing::info!(broadcast_id = id.0, "broadcast completed");
    }
    Ok(())
}

/// One step; true when there is more to do.
async fn sweep(lane: &mut SweepLane) -> bongsu_store::Result<bool> {
    let swept = lane.sweep().await?;
    if swept.settled > 0 {
        tracing::info!(deliveries = swept.settled, "settled deliveries of cancelled or expired broadcasts");
    }
    for id in &swept.completed {
        tracing::info!(broadcast_id = id.0, "broadcast ended");
    }
    Ok(swept.more)
}

async fn housekeep(engine: &Engine, lane: &mut SweepLane) -> bongsu_store::Result<()> {
    engine.store.ensure_partitions().await?;
    lane.forget_senders().await
}
