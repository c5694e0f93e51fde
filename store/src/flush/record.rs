//! The statements of a flush, in their order: lock the batches, update the deliveries, and from what that returned the
//! tallies, dead letters, failed attempts and retries.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sqlx::PgConnection;

use super::retry::{self, RetryDelays};
use super::{Flush, Flushed, Outcome, Verdict, failures, sent, unfit};
use crate::claim::LeasedBatch;
use crate::delivery::DeadReason;
use crate::error::Result;
use crate::ids::{BatchId, BroadcastId, ProviderId, SenderId, Shard};
use crate::text::{CODE_BYTES, DETAIL_BYTES, printable};

/// The code of a delivery that was put into a batch of its own.
pub(super) const RECLAIMED: &str = "reclaimed";
/// … of one whose user has time left to acknowledge it …
pub const AWAITING_ACK: &str = "awaiting_ack";
/// … and of one whose user did.
pub const SEEN_LIVE: &str = "seen_live";

pub(super) async fn record(
    tx: &mut PgConnection,
    shard: Shard,
    sender: SenderId,
    flush: &Flush,
) -> Result<Flushed> {
    let locked = Locked::take(tx, shard, sender, flush).await?;
    // A sender that lost its batch may still say what the provider accepted: that is true whoever holds the batch now. Its
    // failures are the new owner's business.
    let counting: Vec<&Outcome> = flush
        .outcomes
        .iter()
        .filter(|o| locked.holds(&o.batch) || (o.verdict == Verdict::Sent && locked.exists(&o.batch)))
        .collect();
    let counted = counting.len();
    let (ranges, others) = sent::in_ranges(counting);
    let sent = sent::update(tx, shard, &ranges).await?;
    let delays = RetryDelays::draw(&others);
    let recorded = update_deliveries(tx, shard, &others, &delays).await?;
    let in_ranges: i32 = sent.values().sum();
    let recorded_in_all = recorded.len() + usize::try_from(in_ranges).unwrap_or_default();
    let closed: HashSet<BatchId> =
        flush.closed.iter().filter(|batch| locked.holds(batch)).map(|batch| batch.id).collect();
    let flushed = Flushed {
        recorded: recorded_in_all,
        fenced: flush.outcomes.len() - counted,
        stale: counted - recorded_in_all,
        dead: dead(&recorded),
        touched: update_batches(tx, shard, sent, &recorded, &closed).await?,
    };
    insert_dead_letters(tx, shard, &recorded).await?;
    failures::insert(tx, shard, &recorded, &delays).await?;
    retry::insert(tx, shard, &recorded, &delays).await?;
    unfit::record(tx, shard, &flush.unfit).await?;
    Ok(flushed)
}

/// How many of these are dead letters, by why.
fn dead(recorded: &[&Outcome]) -> BTreeMap<(ProviderId, DeadReason), u64> {
    let mut dead = BTreeMap::new();
    for outcome in recorded {
        if let Verdict::Dead { reason, .. } = outcome.verdict {
            *dead.entry((outcome.batch.provider, reason)).or_default() += 1;
        }
    }
    dead
}

/// The batches of a flush, locked until its end: for each the epoch under which this sender holds it, if it does.
struct Locked(HashMap<BatchId, Option<i64>>);

impl Locked {
    async fn take(tx: &mut PgConnection, shard: Shard, sender: SenderId, flush: &Flush) -> Result<Self> {
        let batches = flush.outcomes.iter().map(|o| &o.batch).chain(&flush.closed);
        let ids: BTreeSet<i64> = batches.map(|batch| batch.id.0).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let rows = sqlx::query_file!("queries/flush_lock.sql", shard, sender.0, &ids).fetch_all(tx).await?;
        Ok(Self(rows.into_iter().map(|row| (row.id, row.mine.then_some(row.epoch))).collect()))
    }

    /// Whether this very lease still holds.
    fn holds(&self, lease: &LeasedBatch) -> bool {
        self.0.get(&lease.id) == Some(&Some(lease.epoch))
    }

    /// Whether the batch is there, whoever holds it; it is not once its broadcast is final.
    fn exists(&self, lease: &LeasedBatch) -> bool {
        self.0.contains_key(&lease.id)
    }
}

/// Updates the deliveries, and returns the outcomes that counted.
async fn update_deliveries<'a>(
    tx: &mut PgConnection,
    shard: Shard,
    outcomes: &[&'a Outcome],
    delays: &RetryDelays,
) -> Result<Vec<&'a Outcome>> {
    if outcomes.is_empty() {
        return Ok(vec![]);
    }
    let n = outcomes.len();
    let mut broadcasts = Vec::with_capacity(n);
    let mut providers = Vec::with_capacity(n);
    let mut devices = Vec::with_capacity(n);
    let mut before = Vec::with_capacity(n);
    let mut states = Vec::with_capacity(n);
    let mut reasons: Vec<Option<DeadReason>> = Vec::with_capacity(n);
    let mut waits: Vec<Option<f64>> = Vec::with_capacity(n);
    let mut codes: Vec<Option<String>> = Vec::with_capacity(n);
    let mut attempts = Vec::with_capacity(n);
    for outcome in outcomes {
        let batch = &outcome.batch;
        broadcasts.push(batch.broadcast.0);
        providers.push(batch.provider.0);
        devices.push(outcome.device.0);
        before.push(batch.attempt - 1);
        states.push(outcome.verdict.state());
        attempts.push(if outcome.verdict.takes_number() { batch.attempt } else { batch.attempt - 1 });
        let (reason, wait, code) = match &outcome.verdict {
            Verdict::Dead { reason, code, .. } => (Some(*reason), None, Some(printable(code, CODE_BYTES))),
            Verdict::Retry { code, .. } => (None, delays.seconds(outcome), Some(printable(code, CODE_BYTES))),
            Verdict::Alone => (None, delays.seconds(outcome), Some(RECLAIMED.to_owned())),
            Verdict::AwaitAck { .. } => (None, delays.seconds(outcome), Some(AWAITING_ACK.to_owned())),
            Verdict::SeenLive => (None, None, Some(SEEN_LIVE.to_owned())),
            Verdict::Unconfirmed { code, .. } => (None, None, Some(printable(code, CODE_BYTES))),
            _ => (None, None, None),
        };
        reasons.push(reason);
        waits.push(wait);
        codes.push(code);
    }
    let matched = sqlx::query_file_scalar!(
        "queries/flush_deliveries.sql",
        shard,
        &broadcasts,
        &providers,
        &devices,
        &before,
        &states as _,
        &reasons as _,
        &waits as _,
        &codes as _,
        &attempts
    )
    .fetch_all(tx)
    .await?;
    Ok(matched
        .into_iter()
        .filter_map(|n| usize::try_from(n).ok()?.checked_sub(1).and_then(|i| outcomes.get(i).copied()))
        .collect())
}

/// Adds to the tallies, `sent` and what else was recorded, and ends leases. Returns the broadcasts of which a batch is done now.
async fn update_batches(
    tx: &mut PgConnection,
    shard: Shard,
    sent: BTreeMap<BatchId, i32>,
    recorded: &[&Outcome],
    closed: &HashSet<BatchId>,
) -> Result<BTreeSet<BroadcastId>> {
    // Columns: sent, dead_attempts_exhausted, dead_unregistered, dead_rejected, expired, skipped, cancelled, unconfirmed,
    // retried.
    let mut tallies: BTreeMap<BatchId, [i32; 9]> = closed.iter().map(|id| (*id, [0; 9])).collect();
    for (id, n) in sent {
        tallies.entry(id).or_default()[0] += n;
    }
    for outcome in recorded {
        let column = match &outcome.verdict {
            Verdict::Sent => 0,
            Verdict::Dead { reason: DeadReason::AttemptsExhausted, .. } => 1,
            Verdict::Dead { reason: DeadReason::Unregistered, .. } => 2,
            // The compiler cannot tell that nobody makes the second.
            Verdict::Dead { reason: DeadReason::Rejected | DeadReason::Unconfirmed, .. } => 3,
            Verdict::Expired => 4,
            Verdict::Skipped | Verdict::SeenLive => 5,
            Verdict::Cancelled => 6,
            Verdict::Unconfirmed { .. } => 7,
            Verdict::Retry { .. } | Verdict::Alone | Verdict::AwaitAck { .. } => 8,
        };
        tallies.entry(outcome.batch.id).or_default()[column] += 1;
    }
    if tallies.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ids: Vec<i64> = tallies.keys().map(|id| id.0).collect();
    let close: Vec<bool> = tallies.keys().map(|id| closed.contains(id)).collect();
    let column = |i: usize| tallies.values().map(|t| t[i]).collect::<Vec<i32>>();
    let rows = sqlx::query_file!(
        "queries/flush_batches.sql",
        shard,
        &ids,
        &close,
        &column(0),
        &column(1),
        &column(2),
        &column(3),
        &column(4),
        &column(5),
        &column(6),
        &column(7),
        &column(8)
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().filter(|r| r.done).map(|r| r.broadcast).collect())
}

async fn insert_dead_letters(tx: &mut PgConnection, shard: Shard, recorded: &[&Outcome]) -> Result<()> {
    let dead: Vec<_> = recorded
        .iter()
        .filter_map(|o| match &o.verdict {
            Verdict::Dead { reason, code, detail } => Some((o, *reason, code, detail)),
            Verdict::Unconfirmed { code, detail } => Some((o, DeadReason::Unconfirmed, code, detail)),
            _ => None,
        })
        .collect();
    if dead.is_empty() {
        return Ok(());
    }
    let broadcasts: Vec<i64> = dead.iter().map(|(o, ..)| o.batch.broadcast.0).collect();
    let providers: Vec<i16> = dead.iter().map(|(o, ..)| o.batch.provider.0).collect();
    let devices: Vec<i64> = dead.iter().map(|(o, ..)| o.device.0).collect();
    let attempts: Vec<i32> = dead.iter().map(|(o, ..)| o.batch.attempt).collect();
    let reasons: Vec<DeadReason> = dead.iter().map(|(_, reason, ..)| *reason).collect();
    let codes: Vec<String> = dead.iter().map(|(_, _, code, _)| printable(code, CODE_BYTES)).collect();
    let details: Vec<String> = dead.iter().map(|(.., detail)| printable(detail, DETAIL_BYTES)).collect();
    sqlx::query_file!(
        "queries/flush_dead_letters.sql",
        shard,
        &broadcasts,
        &providers,
        &devices,
        &attempts,
        &reasons as _,
        &codes,
        &details
    )
    .execute(tx)
    .await?;
    Ok(())
}
