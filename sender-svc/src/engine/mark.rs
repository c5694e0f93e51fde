//! At most once: noting in Postgres, under the fence, that deliveries are about to be called. Only what is noted is called,
//! so that whoever takes the batch over knows what may have been sent.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{DeviceId, FlushLane, LeasedBatch};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::call::{self, Ready};
use super::flush::Settled;

/// Deliveries noted in one statement at most.
const MOST: usize = 500;
/// After an error of the database.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Runs until the last of those who make calls has ended.
pub(super) async fn run(
    engine: Arc<Engine>,
    settled: mpsc::Sender<Settled>,
    mut to_mark: mpsc::Receiver<Ready>,
    drain: CancellationToken,
) {
    let mut lane = engine.store.flush_lane(engine.sender);
    let mut group = Vec::with_capacity(MOST);
    while to_mark.recv_many(&mut group, MOST).await > 0 {
        let deliveries: Vec<_> = group.iter().map(|r| (r.job.held.lease, r.job.device)).collect();
        let marked = mark(&mut lane, &deliveries, &drain).await;
        for (i, ready) in group.drain(..).enumerate() {
            if marked.get(i) == Some(&true) {
                call::spawn(&engine, ready, &settled);
            } else {
                ready.line.uncount_call();
                let _ = settled.send(Settled::Back(ready.job.held)).await;
            }
        }
    }
    lane.close().await;
}

/// Tries until it is done; a drain does not wait for a database that is away.
async fn mark(
    lane: &mut FlushLane,
    deliveries: &[(LeasedBatch, DeviceId)],
    drain: &CancellationToken,
) -> Vec<bool> {
    let mut retry = RETRY.0;
    loop {
        match lane.mark_sending(deliveries).await {
            Ok(marked) => return marked,
            Err(error) => tracing::warn!("cannot note what is about to be called, so nothing is: {error}"),
        }
        if drain.is_cancelled() {
            return vec![];
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY.1);
    }
}
