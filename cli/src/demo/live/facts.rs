//! What the live demo measured, and what must hold of it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use bongsu_proto::v1;
use provider_sim::Stats;
use serde::Serialize;

use super::crash::Crash;
use crate::live::record::Record;
use crate::live::verdict::{Both, Pushes, Verdict, judge};

/// A sender that has looked for acknowledgements may take so long until its calls are at the provider; and on a machine that is
/// slow, as long as pushes that were due took to get there.
const MARGIN: Duration = Duration::from_secs(1);

/// All measured, none assumed.
#[derive(Debug, Default, Serialize)]
pub struct Facts {
    /// Of one device each.
    pub users: u32,
    pub connected: u32,
    pub senders: usize,
    pub ack_timeout_ms: u32,
    /// Users, by how they got it: these four are all of them.
    pub by_stream: u32,
    pub by_push: u32,
    pub by_both: ByBoth,
    pub by_neither: u32,
    /// Of by_neither, those without a dead letter that explains it.
    pub lost: u32,
    /// Events that came again after a connection broke, and that clients did not show again.
    pub came_again: u32,
    /// As the intake counts.
    pub events: i64,
    pub acknowledged: i64,
    /// Acknowledgements that were answered, as clients count.
    pub answered: usize,
    /// From the call of CreateBroadcast to the clients that stayed connected, in milliseconds.
    pub stream_ms: Spread,
    pub sent: i64,
    /// Deliveries without a call, since the user acknowledged.
    pub skipped: i64,
    pub dead: i64,
    pub total: i64,
    pub duplicates: u64,
    /// What the provider had accepted at the kill and the database had not recorded: what may be duplicated.
    pub in_flight_at_kill: u64,
    /// Clients that had it when the sender was killed.
    pub received_at_kill: usize,
    /// Clients that were connected to that sender.
    pub cut_off: usize,
    /// Of these, those that never came back.
    pub not_back: usize,
    /// How long it took them to be connected again, in milliseconds.
    pub back_ms: Spread,
    /// From CreateBroadcast's answer to the final state, in milliseconds.
    pub total_ms: u64,
    /// What clients saw and should not have seen, and books of the database that do not balance.
    pub mistakes: Vec<String>,
}

/// Users who got it both ways, by why; their clients show it once.
#[derive(Debug, Default, Serialize)]
pub struct ByBoth {
    pub not_acknowledged: u32,
    pub lost_in_between: u32,
    pub acknowledged_late: u32,
    /// Although the acknowledgement was known: none.
    pub acknowledged_before: u32,
}

/// Of durations.
#[derive(Debug, Default, Serialize)]
pub struct Spread {
    pub p50: u64,
    pub p99: u64,
    pub longest: u64,
}

/// What there was to see.
#[derive(Debug)]
pub struct Seen<'a> {
    pub broadcast: &'a v1::Broadcast,
    /// When CreateBroadcast was called.
    pub called_at: SystemTime,
    /// By user.
    pub records: &'a HashMap<String, Record>,
    pub pushes: &'a Pushes,
    pub stats: &'a Stats,
    pub crash: &'a Crash,
}

impl Facts {
    /// Adds what was seen of all these users.
    pub fn add(&mut self, seen: &Seen<'_>, users: impl Iterator<Item = String>) {
        let margin = seen.longest_wait().saturating_sub(Duration::from_millis(self.ack_timeout_ms.into()));
        for user in users {
            let pushed_at = seen.pushes.accepted.get(&user).copied();
            match judge(seen.broadcast.id, seen.records.get(&user), pushed_at, margin.max(MARGIN)) {
                Verdict::Stream => self.by_stream += 1,
                Verdict::Push => self.by_push += 1,
                Verdict::Both(why) => self.by_both.add(why),
                Verdict::Neither => {
                    self.by_neither += 1;
                    self.lost += u32::from(!seen.pushes.dead.contains(&user));
                }
            }
        }
        let counts = seen.broadcast.counts.unwrap_or_default();
        let live = seen.broadcast.live.unwrap_or_default();
        (self.total, self.sent) = (counts.total, counts.sent);
        (self.skipped, self.dead) = (counts.skipped, counts.dead);
        (self.events, self.acknowledged) = (live.events, live.acknowledged);
        self.duplicates = seen.stats.duplicates;
        self.in_flight_at_kill = seen.crash.accepted.saturating_sub(seen.crash.recorded);
        self.received_at_kill = seen.crash.received;
        self.add_records(seen);
    }

    fn add_records(&mut self, seen: &Seen<'_>) {
        let records: Vec<Record> = seen.records.values().cloned().collect();
        let receipts = || records.iter().filter_map(|record| record.receipt(seen.broadcast.id));
        self.came_again = receipts().map(|receipt| receipt.again).sum();
        self.answered = receipts().filter(|receipt| receipt.acknowledged_at.is_some()).count();
        let stayed = records.iter().filter(|record| record.connections.len() == 1);
        let latencies = stayed
            .filter_map(|record| record.receipt(seen.broadcast.id)?.at.duration_since(seen.called_at).ok());
        self.stream_ms = Spread::of(latencies.collect());
        let absences = seen.crash.absences(&records);
        self.cut_off = absences.len();
        self.not_back = absences.iter().filter(|absence| absence.is_none()).count();
        self.back_ms = Spread::of(absences.into_iter().flatten().collect());
        let mut mistakes: BTreeMap<&str, u32> = BTreeMap::new();
        for mistake in records.iter().flat_map(|record| &record.mistakes) {
            *mistakes.entry(mistake).or_default() += 1;
        }
        self.mistakes.extend(mistakes.into_iter().map(|(what, count)| format!("{count} clients: {what}")));
    }

    /// What should have been otherwise; empty where every promise was kept. No time is among them: how fast it was depends
    /// on the machine.
    pub fn broken_promises(&self) -> Vec<String> {
        let mut broken = self.mistakes.clone();
        let mut must = |kept: bool, what: String| {
            if !kept {
                broken.push(what);
            }
        };
        must(self.lost == 0, format!("{} users got it neither by stream nor by push", self.lost));
        let before = self.by_both.acknowledged_before;
        must(before == 0, format!("{before} users were pushed although their acknowledgement was known"));
        must(
            self.events == i64::from(self.users),
            format!("{} events for {} users", self.events, self.users),
        );
        let answered = i64::try_from(self.answered).unwrap_or(i64::MAX);
        must(
            self.acknowledged == answered,
            format!("{} acknowledged by the intake's count, {answered} were answered", self.acknowledged),
        );
        must(
            self.total == i64::from(self.users),
            format!("{} deliveries for {} users", self.total, self.users),
        );
        let settled = self.sent + self.skipped + self.dead;
        must(
            settled == self.total,
            format!(
                "sent {}, skipped {} and dead {} are not {}",
                self.sent, self.skipped, self.dead, self.total
            ),
        );
        must(
            self.skipped <= answered,
            format!("{} deliveries were skipped, and {answered} users acknowledged", self.skipped),
        );
        must(self.not_back == 0, format!("{} clients of the killed sender never came back", self.not_back));
        must(
            self.duplicates <= self.in_flight_at_kill,
            format!("{} duplicates, at most {} can be explained", self.duplicates, self.in_flight_at_kill),
        );
        broken
    }
}

impl Seen<'_> {
    /// Of those who got it and did not acknowledge, the longest time until the push.
    fn longest_wait(&self) -> Duration {
        let wait = |(user, record): (&String, &Record)| {
            let receipt = record.receipt(self.broadcast.id)?;
            let pushed_at = self.pushes.accepted.get(user).filter(|_| receipt.acknowledged_at.is_none())?;
            pushed_at.duration_since(self.called_at).ok()
        };
        self.records.iter().filter_map(wait).max().unwrap_or_default()
    }
}

impl ByBoth {
    pub fn sum(&self) -> u32 {
        self.not_acknowledged + self.lost_in_between + self.acknowledged_late + self.acknowledged_before
    }

    fn add(&mut self, why: Both) {
        let count = match why {
            Both::NotAcknowledged => &mut self.not_acknowledged,
            Both::LostInBetween => &mut self.lost_in_between,
            Both::AcknowledgedLate => &mut self.acknowledged_late,
            Both::AcknowledgedBefore => &mut self.acknowledged_before,
        };
        *count += 1;
    }
}

impl Spread {
    fn of(mut values: Vec<Duration>) -> Self {
        values.sort_unstable();
        let at = |share: f64| {
            let last = values.len().saturating_sub(1) as f64;
            let value = values.get((last * share).round() as usize).copied().unwrap_or_default();
            u64::try_from(value.as_millis()).unwrap_or(u64::MAX)
        };
        Self { p50: at(0.5), p99: at(0.99), longest: at(1.0) }
    }
}
