//! Committed numbers of deliveries, and what they are sums of.

use serde::Serialize;

use crate::ids::ProviderId;

/// Deliveries by state. `total = pending() + sent + dead() + expired + skipped + cancelled + unconfirmed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub total: i64,
    pub sent: i64,
    pub dead_attempts_exhausted: i64,
    pub dead_unregistered: i64,
    pub dead_rejected: i64,
    pub expired: i64,
    pub skipped: i64,
    pub cancelled: i64,
    pub unconfirmed: i64,
    /// Attempts that led to a further one: failed, or told to slow down.
    pub retried: i64,
    /// Pending deliveries that were called before.
    pub retrying: i64,
}

impl Counts {
    pub fn dead(&self) -> i64 {
        self.dead_attempts_exhausted + self.dead_unregistered + self.dead_rejected
    }

    /// With a final state.
    pub fn settled(&self) -> i64 {
        self.sent + self.dead() + self.expired + self.skipped + self.cancelled + self.unconfirmed
    }

    pub fn pending(&self) -> i64 {
        self.total - self.settled()
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, o: Self) -> Self {
        Self {
            total: self.total + o.total,
            sent: self.sent + o.sent,
            dead_attempts_exhausted: self.dead_attempts_exhausted + o.dead_attempts_exhausted,
            dead_unregistered: self.dead_unregistered + o.dead_unregistered,
            dead_rejected: self.dead_rejected + o.dead_rejected,
            expired: self.expired + o.expired,
            skipped: self.skipped + o.skipped,
            cancelled: self.cancelled + o.cancelled,
            unconfirmed: self.unconfirmed + o.unconfirmed,
            retried: self.retried + o.retried,
            retrying: self.retrying + o.retrying,
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |a, b| a + b)
    }
}

/// Of a broadcast that goes out live: one event per user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LiveCounts {
    /// In the inboxes of users.
    pub events: i64,
    /// Of these, acknowledged by a client of the user.
    pub acknowledged: i64,
}

/// A provider that fails as a whole: nobody calls it but for one probe at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    pub since: time::OffsetDateTime,
    /// What its last answer was.
    pub code: String,
}

/// The counts of one broadcast at one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCounts {
    pub provider_id: ProviderId,
    pub provider: String,
    /// No call starts before, where set.
    pub held_until: Option<time::OffsetDateTime>,
    pub parked: Option<Parked>,
    pub counts: Counts,
}
