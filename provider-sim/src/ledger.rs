//! The counting: every push passes here once, and those who wait for a count are woken here.

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::decision::{self, Call, Verdict};
use crate::keys::{Keys, NoRoom};
use crate::{Behaviour, DeliveryRecord, Mark, Stats};

/// More long polls than this at once are refused; each costs one comparison when somebody is woken.
pub(crate) const MAX_WAITERS: usize = 1_024;

/// What was decided and counted for a push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub verdict: Verdict,
    /// The number of its key, from 1, in order of arrival.
    pub number: u64,
    /// Time to let pass before the answer.
    pub latency: Option<Duration>,
}

/// What a long poll gets to hold.
#[derive(Debug)]
pub(crate) enum Wait {
    /// As many were accepted already.
    Reached(Box<Stats>),
    /// Resolves to the counts as they stood when the wanted acceptance was counted.
    Coming(oneshot::Receiver<Stats>),
    TooMany,
}

#[derive(Debug)]
struct Waiter {
    accepted: u64,
    tell: oneshot::Sender<Stats>,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    stats: Stats,
    keys: Keys,
    waiters: Vec<Waiter>,
    /// The least that any waiter wants: the one comparison a push pays for them.
    next_wanted: u64,
    resets: u64,
    /// Where it works off one push after the other: when it will have worked off all, since its start.
    busy_until: Duration,
}

impl Ledger {
    pub fn new() -> Self {
        Self {
            stats: Stats::default(),
            keys: Keys::default(),
            waiters: Vec::new(),
            next_wanted: u64::MAX,
            resets: 0,
            busy_until: Duration::ZERO,
        }
    }

    /// Decides a push that has been read whole, and counts it: as open, too, until [`Self::call_ended`].
    pub fn count(
        &mut self,
        behaviour: &Behaviour,
        key: &str,
        token: &str,
        since_start: Duration,
    ) -> Result<Decided, NoRoom> {
        let key_hash = decision::key_hash(key);
        let position = self.keys.position_or_insert(key, key_hash)?;
        let record = self.keys.record_mut(position);
        record.calls = record.calls.saturating_add(1);
        let call = Call {
            token,
            key_hash,
            nth: record.calls,
            accepted: record.accepted,
            throttled: record.throttled,
            since_start,
        };
        let verdict = decision::decide(behaviour, &call);
        let mut latency = decision::latency(behaviour, &call);
        if behaviour.capacity_per_s > 0 {
            let work = Duration::from_secs(1) / behaviour.capacity_per_s;
            self.busy_until = self.busy_until.max(since_start) + work;
            latency = Some(latency.unwrap_or_default() + (self.busy_until - since_start));
        }

        let stats = &mut self.stats;
        stats.calls += 1;
        stats.open += 1;
        stats.max_open = stats.max_open.max(stats.open);
        match verdict {
            Verdict::Accepted => {
                let now = unix_us();
                record.accepted = 1;
                record.first_accepted_unix_us = NonZeroU64::new(now);
                stats.transient_recovered += u64::from(record.transient > 0);
                self.accepted(now / 1_000);
            }
            Verdict::Duplicate => {
                record.accepted = record.accepted.saturating_add(1);
                stats.duplicates += 1;
            }
            Verdict::Transient => {
                record.transient = record.transient.saturating_add(1);
                stats.transient += 1;
            }
            Verdict::Throttled => {
                record.throttled = record.throttled.saturating_add(1);
                stats.throttled += 1;
            }
            Verdict::Suppressed => stats.suppressed += 1,
            Verdict::Unregistered => stats.unregistered += 1,
            Verdict::Failing => stats.failing += 1,
            Verdict::Rejected => stats.rejected += 1,
            Verdict::Mismatched => stats.mismatched += 1,
            Verdict::Outage => stats.outage += 1,
            Verdict::Overridden => stats.overridden += 1,
            Verdict::Hung => stats.hung += 1,
        }
        Ok(Decided { verdict, number: position as u64 + 1, latency })
    }

    /// A counted call was answered, or its caller went away.
    pub fn call_ended(&mut self) {
        self.stats.open -= 1;
    }

    pub fn refused(&mut self) {
        self.stats.refused += 1;
    }

    /// An access token of FCM's was asked for.
    pub fn fcm_token_asked(&mut self) {
        self.stats.fcm_tokens += 1;
    }

    /// Counts a connection as open until [`Self::connection_closed`]; or as refused, and says false, where `max` are open.
    #[must_use]
    pub fn connection_opened(&mut self, max: u32) -> bool {
        let room = self.stats.connections < u64::from(max);
        if room {
            self.stats.connections += 1;
            self.stats.connections_total += 1;
        } else {
            self.stats.refused_connections += 1;
        }
        room
    }

    pub fn connection_closed(&mut self) {
        self.stats.connections -= 1;
    }

    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    pub fn mark(&mut self) -> Stats {
        self.stats.mark = Some(Mark {
            at_unix_ms: unix_us() / 1_000,
            last_accepted_before_unix_ms: self.stats.last_accepted_unix_ms,
            first_accepted_after_unix_ms: None,
            accepted_at_mark: self.stats.accepted,
            open_at_mark: self.stats.open,
        });
        self.stats()
    }

    /// Forgets what was counted. What is open stays open: those calls and connections will still end. Who waits goes on
    /// waiting, for the new count.
    pub fn reset(&mut self) -> Stats {
        let Stats { open, connections, .. } = self.stats;
        self.stats =
            Stats { open, max_open: open, connections, connections_total: connections, ..Stats::default() };
        self.keys = Keys::default();
        self.resets += 1;
        self.stats()
    }

    /// Waits for `accepted` acceptances.
    pub fn wait(&mut self, accepted: u64) -> Wait {
        if self.stats.accepted >= accepted {
            return Wait::Reached(Box::new(self.stats()));
        }
        // Those whose caller gave up are found here and nowhere else: the bound holds for the living.
        self.waiters.retain(|waiter| !waiter.tell.is_closed());
        if self.waiters.len() >= MAX_WAITERS {
            return Wait::TooMany;
        }
        let (tell, told) = oneshot::channel();
        self.waiters.push(Waiter { accepted, tell });
        self.next_wanted = self.next_wanted.min(accepted);
        Wait::Coming(told)
    }

    /// How often it was reset, so that a listing in pages notices that its positions mean nothing any more.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    pub fn delivery(&self, key: &str) -> Option<DeliveryRecord> {
        self.keys.get(key, decision::key_hash(key))
    }

    pub fn deliveries(&self, range: Range<usize>) -> impl Iterator<Item = DeliveryRecord> {
        self.keys.deliveries(range)
    }

    fn accepted(&mut self, now_unix_ms: u64) {
        let stats = &mut self.stats;
        stats.accepted += 1;
        stats.first_accepted_unix_ms.get_or_insert(now_unix_ms);
        stats.last_accepted_unix_ms = Some(now_unix_ms);
        if let Some(mark) = &mut stats.mark {
            mark.first_accepted_after_unix_ms.get_or_insert(now_unix_ms);
        }
        if stats.accepted >= self.next_wanted {
            self.wake();
        }
    }

    fn wake(&mut self) {
        let stats = self.stats.clone();
        for waiter in self.waiters.extract_if(.., |waiter| waiter.accepted <= stats.accepted) {
            // Nobody listens where the caller gave up meanwhile.
            let _ = waiter.tell.send(stats.clone());
        }
        self.next_wanted = self.waiters.iter().map(|waiter| waiter.accepted).min().unwrap_or(u64::MAX);
    }
}

/// The wall clock, because what is told is compared with what other processes noted.
fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(ledger: &mut Ledger, key: &str) -> Verdict {
        let behaviour = Behaviour::default();
        let decided = ledger.count(&behaviour, key, "token", Duration::ZERO).expect("room");
        ledger.call_ended();
        decided.verdict
    }

    #[test]
    fn a_waiter_gets_the_counts_of_the_moment_it_waited_for() {
        let mut ledger = Ledger::new();
        let Wait::Coming(mut second) = ledger.wait(2) else { panic!("nothing was accepted yet") };
        push(&mut ledger, "a");
        push(&mut ledger, "a");
        assert!(second.try_recv().is_err(), "a duplicate is no acceptance");
        push(&mut ledger, "b");
        push(&mut ledger, "c");
        let then = second.try_recv().expect("woken by the second acceptance");
        assert_eq!((then.accepted, then.duplicates, then.calls), (2, 1, 3));
        assert!(matches!(ledger.wait(3), Wait::Reached(_)));
    }

    #[test]
    fn waiters_are_bounded_and_those_who_gave_up_make_room() {
        let mut ledger = Ledger::new();
        let mut waiting: Vec<Wait> = (0..MAX_WAITERS).map(|_| ledger.wait(1)).collect();
        assert!(matches!(ledger.wait(1), Wait::TooMany));
        waiting.pop();
        assert!(matches!(ledger.wait(1), Wait::Coming(_)));
    }

    #[test]
    fn a_reset_keeps_what_is_still_open() {
        let mut ledger = Ledger::new();
        assert!(ledger.connection_opened(1) && !ledger.connection_opened(1));
        ledger.count(&Behaviour::default(), "a", "token", Duration::ZERO).expect("room");
        let after = ledger.reset();
        assert_eq!((after.calls, after.open, after.max_open, after.connections), (0, 1, 1, 1));
        assert_eq!((after.connections_total, after.refused_connections), (1, 0));
        ledger.call_ended();
        assert_eq!(push(&mut ledger, "a"), Verdict::Accepted, "the key is forgotten");
    }
}
