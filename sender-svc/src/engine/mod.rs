//! The engine: claims batches, calls providers, records outcomes.
//!
//! ```text
//! claim ──▶ line's queue, in rank order ──▶ calls in flight ──▶ answers ──▶ flush ──▶ complete
//!   ▲                                                                         │
//!   └───────── control: heartbeat, renewal, flags, dead senders ◀─────────────┘
//! ```
//!
//! Bounds: calls in flight per line, calls whose answer is not recorded over all lines ([`Limits::unrecorded`]); while the
//! flush lags no call starts, so nothing is claimed. What a kill can duplicate is at most the second of these.

mod call;
mod claim;
mod control;
mod flush;
pub mod held;
pub mod judge;
pub mod line;
mod queue;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{SenderId, Store};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
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
    /// Something became free: look whether there is work to claim.
    claim_now: Notify,
    pulse: control::Pulse,
    calls: TaskTracker,
}

/// Runs until `shutdown`, then drains: nothing new is started, what is in flight is finished and recorded, the rest is
/// given back.
pub async fn run(
    store: Store,
    sender: SenderId,
    limits: Limits,
    lines: Vec<Arc<Line>>,
    shutdown: CancellationToken,
) {
    let engine = Arc::new(Engine {
        store,
        sender,
        unrecorded: Arc::new(Semaphore::new(limits.unrecorded)),
        limits,
        lines,
        holdings: Holdings::new(),
        claim_now: Notify::new(),
        pulse: control::Pulse::new(),
        calls: TaskTracker::new(),
    });
    let (settled, to_flush) = mpsc::channel(FLUSH_CHANNEL);
    let (touched, to_complete) = mpsc::channel(FLUSH_CHANNEL);
    let stop_control = CancellationToken::new();
    let abandon = CancellationToken::new();

    let control = tokio::spawn(control::run(engine.clone(), stop_control.clone()));
    let sweep = tokio::spawn(sweep::run(engine.clone(), to_complete));
    let flush = tokio::spawn(flush::run(engine.clone(), to_flush, touched, abandon.clone()));
    let mut starters = JoinSet::new();
    starters.spawn(claim::run(engine.clone(), settled.clone(), shutdown.clone()));
    for line in &engine.lines {
        starters.spawn(call::run(engine.clone(), line.clone(), settled.clone(), shutdown.clone()));
    }
    drop(settled);

    shutdown.cancelled().await;
    let began = Instant::now();
    while starters.join_next().await.is_some() {}
    engine.calls.close();
    engine.calls.wait().await; // each call has its time-out
    // With the last call the channel's last sender is gone: the flush writes what is left and ends. It only takes longer
    // where the database is away.
    let deadline = began + engine.limits.call_timeout + engine.limits.drain_grace;
    let mut flush = flush;
    if tokio::time::timeout_at(deadline, &mut flush).await.is_err() {
        tracing::error!("the database did not take the last outcomes in time; their calls may be made again");
        abandon.cancel();
        let _ = flush.await;
    }
    let _ = sweep.await;
    stop_control.cancel();
    let _ = control.await;
}
