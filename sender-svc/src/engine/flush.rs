//! Recording answers, grouped: one transaction at a time, on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{
    BroadcastId, DeadReason, DeviceId, Flush, FlushLane, Flushed, Gone, Outcome, StoreError, Verdict,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::held::HeldBatch;
use crate::metrics;

/// Outcomes in one flush at most.
const MOST_OUTCOMES: usize = 1_000;
/// How long the first outcome of a flush waits for company.
const GATHER: Duration = Duration::from_millis(10);
/// A flush that took too long so many times is halved.
const SLOW_BEFORE_HALVING: u32 = 2;
/// After an error of the database.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What the flush is told.
#[derive(Debug)]
pub(super) enum Settled {
    Answer(Answered),
    /// A batch in which nothing was left to do.
    Nothing(Arc<HeldBatch>),
}

/// A delivery with its verdict.
#[derive(Debug)]
pub(super) struct Answered {
    pub held: Arc<HeldBatch>,
    pub device: DeviceId,
    pub verdict: Verdict,
    pub gone: Option<Gone>,
    /// Freed once it is recorded.
    pub unrecorded: Option<OwnedSemaphorePermit>,
}

/// Runs until every sender of `settled` is gone and all is written, or until `abandon`.
pub(super) async fn run(
    engine: Arc<Engine>,
    mut settled: mpsc::Receiver<Settled>,
    touched: mpsc::Sender<BroadcastId>,
    abandon: CancellationToken,
) {
    let mut lane = engine.store.flush_lane(engine.sender);
    let writing = async {
        let mut gathered = Vec::with_capacity(MOST_OUTCOMES);
        while settled.recv_many(&mut gathered, MOST_OUTCOMES).await > 0 {
            let until = Instant::now() + GATHER;
            while gathered.len() < MOST_OUTCOMES {
                let room = MOST_OUTCOMES - gathered.len();
                match tokio::time::timeout_at(until, settled.recv_many(&mut gathered, room)).await {
                    Ok(n) if n > 0 => {}
                    _ => break,
                }
            }
            let (flush, permits) = assemble(std::mem::take(&mut gathered));
            write(&engine, &mut lane, flush, &touched).await;
            drop(permits);
            engine.claim_now.notify_one();
        }
    };
    tokio::select! {
        () = writing => {}
        () = abandon.cancelled() => {}
    }
    lane.close().await;
}

fn assemble(settled: Vec<Settled>) -> (Flush, Vec<OwnedSemaphorePermit>) {
    let mut flush = Flush { outcomes: Vec::with_capacity(settled.len()), ..Flush::default() };
    let mut permits = Vec::with_capacity(settled.len());
    for item in settled {
        match item {
            Settled::Nothing(held) => flush.closed.push(held.lease),
            Settled::Answer(Answered { held, device, verdict, gone, unrecorded }) => {
                flush.outcomes.push(Outcome { batch: held.lease, device, verdict });
                flush.gone.extend(gone);
                permits.extend(unrecorded);
                if held.count_answer() {
                    flush.closed.push(held.lease);
                }
            }
        }
    }
    (flush, permits)
}

/// Writes a flush, however long the database is away. One that is too much for it is halved; what it refuses is halved
/// until the one outcome is found that it does not take, so that this one cannot wedge the rest.
async fn write(engine: &Engine, lane: &mut FlushLane, flush: Flush, touched: &mpsc::Sender<BroadcastId>) {
    let mut todo = vec![flush];
    let (mut retry, mut slow) = (RETRY.0, 0);
    while let Some(flush) = todo.pop() {
        let began = Instant::now();
        let error = match lane.flush(&flush).await {
            Ok(flushed) => {
                if retry > RETRY.0 {
                    tracing::info!("recording outcomes again");
                }
                (retry, slow) = (RETRY.0, 0);
                metrics::flushed(began.elapsed(), &flushed);
                report(&flushed);
                engine.holdings.forget(flush.closed.iter());
                for id in flushed.touched {
                    // Not waited for: the sweep completes what does not fit.
                    let _ = touched.try_send(id);
                }
                continue;
            }
            Err(error) => error,
        };
        let refused = matches!(error, StoreError::Data(_));
        slow += u32::from(matches!(error, StoreError::TooSlow(_)));
        if flush.outcomes.len() > 1 && (refused || slow >= SLOW_BEFORE_HALVING) {
            slow = 0;
            tracing::warn!(outcomes = flush.outcomes.len(), "halving a flush: {error}");
            // The later half is written last: it closes batches, which have all their outcomes by then.
            let (first, later) = halves(flush);
            todo.extend([later, first]);
            continue;
        }
        if retry == RETRY.0 {
            tracing::error!(outcomes = flush.outcomes.len(), "cannot record outcomes, trying again: {error}");
        }
        todo.push(if refused { without_words(flush) } else { flush });
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY.1);
    }
}

fn halves(mut flush: Flush) -> (Flush, Flush) {
    let outcomes = flush.outcomes.drain(..flush.outcomes.len() / 2).collect();
    (Flush { outcomes, ..Flush::default() }, flush)
}

/// An outcome that the database does not take, reduced to what it must take: no provider's words, no device to retire, no
/// retry. It happens for no input known to us; a dead letter then says so.
fn without_words(mut flush: Flush) -> Flush {
    flush.gone.clear();
    for outcome in &mut flush.outcomes {
        tracing::error!(
            broadcast_id = outcome.batch.broadcast.0,
            device_id = outcome.device.0,
            "an outcome cannot be recorded as it is"
        );
        if outcome.verdict != Verdict::Sent {
            outcome.verdict = Verdict::Dead {
                reason: DeadReason::Rejected,
                code: "unrecordable".to_owned(),
                detail: String::new(),
            };
        }
    }
    flush
}

fn report(flushed: &Flushed) {
    if flushed.fenced > 0 || flushed.stale > 0 {
        tracing::warn!(
            fenced = flushed.fenced,
            stale = flushed.stale,
            "outcomes of batches that another sender holds, or that were settled before, were dropped"
        );
    }
}
