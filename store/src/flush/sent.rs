//! What the provider accepted, which is most of a flush: recorded by ranges instead of one by one.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use super::{Outcome, Verdict};
use crate::claim::LeasedBatch;
use crate::error::Result;
use crate::ids::{BatchId, DeviceId, Shard};
use crate::range::DeviceRange;

/// A range of more ids than this would need more bits than it is worth: 8 KiB.
const MOST_BITS: u64 = 65_536;

/// The deliveries of a batch that the provider accepted.
pub(super) struct SentRange {
    batch: LeasedBatch,
    range: DeviceRange,
    devices: Vec<DeviceId>,
}

impl SentRange {
    /// A bit for each id of the range, the first in the lowest place of the first byte, as get_bit counts them.
    fn bits(&self) -> Vec<u8> {
        let mut bits = vec![0; usize::try_from(self.range.ids().div_ceil(8)).unwrap_or_default()];
        for device in &self.devices {
            let n = (device.0 - self.range.first.0).unsigned_abs();
            if let Some(byte) = usize::try_from(n / 8).ok().and_then(|i| bits.get_mut(i)) {
                *byte |= 1 << (n % 8);
            }
        }
        bits
    }
}

/// Takes the sent ones out of `outcomes` where they lie close enough together, and returns the others.
pub(super) fn in_ranges(outcomes: Vec<&Outcome>) -> (Vec<SentRange>, Vec<&Outcome>) {
    let mut by_batch: BTreeMap<BatchId, Vec<&Outcome>> = BTreeMap::new();
    let mut others = Vec::new();
    for outcome in outcomes {
        match outcome.verdict {
            Verdict::Sent => by_batch.entry(outcome.batch.id).or_default().push(outcome),
            _ => others.push(outcome),
        }
    }
    let mut ranges = Vec::with_capacity(by_batch.len());
    for sent in by_batch.into_values() {
        match of_batch(&sent) {
            Some(range) => ranges.push(range),
            None => others.extend(sent),
        }
    }
    (ranges, others)
}

fn of_batch(sent: &[&Outcome]) -> Option<SentRange> {
    let batch = sent.first()?.batch;
    let range = DeviceRange::of(sent.iter().map(|o| o.device))?;
    let most = batch.ranged.then(|| u64::from(batch.size.unsigned_abs()));
    let pays = range.ids() <= MOST_BITS && range.pays_for(sent.len(), most);
    pays.then(|| SentRange { batch, range, devices: sent.iter().map(|o| o.device).collect() })
}

/// Updates their deliveries, and returns how many of each batch counted.
pub(super) async fn update(
    tx: &mut PgConnection,
    shard: Shard,
    ranges: &[SentRange],
) -> Result<BTreeMap<BatchId, i32>> {
    if ranges.is_empty() {
        return Ok(BTreeMap::new());
    }
    let batches: Vec<i64> = ranges.iter().map(|r| r.batch.id.0).collect();
    let broadcasts: Vec<i64> = ranges.iter().map(|r| r.batch.broadcast.0).collect();
    let providers: Vec<i16> = ranges.iter().map(|r| r.batch.provider.0).collect();
    let attempts: Vec<i32> = ranges.iter().map(|r| r.batch.attempt).collect();
    let firsts: Vec<i64> = ranges.iter().map(|r| r.range.first.0).collect();
    let lasts: Vec<i64> = ranges.iter().map(|r| r.range.last.0).collect();
    let bits: Vec<Vec<u8>> = ranges.iter().map(SentRange::bits).collect();
    let rows = sqlx::query_file!(
        "queries/flush_sent.sql",
        shard,
        &batches,
        &broadcasts,
        &providers,
        &attempts,
        &firsts,
        &lasts,
        &bits
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.batch, row.sent)).collect())
}
