//! What `explain_devices.sql` returns of a device.

use time::OffsetDateTime;

use super::{ExplainedDelivery, ExplainedDevice, LetterFacts};
use crate::delivery::{DeadReason, DeliveryState};
use crate::device::{Device, RetireReason};
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};

/// A device as `explain_devices.sql` returns it.
pub(super) struct Row {
    pub shard: Shard,
    pub id: DeviceId,
    pub provider_id: ProviderId,
    pub provider: String,
    pub user_id: String,
    pub token: String,
    pub installation_id: Option<String>,
    pub consent: bool,
    pub registered_at: OffsetDateTime,
    pub retired_at: Option<OffsetDateTime>,
    pub retire_reason: Option<RetireReason>,
    pub retired_by: Option<BroadcastId>,
    pub retire_code: Option<String>,
    pub quarantined_at: Option<OffsetDateTime>,
    pub quarantine_code: Option<String>,
    pub quarantine_detail: Option<String>,
    pub quarantined_by: Option<BroadcastId>,
    pub topics: Vec<String>,
    pub state: Option<DeliveryState>,
    pub attempts: Option<i32>,
    pub next_attempt_at: Option<OffsetDateTime>,
    pub last_code: Option<String>,
    pub dead_reason: Option<DeadReason>,
    pub settled_at: Option<OffsetDateTime>,
    pub letter_attempts: Option<i32>,
    pub letter_reason: Option<DeadReason>,
    pub letter_created_at: Option<OffsetDateTime>,
    pub letter_code: Option<String>,
    pub letter_detail: Option<String>,
    pub letter_replayed_by: Option<BroadcastId>,
    pub acknowledged_at: Option<OffsetDateTime>,
    pub original_died: bool,
    pub original_replayed_by: Option<BroadcastId>,
}

impl Row {
    fn delivery(&self) -> Option<ExplainedDelivery> {
        Some(ExplainedDelivery {
            state: self.state?,
            attempts: self.attempts?,
            next_attempt_at: self.next_attempt_at,
            last_code: self.last_code.clone(),
            dead_reason: self.dead_reason,
            settled_at: self.settled_at,
        })
    }

    fn dead_letter(&self) -> Option<LetterFacts> {
        Some(LetterFacts {
            attempts: self.letter_attempts?,
            reason: self.letter_reason?,
            created_at: self.letter_created_at?,
            code: self.letter_code.clone()?,
            detail: self.letter_detail.clone()?,
            replayed_by: self.letter_replayed_by,
        })
    }
}

impl From<Row> for ExplainedDevice {
    fn from(row: Row) -> Self {
        let (delivery, dead_letter) = (row.delivery(), row.dead_letter());
        Self {
            device: Device {
                id: row.id,
                user_id: row.user_id,
                provider: row.provider,
                token: row.token,
                installation_id: row.installation_id,
                consent: row.consent,
                registered_at: row.registered_at,
                retired_at: row.retired_at,
                retire_reason: row.retire_reason,
                retired_by: row.retired_by,
                retire_code: row.retire_code,
                quarantined_at: row.quarantined_at,
                quarantine_code: row.quarantine_code,
                quarantine_detail: row.quarantine_detail,
                quarantined_by: row.quarantined_by,
                topics: row.topics,
            },
            shard: row.shard,
            provider_id: row.provider_id,
            delivery,
            failures: vec![],
            dead_letter,
            replays: vec![],
            events: vec![],
            listed: None,
            acknowledged_at: row.acknowledged_at,
            original_died: row.original_died,
            original_replayed_by: row.original_replayed_by,
        }
    }
}
