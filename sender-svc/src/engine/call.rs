//! Making the calls of one line, as many at a time as its bounds allow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bongsu_store::{DeviceId, Probe, Verdict};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::flush::{Answered, Settled};
use super::health;
use super::held::{HeldBatch, Job};
use super::hygiene;
use super::judge::{Case, judge, provider_pause};
use super::line::Line;
use super::pace::{Counted, Slot};
use super::queue::Next;
use super::start::{LOOK_AGAIN, Start, may_note, may_start, may_start_at_rate, may_start_in_slot};
use super::traced::CallSpan;
use crate::provider::answer::SlowDown;
use crate::provider::{Answer, Call};

/// A call that may begin.
#[derive(Debug)]
pub(super) struct Ready {
    pub line: Arc<Line>,
    pub job: Job,
    /// A place among the calls that may be unrecorded, and one among the line's; a probe has neither.
    pub unrecorded: Option<OwnedSemaphorePermit>,
    pub flight: Option<OwnedSemaphorePermit>,
    /// With a rate limit, when it may begin; one that must be noted first gets it after that, and till then has a place among
    /// those that wait for it.
    pub slot: Option<Slot>,
    pub place: Option<Counted>,
    /// Where it is to tell if a parked provider works again.
    pub probe: Option<Probe>,
}

/// Where calls go: straight to the provider, or by way of a note that they are about to be made.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    pub engine: Arc<Engine>,
    pub settled: mpsc::Sender<Settled>,
    pub to_mark: mpsc::Sender<Ready>,
}

impl Calls {
    /// Begins a call, or has it noted first where it must not be repeated.
    pub(super) async fn begin(&self, ready: Ready) {
        ready.line.count_call();
        if ready.job.held.work.at_most_once {
            // Closed by an abandoned drain only.
            let _ = self.to_mark.send(ready).await;
        } else {
            spawn(&self.engine, ready, &self.settled);
        }
    }
}

/// Makes a call that may start now.
pub(super) fn spawn(engine: &Arc<Engine>, ready: Ready, settled: &mpsc::Sender<Settled>) {
    // Boxed: its state is nearly 3 kB, which the runtime would move about at each begin and end.
    engine.calls.spawn(Box::pin(make_call(engine.clone(), ready, settled.clone())));
}

pub(super) async fn run(calls: Calls, line: Arc<Line>, drain: CancellationToken) {
    let engine = &calls.engine;
    let start_calls = async {
        // The semaphores are never closed.
        while let (Ok(unrecorded), Ok(flight)) =
            (engine.unrecorded.clone().acquire_owned().await, line.flight.clone().acquire_owned().await)
        {
            while !line.has_room() && !line.is_closed() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            let Next { job, rank, place: at_rate } = line.queue.pop(|| line.is_closed()).await;
            if line.wanted() > 0 {
                engine.claim_now.notify_one();
            }
            let capped = at_rate.is_some();
            let (mut slot, mut place) = (None, at_rate);
            let start = if capped {
                // It gets its slots beside the line, so that nothing waits behind it.
                may_start(engine, &line, &job.held, false).await
            } else if job.held.work.at_most_once {
                may_note(engine, &line, &job.held, &mut place).await
            } else {
                may_start_in_slot(engine, &line, &job.held, &mut slot).await
            };
            let settled = match start {
                Start::Call => {
                    if let Some(rank) = rank.filter(|_| capped || line.pacer.rate().is_some()) {
                        line.vtime.fetch_max(rank, Ordering::Relaxed);
                    }
                    let (unrecorded, flight) = (Some(unrecorded), Some(flight));
                    let line = line.clone();
                    calls.begin(Ready { line, job, unrecorded, flight, slot, place, probe: None }).await;
                    continue;
                }
                Start::Settle(verdict) => {
                    Settled::Answer(Answered::without_call(job.held, job.device, verdict))
                }
                Start::GiveBack => Settled::Back(job.held),
                Start::Drop => continue,
            };
            if calls.settled.send(settled).await.is_err() {
                return;
            }
        }
    };
    // Cancelled between two calls: what is still queued stays leased, and is given back at the end of the drain.
    tokio::select! {
        () = start_calls => {}
        () = drain.cancelled() => {}
    }
}

async fn make_call(engine: Arc<Engine>, ready: Ready, settled: mpsc::Sender<Settled>) {
    let Ready { line, job: Job { held, device, target }, unrecorded, flight, mut slot, place, probe } = ready;
    // Since it was decided, much may have happened: noting it waits for Postgres, and this process may have stood still.
    let start = match (&held.work.cap, probe) {
        (Some(cap), _) => may_start_at_rate(&engine, &line, &held, cap, probe.is_some(), &mut slot).await,
        (None, Some(_)) => may_start(&engine, &line, &held, true).await,
        (None, None) => may_start_in_slot(&engine, &line, &held, &mut slot).await,
    };
    drop(place);
    if held.work.cap.is_some() {
        // The slot after this one is for who is next.
        line.queue.look_again();
    }
    let instead = match start {
        Start::Call => None,
        Start::Drop => {
            line.uncount_call();
            return;
        }
        Start::Settle(verdict) => {
            Some(Settled::Answer(Answered::without_call(held.clone(), device, verdict)))
        }
        // What was noted must be taken back.
        Start::GiveBack if held.work.at_most_once => {
            let (code, detail) = ("held".to_owned(), String::new());
            let verdict = Verdict::Retry { after: Duration::ZERO, code, detail, charged: false };
            Some(Settled::Answer(Answered::without_call(held.clone(), device, verdict)))
        }
        Start::GiveBack => Some(Settled::Back(held.clone())),
    };
    if let Some(instead) = instead {
        line.uncount_call();
        let _ = settled.send(instead).await;
        return;
    }
    if slot.is_some() {
        line.pacer.used();
    }
    let started = Instant::now();
    let (token, time_left) = (&*target.token, held.work.time_left());
    let span = held.trace_call().map(|trace| Box::new(CallSpan::begin(&engine, &line, &held, trace)));
    let trace = span.as_ref().and_then(|span| span.header.as_deref());
    let call = Call { now: started, origin: held.work.origin, device, token, time_left, trace };
    let answer = held.prepared.call(call).await;
    if let Some(span) = span {
        span.end(&answer);
    }
    drop(flight);
    let took = started.elapsed();
    line.count_end(&answer, took);
    line.meter.called(&answer, took);
    health::note(&engine, &line, &answer, held.lease.failures, probe);
    if let Answer::SlowDown { whom: SlowDown::Provider, retry_after, .. } = &answer {
        slow_down(&engine, &line, provider_pause(*retry_after, &line.schedule));
    }
    let unfit = hygiene::unfit(&line, &held, device, target, &answer);
    let failures = held.lease.failures;
    let last = failures + 1 >= line.schedule.max_attempts;
    let breaker = &line.breaker;
    let charged = !(probe.is_some() || breaker.is_parked() || last && breaker.is_suspect(Instant::now()));
    let (at_most_once, doubted) = (held.work.at_most_once, breaker.doubts());
    let case = Case { failures, charged, at_most_once, doubted };
    let verdict = judge(answer, case, &line.schedule);
    let answered = Answered { held, device, verdict, unfit, unrecorded };
    // Only an abandoned drain closes the channel; the call may then be made again by whoever takes the batch.
    let _ = settled.send(Settled::Answer(answered)).await;
}

/// Leaves the provider alone here at once, and everywhere through Postgres.
fn slow_down(engine: &Engine, line: &Line, pause: Duration) {
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
        Self { held, device, verdict, unfit: None, unrecorded: None }
    }
}
