//! What must hold after a live trial.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_proto::v1;
use bongsu_store::Store;
use provider_sim::{DeliveryRecord, Stats};

use super::super::books::sent_without_acceptance;
use super::trial::Outcome;
use crate::live::record::Record;
use crate::live::verdict::{Both, Pushes, Verdict, judge};

/// Mistakes of one kind that are told: they are alike.
const MOST_TOLD: usize = 5;

/// Everything that was seen of a trial's broadcasts at their end.
#[derive(Debug)]
pub struct Books<'a> {
    /// As they ended.
    pub broadcasts: &'a [v1::Broadcast],
    /// Of the clients of the first users.
    pub records: &'a [Record],
    pub deliveries: &'a [DeliveryRecord],
    pub stats: &'a Stats,
    /// All of them are in the audience of each.
    pub users: u32,
    pub margin: Duration,
}

impl Books<'_> {
    /// Adds counts to what the trial came to, and what does not hold, in words.
    pub async fn close(&self, store: &Store, outcome: &mut Outcome) -> anyhow::Result<()> {
        outcome.broadcasts = self.broadcasts.len() as u64;
        outcome.calls = self.stats.calls;
        outcome.duplicates = self.stats.duplicates;
        outcome.add_records(self.records);
        for broadcast in self.broadcasts {
            outcome.mistakes.extend(self.sums(broadcast, outcome.allowed));
            let pushes = Pushes::of(broadcast.id, store, self.deliveries).await?;
            self.judge_users(broadcast.id, &pushes, outcome);
            outcome.mistakes.extend(sent_without_acceptance(broadcast.id, store, self.deliveries).await?);
        }
        if self.stats.duplicates > outcome.allowed {
            outcome
                .mistakes
                .push(format!("{} duplicates, {} allowed", self.stats.duplicates, outcome.allowed));
        }
        let mistakes: BTreeSet<&String> = self.records.iter().flat_map(|record| &record.mistakes).collect();
        outcome.mistakes.extend(mistakes.into_iter().take(MOST_TOLD).cloned());
        let findings = store.broken_invariants().await.context("examining the database")?;
        outcome
            .mistakes
            .extend(findings.into_iter().map(|f| format!("{}: {} {}", f.check, f.subject, f.detail)));
        Ok(())
    }

    /// How each user got it.
    fn judge_users(&self, id: i64, pushes: &Pushes, outcome: &mut Outcome) {
        let (mut missed, mut in_spite) = (Vec::new(), Vec::new());
        for n in 0..self.users {
            let user = format!("good-{n}");
            let record = self.records.get(n as usize);
            outcome.came_again +=
                record.and_then(|record| record.receipt(id)).map_or(0, |receipt| u64::from(receipt.again));
            match judge(id, record, pushes.accepted.get(&user).copied(), self.margin) {
                Verdict::Stream => outcome.by_stream += 1,
                Verdict::Push => outcome.by_push += 1,
                Verdict::Neither => missed.push(user),
                Verdict::Both(why) => {
                    outcome.by_both += 1;
                    outcome.not_acknowledged += u64::from(why == Both::NotAcknowledged);
                    if why == Both::AcknowledgedBefore {
                        in_spite.push(user);
                    }
                }
            }
        }
        for (users, what) in [
            (missed, "got it neither by stream nor by push"),
            (in_spite, "were pushed long after their acknowledgement was answered"),
        ] {
            if !users.is_empty() {
                let some = users.iter().take(MOST_TOLD).cloned().collect::<Vec<_>>().join(", ");
                outcome.mistakes.push(format!("broadcast {id}: {} users {what}: {some} …", users.len()));
            }
        }
    }

    /// What the intake says of a broadcast, against what clients and the provider say.
    fn sums(&self, broadcast: &v1::Broadcast, allowed: u64) -> Vec<String> {
        let id = broadcast.id;
        let counts = broadcast.counts.unwrap_or_default();
        let live = broadcast.live.unwrap_or_default();
        let users = i64::from(self.users);
        let mine = format!("{id}-");
        let accepted = self.deliveries.iter().filter(|d| d.key.starts_with(&mine) && d.accepted > 0).count();
        let accepted = i64::try_from(accepted).unwrap_or(i64::MAX);
        let allowed = i64::try_from(allowed).unwrap_or(i64::MAX);
        let receipts: Vec<_> = self.records.iter().filter_map(|record| record.receipt(id)).collect();
        let answered = receipts.iter().filter(|receipt| receipt.acknowledged_at.is_some()).count();
        let (received, answered) = (receipts.len() as i64, answered as i64);
        let mut mistakes = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                mistakes.push(format!("broadcast {id}: {what}"));
            }
        };
        must(counts.total == users, format!("{} deliveries for {users} users", counts.total));
        must(live.events == users, format!("{} events for {users} users", live.events));
        let settled = counts.sent + counts.skipped;
        must(
            counts.pending == 0 && settled == counts.total,
            format!("not all is sent or skipped: {counts:?}"),
        );
        // An acknowledgement that a client made may have been taken without an answer, and later ones come after the end.
        must(
            counts.skipped <= received,
            format!("{} skipped, and {received} clients have it", counts.skipped),
        );
        must(
            live.acknowledged <= received,
            format!("{} acknowledged, and {received} clients have it", live.acknowledged),
        );
        must(
            counts.skipped <= live.acknowledged,
            format!("{} skipped, {} acknowledged, {answered} answered", counts.skipped, live.acknowledged),
        );
        must(counts.sent <= accepted, format!("{} sent, {accepted} accepted", counts.sent));
        // A sender that was killed may have made a call that nobody recorded, and then the user acknowledged.
        must(
            accepted - counts.sent <= allowed,
            format!("{accepted} accepted, {} sent, {allowed} allowed between", counts.sent),
        );
        mistakes
    }
}
