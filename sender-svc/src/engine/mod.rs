//! The engine: claims batches, calls providers, records outcomes.
//!
//! ```text
//! claim ──▶ line's queue, in rank order ──▶ (mark ──▶) calls in flight ──▶ answers ──▶ flush ──▶ complete
//!   ▲                                                                                  │
//!   └───────── control: heartbeat, renewal, flags, signals, dead senders ◀─────────────┘
//! ```
//!
//! Bounds: calls in flight per line, and its rate over all senders (pace, reserve), calls whose answer is not recorded over all lines ([`Limits::unrecorded`]); while the
//! flush lags no call starts, so nothing is claimed. What a kill can duplicate is at most the second of these.

pub mod adapt;
mod breaker;
mod call;
mod capped;
mod claim;
mod complete;
mod control;
pub mod doubt;
mod flush;
mod health;
pub mod held;
mod hygiene;
pub mod judge;
pub mod line;
mod live;
mod mark;
pub mod pace;
mod probe;
mod queue;
mod ramp;
mod reserve;
mod slots;
pub mod slow_tier;
mod start;
mod sweep;
mod traced;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bongsu_live::Presence;
use bongsu_ops::trace::Tracer;
use bongsu_store::{SenderId, Store};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use held::Holdings;
use line::Line;

/// Settled deliveries waiting for the flush; a full channel makes calls wait with their answers, within the bound of
/// unrecorded calls.
const FLUSH_CHANNEL: usize = 4_096;

/// Times and bounds of a sender.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long a claim holds a batch.
    pub lease: Duration,
    /// How often held batches are renewed.
    pub renew_every: Duration,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// Calls started and not yet recorded, over all providers.
    pub unrecorded: usize,
    /// How long a drain waits for what cannot be ended otherwise.
    pub drain_grace: Duration,
}

/// Between the end of a call that starts last and the end of the lease: for the flush, and for clocks that drift apart.
pub const LEASE_MARGIN: Duration = Duration::from_secs(1);

impl Limits {
    /// How long after the claim was sent calls may start.
    pub fn start_window(&self) -> Duration {
        self.lease.saturating_sub(self.call_timeout + LEASE_MARGIN)
    }
}

/// What the engine's tasks share.
#[derive(Debug)]
struct Engine {
    store: Store,
    sender: SenderId,
    limits: Limits,
    lines: Vec<Arc<Line>>,
    holdings: Holdings,
    unrecorded: Arc<Semaphore>,
    flush_lag: flush::Lag,
    tracer: Tracer,
    presence: Presence,
    /// Something became free: look whether there is work to claim, if the last look found some.
    claim_now: Notify,
    /// There is something to take for sure: the work of a dead sender, a probe.
    take_now: Notify,
    /// Leases have run out: the next claim looks for them.
    look_for_leases: AtomicBool,
    /// A call waits for a slot of its provider's rate.
    slots_needed: Notify,
    pulse: control::Pulse,
    calls: TaskTracker,
}

impl Engine {
    fn new(
        store: Store,
        presence: Presence,
        sender: SenderId,
        limits: Limits,
        lines: Vec<Arc<Line>>,
        tracer: Tracer,
    ) -> Self {
        Self {
            store,
            sender,
            unrecorded: Arc::new(Semaphore::new(limits.unrecorded)),
            limits,
            lines,
            flush_lag: flush::Lag::new(),
            tracer,
            presence,
            holdings: Holdings::new(),
            claim_now: Notify::new(),
            take_now: Notify::new(),
            look_for_leases: AtomicBool::new(true),
            slots_needed: Notify::new(),
            pulse: control::Pulse::new(),
            calls: TaskTracker::new(),
        }
    }
}

/// Runs until `shutdown`, then drains: nothing new is started, what is in flight is finished and recorded, the rest is
/// given back.
///
/// # Errors
///
/// When one of its tasks ended by itself, which only a bug does: better no sender than one that holds work and does not do
/// it. What it held is taken over like that of a killed one.
pub async fn run(
    store: Store,
    presence: Presence,
    sender: SenderId,
    limits: Limits,
    lines: Vec<Arc<Line>>,
    tracer: Tracer,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let engine = Arc::new(Engine::new(store, presence, sender, limits, lines, tracer));
    let (settled, to_flush) = mpsc::channel(FLUSH_CHANNEL);
    let (touched, to_complete) = mpsc::unbounded_channel();
    let stop_control = CancellationToken::new();
    let abandon = CancellationToken::new();

    // Each ends in its time during a drain, and none before.
    let mut starters = JoinSet::new();
    let (to_mark, marking) = mpsc::channel(FLUSH_CHANNEL);
    let calls = call::Calls { engine: engine.clone(), settled, to_mark };
    starters.spawn(reserve::run(engine.clone(), shutdown.clone()));
    starters.spawn(claim::run(calls.clone(), shutdown.clone()));
    for line in &engine.lines {
        starters.spawn(call::run(calls.clone(), line.clone(), shutdown.clone()));
    }
    starters.spawn(slow_tier::run(engine.clone(), shutdown.clone()));
    starters.spawn(sweep::run(engine.clone(), shutdown.clone()));
    starters.spawn(hygiene::run(engine.clone(), calls.settled.clone(), shutdown.clone()));
    starters.spawn(mark::run(engine.clone(), calls.settled.clone(), marking, shutdown.clone()));
    drop(calls);
    let mut recorders = JoinSet::new();
    recorders.spawn(flush::run(engine.clone(), to_flush, touched, abandon.clone()));
    recorders.spawn(complete::run(engine.clone(), to_complete));
    let mut control = JoinSet::new();
    control.spawn(control::run(engine.clone(), stop_control.clone()));

    tokio::select! {
        biased; // with the shutdown all of them end
        () = shutdown.cancelled() => {}
        _ = starters.join_next() => anyhow::bail!("a task that starts calls, or sweeps, ended by itself"),
        _ = recorders.join_next() => anyhow::bail!("a task that records outcomes ended by itself"),
        _ = control.join_next() => anyhow::bail!("the task that keeps leases ended by itself"),
    }
    let drain = async {
        while starters.join_next().await.is_some() {}
        engine.calls.close();
        engine.calls.wait().await;
        // With the last call the channel's last sender is gone: the flush writes what is left and ends, and what
        // completes with it. That only takes longer where the database is away.
        while recorders.join_next().await.is_some() {}
    };
    if tokio::time::timeout(engine.limits.call_timeout + engine.limits.drain_grace, drain).await.is_err() {
        tracing::error!("the drain took too long; calls whose outcome was not recorded may be made again");
        abandon.cancel();
        starters.shutdown().await;
        recorders.shutdown().await;
    }
    stop_control.cancel();
    // Gives back what is still held.
    let _ = tokio::time::timeout(engine.limits.drain_grace, control.join_next()).await;
    Ok(())
}
