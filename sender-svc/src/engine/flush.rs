//! Recording answers, grouped: one transaction at a time, on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{
    BroadcastId, DeviceId, Flush, FlushLane, Flushed, Gone, LeasedBatch, Outcome, StoreError, Verdict,
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
            let closed = flush.closed.clone();
            write(&engine, &mut lane, flush, &touched).await;
            engine.holdings.forget(closed.iter());
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

/// Writes a flush, however long the database is away. What the database refuses is halved until the one outcome is found
/// that it does not take, so that this one cannot wedge the rest.
async fn write(engine: &Engine, lane: &mut FlushLane, flush: Flush, touched: &mpsc::Sender<BroadcastId>) {
    let mut todo = vec![flush];
    let mut retry = RETRY.0;
    while let Some(mut flush) = todo.pop() {
        let began = Instant::now();
        match lane.flush(&flush).await {
            Ok(flushed) => {
                if retry > RETRY.0 {
                    tracing::info!("recording outcomes again");
                }
                retry = RETRY.0;
                metrics::flushed(began.elapsed(), &flushed);
                report(&flushed);
                for id in flushed.touched {
                    let _ = touched.send(id).await;
                }
            }
            Err(StoreError::Unavailable(why)) => {
                if retry == RETRY.0 {
                    tracing::warn!(
                        outcomes = flush.outcomes.len(),
                        "cannot record outcomes, trying again: {why}"
                    );
                }
                todo.push(flush);
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY.1);
            }
            Err(error) if flush.outcomes.len() > 1 => {
                tracing::error!(
                    outcomes = flush.outcomes.len(),
                    "a flush was refused, splitting it: {error}"
                );
                let first = Flush {
                    outcomes: flush.outcomes.drain(..flush.outcomes.len() / 2).collect(),
                    ..Flush::default()
                };
                // Closing comes with the later part, when all outcomes of a batch are in.
                todo.push(flush);
                todo.push(first);
            }
            Err(error) => {
                refuse(engine, &flush, &error);
                let bad: Vec<LeasedBatch> = flush.outcomes.iter().map(|o| o.batch).collect();
                for later in &mut todo {
                    later.closed.retain(|closed| !bad.iter().any(|b| b.id == closed.id));
                }
            }
        }
    }
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

/// An outcome that cannot be written. Its batch is not closed, so it is not called again while this sender lives.
fn refuse(engine: &Engine, flush: &Flush, error: &StoreError) {
    for outcome in &flush.outcomes {
        tracing::error!(
            sender = %engine.sender,
            broadcast = outcome.batch.broadcast.0,
            device = outcome.device.0,
            "an outcome cannot be recorded: {error}"
        );
    }
    if flush.outcomes.is_empty() {
        tracing::error!(batches = flush.closed.len(), "batches cannot be closed: {error}");
    }
}
