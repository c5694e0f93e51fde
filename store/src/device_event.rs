//! What the row of a device does not say any more: changes of consent, and what it was put aside for once that ended.
//!
//! Written by the statement that makes the change, or beside it while the device is locked. Importing new devices writes none of it.

use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::device_plan::{Plan, Standing};
use crate::ids::{BroadcastId, DeviceId, Shard};
use crate::shards::by_shard;

/// What happened to a device. Spelled alike in SQL (`device_event_kind`) and proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "device_event_kind", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeviceEventKind {
    ConsentGiven,
    ConsentWithdrawn,
    /// It had been quarantined, and registered again.
    QuarantineEnded,
    /// It had been quarantined, and an operator restored it.
    QuarantineUndone,
    /// It had been retired by a provider's word, and an operator restored it.
    RetirementUndone,
}

/// One of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEvent {
    pub at: OffsetDateTime,
    pub kind: DeviceEventKind,
    /// Of what ended: since when it was so, for which words of the provider, in answer to a call for which broadcast.
    pub since: Option<OffsetDateTime>,
    pub code: Option<String>,
    pub detail: Option<String>,
    pub broadcast: Option<BroadcastId>,
}

/// Notes what a registration is about to change of the devices that it refreshes.
pub(crate) async fn note_refreshed(
    tx: &mut PgConnection,
    plan: &Plan<'_>,
    standing: &[Standing],
    place: impl Fn(DeviceId) -> Shard,
) -> Result<(), sqlx::Error> {
    let changed = plan.refresh.iter().filter_map(|(id, row)| {
        // In order of id, as they were locked.
        let before =
            standing.binary_search_by_key(id, |device| device.id).ok().and_then(|i| standing.get(i))?;
        let consent = row.consent.filter(|consent| *consent != before.consent);
        (before.quarantined || consent.is_some()).then_some((*id, before.quarantined, consent))
    });
    for (shard, changed) in by_shard(changed, |(id, ..)| place(*id)) {
        let quarantined: Vec<i64> =
            changed.iter().filter(|(_, quarantined, _)| *quarantined).map(|(id, ..)| id.0).collect();
        let (consenting, consents): (Vec<i64>, Vec<bool>) =
            changed.iter().filter_map(|(id, _, consent)| Some((id.0, (*consent)?))).unzip();
        sqlx::query_file!("queries/device_event_refresh.sql", shard, &quarantined, &consenting, &consents)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}
