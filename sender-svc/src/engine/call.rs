//! Making the calls of one line, as many at a time as its bounds allow.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{DeviceId, Gone, Verdict};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::flush::{Answered, Settled};
use super::held::{HeldBatch, Job};
use super::judge::{judge, slow_down_pause};
use super::line::Line;
use crate::metrics;
use crate::provider::Answer;

/// While a call must not start because the lease or the heartbeat is overdue, this is how often it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A provider's wish for a pause is heeded up to this for all its deliveries; the delivery that it answered waits in full.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What to do with the delivery at the head of the queue.
enum Start {
    Call,
    Settle(Verdict),
    /// Its batch is somebody else's now.
    Drop,
}

pub(super) async fn run(
    engine: Arc<Engine>,
    line: Arc<Line>,
    settled: mpsc::Sender<Settled>,
    drain: CancellationToken,
) {
    let start_calls = async {
        // The semaphores are never closed.
        while let (Ok(unrecorded), Ok(flight)) =
            (engine.unrecorded.clone().acquire_owned().await, line.flight.clone().acquire_owned().await)
        {
            line.unpaused().await;
            let job = line.queue.pop().await;
            if line.wanted() > 0 {
                engine.claim_now.notify_one();
            }
            match may_start(&engine, &job.held).await {
                Start::Call => {
                    line.count_call();
                    let call =
                        make_call(engine.clone(), line.clone(), job, unrecorded, flight, settled.clone());
                    engine.calls.spawn(call);
                }
                Start::Settle(verdict) => {
                    let answered = Answered::without_call(job.held, job.device, verdict);
                    if settled.send(Settled::Answer(answered)).await.is_err() {
                        return;
                    }
                }
                Start::Drop => {}
            }
        }
    };
    // Cancelled between two calls: what is still queued stays leased, and is given back at the end of the drain.
    tokio::select! {
        () = start_calls => {}
        () = drain.cancelled() => {}
    }
}

async fn may_start(engine: &Engine, held: &HeldBatch) -> Start {
    loop {
        if held.is_lost() {
            return Start::Drop;
        }
        if held.work.is_cancelled() {
            return Start::Settle(Verdict::Cancelled);
        }
        if held.work.is_expired() {
            return Start::Settle(Verdict::Expired);
        }
        if engine.holdings.lease_allows_start(held) && engine.pulse.is_fresh() {
            return Start::Call;
        }
        // Renewal or heartbeat is late: Postgres is slow or away. Somebody else may soon hold this batch.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn make_call(
    engine: Arc<Engine>,
    line: Arc<Line>,
    job: Job,
    unrecorded: OwnedSemaphorePermit,
    flight: OwnedSemaphorePermit,
    settled: mpsc::Sender<Settled>,
) {
    let Job { held, device, target } = job;
    let started = tokio::time::Instant::now();
    let answer = line.webhook.call(held.work.id, device, &target.token, &held.work.notification).await;
    drop(flight);
    line.count_answer();
    metrics::called(&line.name, &answer, started.elapsed());
    let mut gone = None;
    match &answer {
        Answer::SlowDown { retry_after, .. } => {
            slow_down(&engine, &line, slow_down_pause(*retry_after, &line.schedule));
        }
        Answer::Gone(_) => {
            gone = Some(Gone { device, token: target.token, registered_at: target.registered_at });
        }
        _ => {}
    }
    let verdict = judge(answer, held.lease.failures, &line.schedule);
    let answered = Answered { held, device, verdict, gone, unrecorded: Some(unrecorded) };
    // Only an abandoned drain closes the channel; the call may then be made again by whoever takes the batch.
    let _ = settled.send(Settled::Answer(answered)).await;
}

/// Leaves the provider alone here at once, and everywhere through Postgres.
fn slow_down(engine: &Engine, line: &Line, pause: Duration) {
    let pause = pause.min(LONGEST_PAUSE);
    if !line.pause(pause) {
        return;
    }
    tracing::warn!(
        provider = line.name,
        pause_ms = pause.as_millis() as u64,
        "the provider asked to slow down"
    );
    let (store, provider) = (engine.store.clone(), line.provider);
    engine.calls.spawn(async move {
        if let Err(error) = store.hold_provider(provider, pause).await {
            tracing::warn!("the pause is not known to other senders: {error}");
        }
    });
}

impl Answered {
    /// A delivery that was settled without asking the provider.
    pub(super) fn without_call(held: Arc<HeldBatch>, device: DeviceId, verdict: Verdict) -> Self {
        Self { held, device, verdict, gone: None, unrecorded: None }
    }
}
