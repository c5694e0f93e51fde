//! Watching broadcasts: one poller per watched broadcast feeds every stream that watches it.
//!
//! The latest status wins: a stream that is slow leaves updates out, and always gets the last one. A poller ends with the
//! final status, or when its last stream is gone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bongsu_proto::v1;
use bongsu_store::{BroadcastId, BroadcastState, Status as Progress, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{convert, status};
use crate::metrics;

/// A poller reads this often, or as seldom as keeps it under a twentieth of the database's time.
const TICK: Duration = Duration::from_millis(250);
const TICK_PER_READ: u32 = 20;
/// The rate is measured over this time.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// First reads of broadcasts at a time: of one broadcast there is one, for which all wait that watch it.
const FIRST_READS: usize = 16;
/// Streams served at a time by this process.
const MAX_STREAMS: usize = 2_000;

type Latest = watch::Receiver<v1::BroadcastStatus>;

/// All watched broadcasts of this process.
#[derive(Debug)]
pub struct Watchers {
    store: Store,
    shutdown: CancellationToken,
    streams: Arc<Semaphore>,
    polled: Mutex<HashMap<BroadcastId, Weak<Latest>>>,
    /// Held for a first read, by broadcast: when a sender has come back, a thousand ask for the same few broadcasts at once.
    first_reads: [tokio::sync::Mutex<()>; FIRST_READS],
}

impl Watchers {
    pub fn new(store: Store, shutdown: CancellationToken) -> Arc<Self> {
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        Arc::new(Self { store, shutdown, streams, polled: Mutex::default(), first_reads: Default::default() })
    }

    /// A stream of a broadcast's statuses: one at once, one for each change, the final one, the end.
    pub async fn watch(
        self: &Arc<Self>,
        id: BroadcastId,
    ) -> Result<mpsc::Receiver<Result<v1::StreamStatusResponse, Status>>, Status> {
        if self.shutdown.is_cancelled() {
            return Err(status::draining());
        }
        let permit =
            self.streams.clone().try_acquire_owned().map_err(|_| status::too_many_watchers(MAX_STREAMS))?;
        let latest = self.latest(id).await?;
        metrics::watchers(MAX_STREAMS - self.streams.available_permits());
        // One message under way: what the client does not take in time is replaced by the latest.
        let (out, messages) = mpsc::channel(1);
        tokio::spawn(forward(self.clone(), latest, out, permit));
        Ok(messages)
    }

    fn polled(&self) -> MutexGuard<'_, HashMap<BroadcastId, Weak<Latest>>> {
        self.polled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the broadcast's poller, or starts one.
    async fn latest(self: &Arc<Self>, id: BroadcastId) -> Result<Arc<Latest>, Status> {
        let join = |polled: &HashMap<_, Weak<Latest>>| polled.get(&id).and_then(Weak::upgrade);
        if let Some(latest) = join(&self.polled()) {
            return Ok(latest);
        }
        let _turn = self.first_reads[id.0.unsigned_abs() as usize % FIRST_READS].lock().await;
        if let Some(latest) = join(&self.polled()) {
            return Ok(latest); // somebody else was faster
        }
        let progress = self.store.status(id).await.map_err(|e| status::from_store(&e, "StreamStatus"))?;
        let progress = progress.ok_or_else(|| status::broadcast_not_found(id))?;
        let (publish, latest) = watch::channel(convert::status(&progress, 0.0, None));
        let latest = Arc::new(latest);
        let mut polled = self.polled();
        polled.retain(|_, poller| poller.strong_count() > 0);
        if !progress.state.is_final() {
            polled.insert(id, Arc::downgrade(&latest));
            let poller = Poller { store: self.store.clone(), progress, publish, history: VecDeque::new() };
            tokio::spawn(poller.run(Arc::downgrade(&latest), self.shutdown.clone()));
        }
        Ok(latest)
    }
}

async fn forward(
    watchers: Arc<Watchers>,
    latest: Arc<Latest>,
    out: mpsc::Sender<Result<v1::StreamStatusResponse, Status>>,
    permit: OwnedSemaphorePermit,
) {
    let mut receiver = Latest::clone(&latest);
    receiver.mark_changed();
    let forwarding = async {
        let mut last = v1::BroadcastState::Unspecified;
        // Ends with the poller, after its last status was seen.
        while receiver.changed().await.is_ok() {
            let status = receiver.borrow_and_update().clone();
            last = status.state();
            if out.send(Ok(v1::StreamStatusResponse { status: Some(status) })).await.is_err() {
                break;
            }
        }
        matches!(last, v1::BroadcastState::Completed | v1::BroadcastState::Cancelled)
    };
    let complete = tokio::select! {
        complete = forwarding => complete,
        () = out.closed() => true,
        () = watchers.shutdown.cancelled() => false,
    };
    if !complete {
        // Never an end that looks like the broadcast's.
        let _ = out.send(Err(status::draining())).await;
    }
    drop(permit);
    metrics::watchers(MAX_STREAMS - watchers.streams.available_permits());
}

struct Poller {
    store: Store,
    progress: Progress,
    publish: watch::Sender<v1::BroadcastStatus>,
    /// When how many deliveries were settled, over the last [`RATE_WINDOW`].
    history: VecDeque<(Instant, i64)>,
}

impl Poller {
    async fn run(mut self, watched: Weak<Latest>, shutdown: CancellationToken) {
        let mut pause = TICK;
        let mut troubled = false;
        self.note(Instant::now());
        while watched.strong_count() > 0 {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => return,
            }
            let began = Instant::now();
            match self.store.status(self.progress.id).await {
                Ok(Some(progress)) => {
                    troubled = false;
                    pause = TICK.max(began.elapsed() * TICK_PER_READ);
                    self.publish(progress, began);
                    if self.progress.state.is_final() {
                        return;
                    }
                }
                Ok(None) => return, // deleted: nothing will come
                Err(error) => {
                    if !troubled {
                        tracing::warn!(broadcast_id = self.progress.id.0, "cannot read the status: {error}");
                    }
                    troubled = true;
                }
            }
        }
    }

    fn publish(&mut self, progress: Progress, at: Instant) {
        let changed = progress.state != self.progress.state
            || progress.paused != self.progress.paused
            || progress.providers != self.progress.providers;
        self.progress = progress;
        self.note(at);
        let rate = if self.progress.state.is_final() { 0.0 } else { self.rate() };
        let stalled = rate == 0.0 && self.publish.borrow().rate_per_second > 0.0;
        if changed || stalled {
            let _ = self.publish.send(convert::status(&self.progress, rate, self.eta(rate)));
        }
    }

    fn note(&mut self, at: Instant) {
        let settled = self.progress.providers.iter().map(|p| p.counts.settled()).sum();
        self.history.push_back((at, settled));
        while self.history.len() > 2 && self.history.get(1).is_some_and(|(t, _)| at - *t > RATE_WINDOW) {
            self.history.pop_front();
        }
    }

    fn rate(&self) -> f64 {
        match (self.history.front(), self.history.back()) {
            (Some((from, before)), Some((to, after))) if to > from => {
                (after - before).max(0) as f64 / (*to - *from).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    fn eta(&self, rate: f64) -> Option<Duration> {
        let fanned_out =
            matches!(self.progress.state, BroadcastState::Delivering | BroadcastState::Cancelling);
        let pending: i64 = self.progress.providers.iter().map(|p| p.counts.pending()).sum();
        // Before the end of the fan-out the total is not known, so neither is the end.
        (fanned_out && rate > 0.0).then(|| Duration::from_secs_f64(pending as f64 / rate))
    }
}
