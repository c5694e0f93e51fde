//! What must hold after a trial: the books of the database, of StreamStatus and of the provider say the same.

use std::collections::HashSet;

use anyhow::Context as _;
use bongsu_proto::v1;
use bongsu_store::{BroadcastId, DeliveryFilter, DeliveryState, Store};
use provider_sim::{DeliveryRecord, Stats};

/// Deliveries read in one page.
const PAGE: i64 = 1_000;

/// Everything that was seen of a broadcast at its end.
#[derive(Debug)]
pub struct Books<'a> {
    pub id: i64,
    /// The last message of StreamStatus.
    pub last: &'a v1::BroadcastStatus,
    /// What GetBroadcast says.
    pub broadcast: &'a v1::Broadcast,
    pub stats: &'a Stats,
    pub at_most_once: bool,
    pub dedupe: bool,
    /// Devices that the provider accepts sooner or later.
    pub good: i64,
    /// All of the audience.
    pub audience: i64,
    /// Calls that were in flight or unrecorded where processes were killed, at most.
    pub allowed: u64,
}

impl Books<'_> {
    /// What does not hold, in words.
    pub async fn mistakes(&self, store: &Store, records: &[DeliveryRecord]) -> anyhow::Result<Vec<String>> {
        let mut mistakes = self.sums();
        let findings = store.broken_invariants().await.context("examining the database")?;
        mistakes.extend(findings.into_iter().map(|f| format!("{}: {} {}", f.check, f.subject, f.detail)));
        mistakes.extend(sent_without_acceptance(self.id, store, records).await?);
        Ok(mistakes)
    }

    fn sums(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                mistakes.push(what);
            }
        };
        let counts = self.last.counts.unwrap_or_default();
        let stats = self.stats;
        must(
            self.last.state() == v1::BroadcastState::Completed,
            format!("the stream ended with {:?}", self.last.state()),
        );
        must(
            self.broadcast.counts == self.last.counts,
            format!("GetBroadcast says {:?}, StreamStatus {counts:?}", self.broadcast.counts),
        );
        must(counts.total == self.audience, format!("{} deliveries for {}", counts.total, self.audience));
        must(counts.pending == 0, format!("{} are pending", counts.pending));
        let settled = counts.sent + counts.dead + counts.unconfirmed;
        must(settled == counts.total, format!("{settled} of {} are settled: {counts:?}", counts.total));
        let accepted = i64::try_from(stats.accepted).unwrap_or(i64::MAX);
        must(counts.sent <= accepted, format!("{} sent, {accepted} accepted", counts.sent));
        must(
            accepted - counts.sent <= counts.unconfirmed,
            format!("{accepted} accepted, {} sent, {} unconfirmed", counts.sent, counts.unconfirmed),
        );
        let bad = self.audience - self.good;
        // At most once, the call of a device that fails may have been cut off, too.
        must(
            (bad - counts.unconfirmed..=bad).contains(&counts.dead),
            format!("{} dead letters, {bad} devices that fail", counts.dead),
        );
        let most = if self.at_most_once || self.dedupe { 0 } else { self.allowed };
        must(stats.duplicates <= most, format!("{} duplicates, {most} allowed", stats.duplicates));
        let unsure = if self.at_most_once { self.allowed } else { 0 };
        must(
            counts.unconfirmed.unsigned_abs() <= unsure,
            format!("{} unconfirmed, {unsure} allowed", counts.unconfirmed),
        );
        mistakes
    }
}

/// Each that we call sent, the provider must have accepted.
pub async fn sent_without_acceptance(
    broadcast: i64,
    store: &Store,
    records: &[DeliveryRecord],
) -> anyhow::Result<Option<String>> {
    let accepted: HashSet<&str> = records.iter().filter(|r| r.accepted > 0).map(|r| r.key.as_str()).collect();
    let mut filter = DeliveryFilter {
        broadcast: BroadcastId(broadcast),
        states: vec![DeliveryState::Sent],
        provider: None,
        after: None,
        limit: PAGE,
    };
    let mut missing = 0;
    loop {
        let page = store.list_deliveries(&filter).await.context("listing deliveries")?;
        missing += page.iter().filter(|d| !accepted.contains(&*format!("{broadcast}-{}", d.device))).count();
        let Some(last) = page.last() else { break };
        filter.after = Some((last.provider_id, last.device));
    }
    Ok((missing > 0).then(|| format!("{missing} are called sent, and the provider never accepted them")))
}
