//! Staying alive in the eyes of others, and noticing who is not: heartbeat, renewal, flags, signals, dead senders. On a
//! connection of its own, so that none of it waits behind claims and flushes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bongsu_store::{Beat, ControlLane, DEAD_AFTER, ProviderId, Result};
use time::OffsetDateTime;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::metrics;

/// Flags of broadcasts, signals of providers and dead senders are looked for this often.
const TICK: Duration = Duration::from_millis(250);
/// A heartbeat every this many ticks.
const HEARTBEAT_TICKS: u64 = 2;
/// Without a heartbeat for this long, no call starts: half a second before others may take a sender for dead ([`DEAD_AFTER`]).
const SILENT: Duration = Duration::from_secs(1);

/// Whether this sender's own heartbeat is fresh, and since when Postgres has answered without a gap.
#[derive(Debug)]
pub(super) struct Pulse {
    epoch: Instant,
    /// When the last heartbeat that was answered had been sent, in microseconds of `epoch`; 0: none yet.
    beat: AtomicU64,
    /// The same heartbeat by the database's clock.
    beat_at: Mutex<Option<OffsetDateTime>>,
    /// Nothing of others is taken before this.
    reclaim_from: Mutex<Option<Instant>>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            beat: AtomicU64::new(0),
            beat_at: Mutex::new(None),
            reclaim_from: Mutex::new(None),
        }
    }

    /// Whether calls may start.
    pub(super) fn is_fresh(&self) -> bool {
        let beat = self.beat.load(Ordering::Relaxed);
        beat > 0 && self.epoch.elapsed() < Duration::from_micros(beat) + SILENT
    }

    /// Whether batches of others may be taken: then our last heartbeat, by the database's clock.
    pub(super) fn may_reclaim(&self) -> Option<OffsetDateTime> {
        let from = *self.reclaim_from.lock().unwrap_or_else(PoisonError::into_inner);
        let may = self.is_fresh() && from.is_none_or(|from| Instant::now() >= from);
        may.then(|| *self.beat_at.lock().unwrap_or_else(PoisonError::into_inner)).flatten()
    }

    fn beaten(&self, sent: Instant, at: OffsetDateTime) {
        *self.beat_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        let micros = u64::try_from(sent.duration_since(self.epoch).as_micros()).unwrap_or(u64::MAX);
        self.beat.store(micros.max(1), Ordering::Relaxed);
    }

    /// Whether the last heartbeat is too long ago: Postgres did not answer, or this process was stopped.
    fn is_stale(&self) -> bool {
        self.beat.load(Ordering::Relaxed) > 0 && !self.is_fresh()
    }

    /// Postgres did not answer: whoever else lives has lost it too, and gets one period to renew.
    fn lost_postgres(&self, period: Duration) {
        *self.reclaim_from.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + period);
    }
}

pub(super) async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    let mut lane = engine.store.control_lane(engine.sender);
    lane.serve(engine.lines.iter().map(|line| line.provider));
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut control = Control::new(&engine);
    let mut troubled = false;
    for n in 0_u64.. {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => break,
        }
        control.measure(&engine);
        if engine.pulse.is_stale() {
            engine.pulse.lost_postgres(engine.limits.renew_every);
        }
        match control.tick(&engine, &mut lane, n).await {
            Ok(()) if troubled => {
                tracing::info!("heartbeat again");
                troubled = false;
            }
            Ok(()) => {}
            Err(error) => {
                if !troubled {
                    tracing::warn!("no heartbeat, so no call starts: {error}");
                }
                troubled = true;
                engine.pulse.lost_postgres(engine.limits.renew_every);
            }
        }
    }
    match lane.release().await {
        Ok(0) => {}
        Ok(batches) => tracing::info!(batches, "gave back what was not called"),
        Err(error) => tracing::warn!("could not give work back; others take it when its lease ends: {error}"),
    }
    lane.close().await;
}

struct Control {
    renewed: Instant,
    measured: Instant,
    answered: HashMap<ProviderId, u64>,
    /// Virtual times at the last heartbeat.
    published: HashMap<ProviderId, i64>,
}

impl Control {
    fn new(engine: &Engine) -> Self {
        Self {
            renewed: Instant::now(),
            measured: Instant::now(),
            answered: engine.lines.iter().map(|line| (line.provider, 0)).collect(),
            published: HashMap::new(),
        }
    }

    async fn tick(&mut self, engine: &Engine, lane: &mut ControlLane, n: u64) -> Result<()> {
        if n.is_multiple_of(HEARTBEAT_TICKS) || !engine.pulse.is_fresh() {
            self.heartbeat(engine, lane).await?;
        }
        if self.renewed.elapsed() >= engine.limits.renew_every {
            renew(engine, lane).await?;
            self.renewed = Instant::now();
        }
        let broadcasts = engine.holdings.broadcasts();
        if !broadcasts.is_empty() {
            engine.holdings.heed(&broadcasts, &lane.flags(&broadcasts).await?);
        }
        engine.holdings.forget_idle_broadcasts();
        heed_providers(engine, lane).await?;
        if let Some(beat) = engine.pulse.may_reclaim() {
            let revoked = lane.revoke_dead(DEAD_AFTER, beat).await?;
            if revoked > 0 {
                tracing::warn!(batches = revoked, "a sender died; its batches can be claimed");
                metrics::revoked(revoked);
                engine.look_for_leases.store(true, Ordering::Relaxed);
                engine.take_now.notify_one();
            }
        }
        Ok(())
    }

    async fn heartbeat(&mut self, engine: &Engine, lane: &mut ControlLane) -> Result<()> {
        let vtimes: Vec<_> =
            engine.lines.iter().map(|l| (l.provider, l.vtime.load(Ordering::Relaxed))).collect();
        let news: Vec<_> = vtimes
            .iter()
            .filter(|(p, v)| *v > self.published.get(p).copied().unwrap_or(0))
            .copied()
            .collect();
        let in_flight = engine.lines.iter().map(|line| line.in_flight()).sum();
        let sent = Instant::now();
        let Beat { at, known } = lane.heartbeat(in_flight, &news).await?;
        engine.pulse.beaten(sent, at);
        for line in &engine.lines {
            let before = self.published.get(&line.provider).copied().unwrap_or(0);
            line.floor.store(before, Ordering::Relaxed);
        }
        self.published.extend(news.into_iter().filter(|(provider, _)| known.contains(provider)));
        Ok(())
    }

    fn measure(&mut self, engine: &Engine) {
        let elapsed = self.measured.elapsed();
        self.measured = Instant::now();
        for line in &engine.lines {
            let before = self.answered.entry(line.provider).or_default();
            *before = line.measure_rate(*before, elapsed);
        }
        let unrecorded = engine.limits.unrecorded - engine.unrecorded.available_permits();
        metrics::holding(&engine.lines, unrecorded, engine.flush_lag.now());
    }
}

/// Learns which providers are parked or held, by whomever.
async fn heed_providers(engine: &Engine, lane: &mut ControlLane) -> Result<()> {
    let providers: Vec<_> = engine.lines.iter().map(|line| line.provider).collect();
    let asked = Instant::now();
    for signals in lane.signals(&providers).await? {
        let line = engine.lines.iter().find(|line| line.provider == signals.id);
        if line.is_some_and(|line| line.heed(&signals, asked)) {
            engine.take_now.notify_one();
        }
    }
    Ok(())
}

async fn renew(engine: &Engine, lane: &mut ControlLane) -> Result<()> {
    let leases = engine.holdings.leases();
    if leases.is_empty() {
        return Ok(());
    }
    let sent = Instant::now();
    let kept = lane.renew(&leases, engine.limits.lease).await?;
    let lost = engine.holdings.renewed(&leases, &kept, sent + engine.limits.start_window());
    if lost > 0 {
        tracing::warn!(batches = lost, "another sender holds batches that were ours");
        metrics::lost(lost);
    }
    Ok(())
}
