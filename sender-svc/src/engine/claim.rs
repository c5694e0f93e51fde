//! Claiming: keeps the lines supplied, a batch at a time, without holding more than they can use soon.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bongsu_store::{ClaimLane, Due, DueDelivery, LeasedBatch, ProviderId, Reclaim, Result, Verdict, Want};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::call::Calls;
use super::capped::Capped;
use super::flush::{Answered, Settled};
use super::held::{HeldBatch, Job};
use super::line::Line;
use super::live::PresenceHealth;
use crate::metrics;

/// Between two looks at an empty queue: from the first, doubled up to the second while it stays empty.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
/// After an error of the database.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Deliveries in a batch until some were seen.
const FULL_BATCH: usize = 500;
/// Batches per lane in one claim, whatever their size.
const MOST_BATCHES: usize = 256;
/// The same for what is claimed beside work in hand.
const MOST_BESIDE: usize = 32;
/// Fresh work below the floor (see [`Line::floor`]), retries that were passed over and leases that ran out are looked for this
/// often, and while there is other work this seldom at least: what a transaction that took long has made lies below, and must not
/// wait for everything above it.
const THOROUGH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// … and the longer the look takes, the less often: where an old snapshot keeps them, it meets a dead entry for each batch that was
/// ever claimed.
const THOROUGH_SHARE: u32 = 50;

pub(super) struct Claimer {
    pub(super) engine: Arc<Engine>,
    pub(super) lane: ClaimLane,
    pub(super) calls: Calls,
    pub(super) capped: Capped,
    /// Deliveries per batch in the last claims of a line.
    batch_size: HashMap<ProviderId, usize>,
    pub(super) presence: PresenceHealth,
    /// Some of our leases may be unknown to us: an answer was lost.
    orphans: bool,
    looked_thoroughly: Instant,
    thorough_every: Duration,
    idle: bool,
}

pub(super) async fn run(calls: Calls, drain: CancellationToken) {
    let engine = calls.engine.clone();
    let mut claimer = Claimer {
        lane: engine.store.claim_lane(engine.sender),
        engine: engine.clone(),
        calls,
        capped: Capped::default(),
        batch_size: HashMap::new(),
        presence: PresenceHealth::default(),
        orphans: false,
        looked_thoroughly: Instant::now(),
        thorough_every: THOROUGH.0,
        idle: true,
    };
    let mut poll = POLL.0;
    let mut retry = RETRY.0;
    while !drain.is_cancelled() {
        // Not cancelled in the middle: a claim that has committed must become known here.
        let wait = match claimer.step().await {
            Ok(found) => {
                if retry > RETRY.0 {
                    tracing::info!("claiming again");
                }
                retry = RETRY.0;
                // With every line supplied, nothing is known of the queue.
                if let Some(batches) = found {
                    claimer.idle = batches == 0;
                    poll = if claimer.idle { (poll * 2).min(POLL.1) } else { POLL.0 };
                }
                poll
            }
            Err(error) => {
                if retry == RETRY.0 {
                    tracing::warn!("cannot claim work: {error}");
                }
                claimer.orphans = true;
                claimer.idle = true;
                retry = (retry * 2).min(RETRY.1);
                retry
            }
        };
        let wait = wait.min(claimer.capped.look_again());
        let jittered = wait.mul_f64(0.75 + 0.5 * rand::random::<f64>());
        tokio::select! {
            () = tokio::time::sleep(jittered) => {}
            // Room in a line is a reason to look early only where the last look found something.
            () = engine.claim_now.notified(), if !claimer.idle => {}
            () = engine.take_now.notified() => {}
            () = drain.cancelled() => {}
        }
    }
    claimer.lane.close().await;
}

impl Claimer {
    /// One claim with its read. Returns how many batches it brought; `None` where no line wanted any.
    async fn step(&mut self) -> Result<Option<usize>> {
        if self.orphans {
            let held = self.engine.holdings.leases();
            let released = self.lane.release_beside(&held).await?;
            if released > 0 {
                tracing::info!(batches = released, "gave back leases whose claim had no answer");
            }
            self.orphans = false;
        }
        self.probe().await?;
        self.claim_capped().await?;
        let every = if self.idle { THOROUGH.0 } else { self.thorough_every };
        let due = self.looked_thoroughly.elapsed() >= every;
        let look_for_leases = &self.engine.look_for_leases;
        let thorough = due || look_for_leases.load(Ordering::Relaxed);
        let wants = self.wants(thorough);
        if wants.is_empty() {
            return Ok(None);
        }
        let held = self.engine.holdings.leases();
        let sent = Instant::now();
        let reclaim = self.may_reclaim().filter(|_| thorough);
        if thorough {
            look_for_leases.store(false, Ordering::Relaxed);
        }
        let claimed = self.lane.claim(&wants, self.engine.limits.lease, reclaim, &held).await;
        if thorough {
            self.looked_thoroughly = sent;
            self.thorough_every = (sent.elapsed() * THOROUGH_SHARE).clamp(THOROUGH.0, THOROUGH.1);
            // Where there were some, there may be more.
            let again =
                claimed.as_ref().map_or(true, |batches| batches.iter().any(|batch| batch.reclaims > 0));
            look_for_leases.fetch_or(again, Ordering::Relaxed);
        }
        let batches = claimed?;
        metrics::claimed(sent.elapsed(), &batches);
        if batches.is_empty() {
            // What was looked for beside other work says nothing of the queue.
            return Ok(wants.iter().any(|want| want.beside.is_none()).then_some(0));
        }
        self.note_ranks(&batches);
        for (line, held, due) in self.take_in(&batches, sent).await? {
            self.supply(&line, held, due).await;
        }
        Ok(Some(batches.len()))
    }

    pub(super) fn may_reclaim(&self) -> Option<Reclaim> {
        let up = self.engine.limits.renew_every;
        self.engine.pulse.may_reclaim().map(|heartbeat_at| Reclaim { up, heartbeat_at })
    }

    /// Reads what is left to do in claimed batches, and holds them.
    pub(super) async fn take_in(
        &mut self,
        batches: &[LeasedBatch],
        claim_sent: Instant,
    ) -> Result<Vec<(Arc<Line>, Arc<HeldBatch>, Vec<DueDelivery>)>> {
        // Kept until the batches are held.
        let (mut works, unknown) = self.engine.holdings.known_broadcasts(batches.iter().map(|b| b.broadcast));
        if !unknown.is_empty() {
            works.extend(self.engine.holdings.learn_broadcasts(&self.lane.work(&unknown).await?));
        }
        let reading = Instant::now();
        let mut due = self.lane.read(batches).await?;
        metrics::read(reading.elapsed());
        self.heed_acknowledgements(&works, batches, &mut due).await?;
        let taken = self.hold(batches, due, claim_sent + self.engine.limits.start_window());
        drop(works);
        Ok(taken)
    }

    fn wants(&self, thorough: bool) -> Vec<Want> {
        let lines = self.engine.lines.iter();
        lines
            .filter_map(|line| {
                let deliveries = line.wanted();
                let (deliveries, beside) = match deliveries {
                    0 => line.wanted_beside(Instant::now()).map(|(wanted, beside)| (wanted, Some(beside)))?,
                    wanted => (wanted, None),
                };
                let size = self.batch_size.get(&line.provider).copied().unwrap_or(FULL_BATCH).max(1);
                let batches = match beside {
                    // Those of small broadcasts may be of one delivery each.
                    Some(_) => deliveries.min(MOST_BESIDE),
                    None => deliveries.div_ceil(size).min(MOST_BATCHES),
                };
                Some(Want {
                    provider: line.provider,
                    batches: i32::try_from(batches).unwrap_or(i32::MAX),
                    deliveries: i32::try_from(deliveries).unwrap_or(i32::MAX),
                    floor: if thorough { i64::MIN } else { line.floor.load(Ordering::Relaxed) },
                    beside,
                })
            })
            .collect()
    }

    fn note_ranks(&mut self, batches: &[LeasedBatch]) {
        for line in &self.engine.lines {
            let of_line = batches.iter().filter(|b| b.provider == line.provider);
            let (count, size) = of_line.clone().fold((0, 0), |(n, s), b| (n + 1, s + b.size));
            if let Some(mean) = usize::try_from(size).ok().and_then(|s| s.checked_div(count)) {
                self.batch_size.insert(line.provider, mean);
            }
            // With a rate limit what is claimed is not called soon: see [`super::call`].
            let paced = line.pacer.rate().is_some();
            if let Some(rank) = of_line.filter(|b| b.attempt == 1 && !paced).map(|b| b.rank).max() {
                line.vtime.fetch_max(rank, Ordering::Relaxed);
            }
        }
    }

    fn hold(
        &mut self,
        batches: &[LeasedBatch],
        due: Vec<DueDelivery>,
        start_before: Instant,
    ) -> Vec<(Arc<Line>, Arc<HeldBatch>, Vec<DueDelivery>)> {
        let mut taken = Vec::with_capacity(batches.len());
        let mut by_batch: HashMap<_, Vec<DueDelivery>> = HashMap::new();
        for delivery in due {
            by_batch.entry(delivery.batch).or_default().push(delivery);
        }
        for lease in batches {
            let due = by_batch.remove(&lease.id).unwrap_or_default();
            let line = self.engine.lines.iter().find(|line| line.provider == lease.provider).cloned();
            let hold =
                |line: &Arc<Line>| self.engine.holdings.hold(*lease, due.len(), start_before, &line.adapter);
            let held = line.as_ref().and_then(hold);
            let (Some(line), Some(held)) = (line, held) else {
                // Its broadcast is not there any more.
                tracing::error!(
                    batch = lease.id.0,
                    "claimed a batch that cannot be worked on; giving it back"
                );
                self.orphans = true;
                continue;
            };
            if lease.is_suspect() {
                tracing::warn!(
                    batch = lease.id.0,
                    broadcast = lease.broadcast.0,
                    reclaims = lease.reclaims,
                    "several senders ended while they held this batch: its deliveries go on one by one"
                );
            }
            taken.push((line, held, due));
        }
        taken
    }

    /// Hands what was read to the line; what needs no call goes straight to the flush.
    pub(super) async fn supply(&self, line: &Line, held: Arc<HeldBatch>, due: Vec<DueDelivery>) {
        let jobs = self.settle_or_queue(&held, due).await;
        if !jobs.is_empty() {
            line.queue.push(held, jobs);
        }
    }

    /// Settles what needs no call, and returns what does.
    pub(super) async fn settle_or_queue(
        &self,
        held: &Arc<HeldBatch>,
        due: Vec<DueDelivery>,
    ) -> VecDeque<Job> {
        let mut jobs = VecDeque::with_capacity(due.len());
        if due.is_empty() {
            // The owner before had settled everything, and not closed it.
            self.settle(Settled::Nothing(held.clone())).await;
        }
        for DueDelivery { device, due, .. } in due {
            let verdict = match due {
                Due::Call(_) if held.lease.is_suspect() => Verdict::Alone,
                Due::Call(target) => {
                    jobs.push_back(Job { held: held.clone(), device, target });
                    continue;
                }
                Due::Skip => Verdict::Skipped,
                Due::SeenLive => Verdict::SeenLive,
                Due::AwaitAck(after) => Verdict::AwaitAck { after },
                Due::Interrupted => {
                    Verdict::Unconfirmed { code: "interrupted".to_owned(), detail: String::new() }
                }
            };
            self.settle(Settled::Answer(Answered::without_call(held.clone(), device, verdict))).await;
        }
        jobs
    }

    pub(super) async fn settle(&self, settled: Settled) {
        // Closed by an abandoned drain only.
        let _ = self.calls.settled.send(settled).await;
    }
}
