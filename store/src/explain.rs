//! Why somebody did not get it: all that is stored of a broadcast and a user's devices, in one snapshot, and nothing concluded.

mod read;
mod row;

use time::OffsetDateTime;

use crate::broadcast::{AudienceKind, BroadcastState};
use crate::delivery::{DeadReason, DeliveryState};
use crate::device::Device;
use crate::device_event::DeviceEvent;
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};

/// Devices of a user that are explained: the newest.
pub const MOST_DEVICES: usize = 100;
/// Events of a device that are told: the newest.
const MOST_EVENTS: i64 = 50;
/// Replays of replays that are followed.
const MOST_REPLAYS: usize = 10;

/// What is stored about a broadcast and somebody's devices.
#[derive(Debug, Clone)]
pub struct Explained {
    pub broadcast: ExplainedBroadcast,
    /// The newest first, at most [`MOST_DEVICES`]; none where the user or the device is not known.
    pub devices: Vec<ExplainedDevice>,
    /// Whether the user has older ones.
    pub more_devices: bool,
}

/// A broadcast, as far as it decides who gets it.
#[derive(Debug, Clone)]
pub struct ExplainedBroadcast {
    pub id: BroadcastId,
    pub state: BroadcastState,
    pub paused: bool,
    pub created_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
    pub settled_at: Option<OffsetDateTime>,
    pub audience: AudienceKind,
    pub topics: Vec<String>,
    pub replay_of: Option<BroadcastId>,
    /// Whether its pushes wait for acknowledgements.
    pub live_first: bool,
    /// The highest device id that takes part; none of short lists, and before the fan-out began.
    pub fan_out_until: Option<DeviceId>,
    /// When the last page was made; none of short lists, whose only page is their acceptance.
    pub fan_out_page_at: Option<OffsetDateTime>,
    /// Whether its deliveries were dropped at the end of their retention.
    pub dropped: bool,
    /// The database's clock.
    pub read_at: OffsetDateTime,
    /// How far the fan-out has come: all before this provider, shard and device have their deliveries.
    pub fan_out: (ProviderId, Shard, DeviceId),
}

impl ExplainedBroadcast {
    /// Whether the fan-out is past a device; none where it goes through a list instead.
    pub fn is_past(&self, device: &ExplainedDevice) -> Option<bool> {
        match self.audience {
            AudienceKind::Users | AudienceKind::Devices => None,
            _ => Some((device.provider_id, device.shard, device.device.id) <= self.fan_out),
        }
    }
}

/// A device with its part of the broadcast.
#[derive(Debug, Clone)]
pub struct ExplainedDevice {
    /// Its topics are only those of the broadcast.
    pub device: Device,
    pub shard: Shard,
    pub provider_id: ProviderId,
    pub delivery: Option<ExplainedDelivery>,
    /// Those that were followed by another attempt, in order: the last [`crate::KEPT_FAILURES`].
    pub failures: Vec<FailedAttempt>,
    pub dead_letter: Option<LetterFacts>,
    /// The replays that took the dead letter up, in turn.
    pub replays: Vec<ReplayOutcome>,
    /// In order; the newest ones.
    pub events: Vec<DeviceEvent>,
    /// Whether it, or its user, is in the broadcast's explicit list; none where there is none, or where it is not kept any more.
    pub listed: Option<bool>,
    /// When a client of the user first acknowledged it live; none where nobody did, or where that is not kept any more.
    pub acknowledged_at: Option<OffsetDateTime>,
    /// Of a replay: whether there is a dead letter of the original that it could take up, and which replay has that.
    pub original_died: bool,
    pub original_replayed_by: Option<BroadcastId>,
}

/// A delivery, as it stands.
#[derive(Debug, Clone)]
pub struct ExplainedDelivery {
    pub state: DeliveryState,
    pub attempts: i32,
    pub next_attempt_at: Option<OffsetDateTime>,
    pub last_code: Option<String>,
    pub dead_reason: Option<DeadReason>,
    pub settled_at: Option<OffsetDateTime>,
}

/// A dead letter.
#[derive(Debug, Clone)]
pub struct LetterFacts {
    pub attempts: i32,
    pub reason: DeadReason,
    pub created_at: OffsetDateTime,
    pub code: String,
    pub detail: String,
    pub replayed_by: Option<BroadcastId>,
}

/// An attempt that failed, and was followed by another.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedAttempt {
    pub attempt: i32,
    pub at: OffsetDateTime,
    /// When the next one was due.
    pub due_at: OffsetDateTime,
    pub charged: bool,
    pub code: String,
    pub detail: String,
}

/// What a replay came to for a device.
#[derive(Debug, Clone)]
pub struct ReplayOutcome {
    pub broadcast: BroadcastId,
    pub state: BroadcastState,
    /// None before its fan-out came to it, and once its deliveries were dropped.
    pub delivery: Option<ExplainedDelivery>,
}
