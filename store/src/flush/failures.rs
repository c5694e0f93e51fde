//! Attempts that failed and are made again, for whoever asks why. Those that are not made again are dead letters already.

use sqlx::PgConnection;

use super::record::RECLAIMED;
use super::retry::RetryDelays;
use super::{Outcome, Verdict};
use crate::error::Result;
use crate::ids::Shard;
use crate::text::{CODE_BYTES, DETAIL_BYTES, printable};

/// Failed attempts of a delivery that are kept: the last ones. One that its provider slows down may be called for days.
pub const KEPT_FAILURES: i32 = 20;

pub(super) async fn insert(
    tx: &mut PgConnection,
    shard: Shard,
    recorded: &[&Outcome],
    delays: &RetryDelays,
) -> Result<()> {
    let failed: Vec<_> = recorded
        .iter()
        .filter_map(|o| match &o.verdict {
            Verdict::Retry { code, detail, charged, .. } => Some((*o, *charged, code.as_str(), &**detail)),
            Verdict::Alone => Some((*o, false, RECLAIMED, "")),
            _ => None,
        })
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    let broadcasts: Vec<i64> = failed.iter().map(|(o, ..)| o.batch.broadcast.0).collect();
    let providers: Vec<i16> = failed.iter().map(|(o, ..)| o.batch.provider.0).collect();
    let devices: Vec<i64> = failed.iter().map(|(o, ..)| o.device.0).collect();
    let attempts: Vec<i32> = failed.iter().map(|(o, ..)| o.batch.attempt).collect();
    let waits: Vec<f64> = failed.iter().map(|(o, ..)| delays.seconds(o).unwrap_or_default()).collect();
    let charged: Vec<bool> = failed.iter().map(|(_, charged, ..)| *charged).collect();
    let codes: Vec<String> = failed.iter().map(|(_, _, code, _)| printable(code, CODE_BYTES)).collect();
    let details: Vec<String> = failed.iter().map(|(.., detail)| printable(detail, DETAIL_BYTES)).collect();
    sqlx::query_file!(
        "queries/flush_failures.sql",
        shard,
        KEPT_FAILURES,
        &broadcasts,
        &providers,
        &devices,
        &attempts,
        &waits,
        &charged,
        &codes,
        &details
    )
    .execute(tx)
    .await?;
    Ok(())
}
