//! Recording answers, grouped: one transaction at a time, on a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bongsu_store::{
    BroadcastId, DeadReason, DeviceId, Flush, FlushLane, Flushed, Outcome, StoreError, Unfit, Verdict,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::held::{HeldBatch, Holdings};
use crate::metrics;

/// Outcomes in one flush at most. What each flush costs, however little is in it, is shared by more of them than with half as many:
/// an eighth less of Postgres' time for each, measured side by side. A crash repeats no more for it: calls without a recorded
/// outcome have a bound of their own.
const MOST_OUTCOMES: usize = 2_000;
/// The first outcome of a flush waits for so much company …
const ENOUGH: usize = 1_000;
/// … but no longer than this …
const GATHER: Duration = Duration::from_millis(20);
/// … and looks so often how much there is. To be woken by each outcome would cost more.
const LOOK: Duration = Duration::from_millis(2);
/// Code of a dead letter whose own words the database refused.
const UNRECORDABLE: &str = "unrecordable";
/// A flush that took too long so many times is halved.
const SLOW_BEFORE_HALVING: u32 = 2;
/// After an error of the database.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What the flush is told.
#[derive(Debug)]
pub(super) enum Settled {
    Answer(Answered),
    /// A delivery that is not called now: its batch is offered again once the others have their answers.
    Back(Arc<HeldBatch>),
    /// A batch in which nothing was left to do.
    Nothing(Arc<HeldBatch>),
    /// Devices that were held back, and are not to be called again.
    Unfit(Vec<Unfit>),
}

/// A delivery with its verdict.
#[derive(Debug)]
pub(super) struct Answered {
    pub held: Arc<HeldBatch>,
    pub device: DeviceId,
    pub verdict: Verdict,
    pub unfit: Option<Unfit>,
    /// Freed once it is recorded.
    pub unrecorded: Option<OwnedSemaphorePermit>,
}

/// Since when the outcomes have waited that are being recorded.
#[derive(Debug)]
pub(super) struct Lag {
    epoch: Instant,
    /// In microseconds of `epoch`; 0: nothing waits.
    since: AtomicU64,
}

impl Lag {
    pub(super) fn new() -> Self {
        Self { epoch: Instant::now(), since: AtomicU64::new(0) }
    }

    fn begins(&self) {
        let now = u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.since.store(now.max(1), Ordering::Relaxed);
    }

    fn ends(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Duration {
        match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.epoch.elapsed().saturating_sub(Duration::from_micros(since)),
        }
    }
}

/// Runs until every sender of `settled` is gone and all is written, or until `abandon`.
pub(super) async fn run(
    engine: Arc<Engine>,
    mut settled: mpsc::Receiver<Settled>,
    touched: mpsc::UnboundedSender<BroadcastId>,
    abandon: CancellationToken,
) {
    let mut lane = engine.store.flush_lane(engine.sender);
    let writing = async {
        let mut gathered = Vec::with_capacity(MOST_OUTCOMES);
        while settled.recv_many(&mut gathered, MOST_OUTCOMES).await > 0 {
            engine.flush_lag.begins();
            let until = Instant::now() + GATHER;
            while gathered.len() + settled.len() < ENOUGH && Instant::now() < until {
                tokio::time::sleep(LOOK).await;
            }
            while gathered.len() < MOST_OUTCOMES
                && let Ok(more) = settled.try_recv()
            {
                gathered.push(more);
            }
            let (flush, recorded) = assemble(gathered.drain(..));
            write(&engine, &mut lane, flush, &touched).await;
            engine.flush_lag.ends();
            drop(recorded);
            engine.claim_now.notify_one();
        }
    };
    tokio::select! {
        () = writing => {}
        () = abandon.cancelled() => {}
    }
    lane.close().await;
}

/// What is to be written, and the places among the unrecorded that become free with it.
fn assemble(settled: impl ExactSizeIterator<Item = Settled>) -> (Flush, Option<OwnedSemaphorePermit>) {
    let mut flush = Flush { outcomes: Vec::with_capacity(settled.len()), ..Flush::default() };
    let mut places: Option<OwnedSemaphorePermit> = None;
    for item in settled {
        match item {
            Settled::Nothing(held) => flush.closed.push(held.lease),
            Settled::Unfit(unfit) => flush.unfit.extend(unfit),
            Settled::Back(held) => {
                if held.count_answer() {
                    flush.closed.push(held.lease);
                }
            }
            Settled::Answer(Answered { held, device, verdict, unfit, unrecorded }) => {
                flush.outcomes.push(Outcome { batch: held.lease, device, verdict });
                flush.unfit.extend(unfit);
                if let Some(place) = unrecorded {
                    match &mut places {
                        Some(places) => places.merge(place),
                        None => places = Some(place),
                    }
                }
                if held.count_answer() {
                    flush.closed.push(held.lease);
                }
            }
        }
    }
    (flush, places)
}

/// Writes a flush, however long the database is away. One that is too much for it is halved; what it refuses is halved
/// until the one outcome is found that it does not take, so that this one cannot wedge the rest.
async fn write(
    engine: &Engine,
    lane: &mut FlushLane,
    flush: Flush,
    touched: &mpsc::UnboundedSender<BroadcastId>,
) {
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
                metrics::flushed(began.elapsed(), &flushed, &engine.lines);
                report(&flushed);
                engine.holdings.forget(flush.closed.iter());
                for id in flushed.touched {
                    // Closed by an abandoned drain only.
                    let _ = touched.send(id);
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
        if !refused {
            todo.push(flush);
        } else if let Some(reduced) = reduced(flush, &engine.holdings) {
            todo.push(reduced);
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY.1);
    }
}

fn halves(mut flush: Flush) -> (Flush, Flush) {
    let outcomes = flush.outcomes.drain(..flush.outcomes.len() / 2).collect();
    (Flush { outcomes, ..Flush::default() }, flush)
}

/// A flush of at most one outcome that the database refuses, with less in it. It happens for no input known to us. First
/// the devices are left as they are, then a provider's words are left out and the delivery becomes a dead letter that says so;
/// in the end the flush is dropped, and its batch with it: whoever takes that next calls again.
fn reduced(mut flush: Flush, holdings: &Holdings) -> Option<Flush> {
    if !flush.unfit.is_empty() {
        flush.unfit.clear();
        return Some(flush);
    }
    if let [Outcome { verdict: verdict @ (Verdict::Dead { .. } | Verdict::Retry { .. }), .. }] =
        &mut flush.outcomes[..]
        && !matches!(verdict, Verdict::Dead { code, .. } if code == UNRECORDABLE)
    {
        let reason = DeadReason::Rejected;
        *verdict = Verdict::Dead { reason, code: UNRECORDABLE.to_owned(), detail: String::new() };
        return Some(flush);
    }
    let batches: Vec<_> = flush.outcomes.iter().map(|o| o.batch).chain(flush.closed).collect();
    tracing::error!(?batches, "an outcome cannot be recorded; its batch is given up");
    holdings.forget(batches.iter());
    None
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

#[cfg(test)]
mod tests {
    use bongsu_store::{BatchId, LeasedBatch, ProviderId};

    use super::*;

    fn flush(verdict: Verdict) -> Flush {
        let batch = LeasedBatch {
            id: BatchId(1),
            shard: 0,
            epoch: 1,
            broadcast: BroadcastId(1),
            provider: ProviderId(1),
            attempt: 1,
            failures: 0,
            rank: 0,
            size: 1,
            reclaims: 0,
            ranged: true,
        };
        let outcomes = vec![Outcome { batch, device: DeviceId(1), verdict }];
        Flush { outcomes, closed: vec![batch], unfit: vec![] }
    }

    #[test]
    fn a_refused_outcome_loses_its_words_first_and_never_wedges_the_others() {
        let holdings = Holdings::new();
        let retry =
            Verdict::Retry { after: Duration::MAX, code: "503".into(), detail: String::new(), charged: true };
        let plain = reduced(flush(retry), &holdings).expect("a plainer one");
        assert!(matches!(&plain.outcomes[0].verdict, Verdict::Dead { code, .. } if code == UNRECORDABLE));
        assert!(reduced(plain, &holdings).is_none());
        assert!(reduced(flush(Verdict::Sent), &holdings).is_none(), "nothing can be left out of it");
    }

    #[test]
    fn batches_are_closed_with_the_later_half() {
        let mut whole = flush(Verdict::Sent);
        whole.outcomes.push(whole.outcomes[0].clone());
        let (first, later) = halves(whole);
        assert_eq!((first.outcomes.len(), first.closed.len()), (1, 0));
        assert_eq!((later.outcomes.len(), later.closed.len()), (1, 1));
    }
}
