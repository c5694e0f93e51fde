//! Reserving slots of providers with a rate limit, a little ahead of the calls, from what all senders share in Postgres.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{PACED_AHEAD, PACED_SHARE, PaceLane, ProviderId, Reserved, Result};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::line::Line;

/// Slots are reserved for this long at a time …
const AT_A_TIME: Duration = Duration::from_millis(50);
/// … when those in hand reach no further than this, so that calls never wait for the answer. Together they are what a sender
/// that dies wastes.
const AHEAD: Duration = Duration::from_millis(100);
/// While calls are made, it is looked this often whether slots run low.
const LOOK: Duration = Duration::from_millis(10);
/// After an answer without slots, and after an error of the database.
const LATER: Duration = Duration::from_millis(20);
const RETRY: Duration = Duration::from_millis(100);

/// Reserves until `drain`: a drain starts no call.
pub(super) async fn run(engine: Arc<Engine>, drain: CancellationToken) {
    let mut reserver = Reserver {
        lane: engine.store.pace_lane(),
        clock: DatabaseClock::default(),
        later: HashMap::new(),
        troubled: false,
    };
    loop {
        let busy = reserver.reserve_for_all(&engine).await;
        tokio::select! {
            () = tokio::time::sleep(LOOK), if busy => {}
            () = engine.slots_needed.notified(), if !busy => {}
            () = drain.cancelled() => break,
        }
    }
    reserver.lane.close().await;
}

struct Reserver {
    lane: PaceLane,
    clock: DatabaseClock,
    /// Nothing is asked for these before.
    later: HashMap<ProviderId, Instant>,
    troubled: bool,
}

impl Reserver {
    /// Whether some line has calls to make at a rate.
    async fn reserve_for_all(&mut self, engine: &Engine) -> bool {
        let mut busy = false;
        let unrecorded = engine.unrecorded.available_permits();
        for line in &engine.lines {
            let Some(rate) = line.pacer.rate() else { continue };
            let demand = demand(line, unrecorded);
            busy |= demand > 0;
            let now = Instant::now();
            let ahead = line.pacer.ahead(now);
            let wanted = wanted(rate, demand, ahead);
            if wanted == 0 || self.later.get(&line.provider).is_some_and(|later| now < *later) {
                continue;
            }
            if let Err(error) = self.reserve(line, wanted).await {
                if !self.troubled {
                    tracing::warn!("no slots, so no call of a provider with a rate limit starts: {error}");
                }
                self.troubled = true;
                engine.lines.iter().for_each(|line| line.pacer.forget());
                tokio::time::sleep(RETRY).await;
                return true;
            }
            if std::mem::take(&mut self.troubled) {
                tracing::info!("slots again");
            }
        }
        busy
    }

    async fn reserve(&mut self, line: &Line, wanted: u32) -> Result<()> {
        let asked = Instant::now();
        let reserved = self.lane.reserve(line.provider, wanted).await?;
        let Reserved { per_second, slots, at, begins_in } = reserved;
        let now = Instant::now();
        line.pacer.set_rate(per_second);
        if slots > 0 {
            let given = self.clock.locate(at, asked, now);
            line.pacer.add(given + begins_in, slots, reserved.step());
        } else {
            let wait = begins_in.saturating_sub(PACED_AHEAD).max(LATER);
            self.later.insert(line.provider, now + wait.mul_f64(0.75 + 0.5 * rand::random::<f64>()));
        }
        Ok(())
    }
}

/// Calls that the line could start soon.
fn demand(line: &Line, unrecorded: usize) -> usize {
    if line.is_closed() {
        return 0;
    }
    let work = line.queue.len() + line.pacer.waiting();
    // Those that wait have their places already.
    let room = line.room().min(unrecorded) + line.pacer.waiting() + line.per(AHEAD + AT_A_TIME);
    work.min(room)
}

/// How many slots to ask for, where so many are in hand and reach so far ahead.
fn wanted(rate: u32, demand: usize, (in_hand, ahead): (usize, Duration)) -> u32 {
    if ahead > AHEAD {
        return 0;
    }
    let at_a_time = (f64::from(rate) * PACED_SHARE * AT_A_TIME.as_secs_f64()).ceil() as usize;
    u32::try_from(demand.saturating_sub(in_hand).min(at_a_time)).unwrap_or(u32::MAX)
}

/// The database's clock by ours. Answers come late, some much later than others: the one that came soonest says best when it was
/// given, and with it when the others were.
#[derive(Debug, Default)]
pub(super) struct DatabaseClock {
    looks: VecDeque<Look>,
}

/// Looks that are remembered: of the last seconds, in which clocks do not drift apart.
const LOOKS: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Look {
    /// By the database's clock, in seconds.
    at: f64,
    /// By ours, give or take half of `took`.
    ours: Instant,
    took: Duration,
}

impl DatabaseClock {
    /// When, by our clock, the database's was `at`, which it said between `asked` and `answered`.
    pub(super) fn locate(&mut self, at: f64, asked: Instant, answered: Instant) -> Instant {
        let took = answered - asked;
        self.looks.push_back(Look { at, ours: asked + took / 2, took });
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        let best = self.looks.iter().min_by_key(|look| look.took).copied();
        let best = best.unwrap_or(Look { at, ours: answered, took });
        // Distances of seconds; one that is absurd (a clock was set) ends at the bounds.
        let apart = Duration::try_from_secs_f64((at - best.at).abs()).unwrap_or_default();
        let located = if at >= best.at { best.ours.checked_add(apart) } else { best.ours.checked_sub(apart) };
        located.unwrap_or(answered).clamp(asked, answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn slots_are_asked_for_a_little_ahead_for_what_there_is_to_call_and_in_small_numbers() {
        let wanted = |demand, ahead| wanted(1_000, demand, ahead);
        assert_eq!(wanted(10_000, (0, Duration::ZERO)), 49);
        assert_eq!(wanted(10_000, (90, 99 * MILLI)), 49);
        assert_eq!(wanted(10_000, (101, 101 * MILLI)), 0);
        assert_eq!(wanted(7, (4, 50 * MILLI)), 3);
        assert_eq!(wanted(3, (4, 50 * MILLI)), 0);
        assert_eq!(super::wanted(1, 5, (0, Duration::ZERO)), 1, "however low the rate is");
    }

    #[test]
    fn an_answer_that_came_late_does_not_make_its_slots_late() {
        let mut clock = DatabaseClock::default();
        let start = Instant::now();
        // The database's 100 s are our `start` and one millisecond.
        assert_eq!(clock.locate(100.0, start, start + 2 * MILLI), start + MILLI);
        let late = clock.locate(100.050, start + 50 * MILLI, start + 90 * MILLI);
        assert!(late.duration_since(start + 51 * MILLI) < MILLI);
        let set_back = clock.locate(7.0, start + 100 * MILLI, start + 110 * MILLI);
        assert_eq!(set_back, start + 100 * MILLI, "never before it was asked");
    }

    #[test]
    fn an_old_answer_is_forgotten_however_soon_it_came() {
        let mut clock = DatabaseClock::default();
        let start = Instant::now();
        let _ = clock.locate(100.0, start, start);
        for n in 1..=64 {
            let asked = start + n * 100 * MILLI;
            // Its clock was set forward by an hour.
            let _ = clock.locate(3_700.0 + 0.1 * f64::from(n), asked, asked + 2 * MILLI);
        }
        let asked = start + 6_500 * MILLI;
        let located = clock.locate(3_706.5, asked, asked + 40 * MILLI);
        assert!(located.duration_since(asked) < 2 * MILLI);
    }
}
