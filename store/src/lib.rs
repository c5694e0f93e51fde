//! What Bongsu remembers: domain types, state machines and all the SQL.
//!
//! The rest of Bongsu knows no SQL, and this crate knows no gRPC. Statements of more than a line or two are in
//! `queries/*.sql`, named by entity and verb, and checked against the schema at compile time.

mod accept;
mod answers;
mod broadcast;
mod broadcast_read;
mod capped;
mod claim;
mod claim_turns;
mod connect;
mod control;
mod counts;
mod delivery;
mod delivery_search;
mod device;
mod device_event;
mod device_plan;
mod device_register;
mod device_write;
mod doctor;
mod due;
mod error;
mod explain;
mod fan_out;
mod flush;
mod gauges;
mod ids;
mod lease;
mod live;
mod measure;
mod migrate;
mod outage;
mod pace;
mod payload;
mod preflight;
mod provider;
mod purge;
mod range;
mod replay;
mod replay_count;
mod restore;
mod retention;
mod schedule;
mod sender;
mod shards;
mod slow_tier;
mod subscription;
mod sweep;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod topic;

pub use answers::{
    DeadLetter, DeadLetterFilter, DeadLetterPlace, Delivery, DeliveryFilter, LIST_LOOKS_AT, Status,
};
pub use broadcast::*;
pub use capped::{CAPPED_AHEAD, CAPPED_SHARE, CappedBroadcast, CappedTaken, CappedWant};
pub use claim::{ClaimLane, LeasedBatch, Reclaim, Work};
pub use claim_turns::{Beside, Want};
pub use connect::Store;
pub use counts::{Counts, LiveCounts, Parked, ProviderCounts};
pub use delivery::{DeadReason, DeliveryState};
pub use delivery_search::{DeliveryPage, DeliverySearch, Recipient, SEARCH_STEP};
pub use device::{ConsentOf, Device, DeviceFilter, DeviceName, DeviceStates, RetireReason};
pub use device_event::{DeviceEvent, DeviceEventKind};
pub use device_register::{Imported, MAX_REGISTRATIONS, Registered, Registration};
pub use doctor::{Finding, Severity};
pub use due::{Due, DueDelivery, Target};
pub use error::{Result, StoreError};
pub use explain::{
    Explained, ExplainedBroadcast, ExplainedDelivery, ExplainedDevice, FailedAttempt, LetterFacts,
    MOST_DEVICES, ReplayOutcome,
};
pub use fan_out::FanOut;
pub use flush::{
    AWAITING_ACK, Fate, Flush, FlushLane, Flushed, KEPT_FAILURES, Outcome, SEEN_LIVE, Unfit, Verdict,
};
pub use gauges::{DatabaseGauges, GaugeLane, Gauges, OpenBroadcasts, ProviderPause, ProviderWork, TableRows};
pub use ids::{BatchId, BroadcastId, DeviceId, ProviderId, SenderId, Shard};
pub use lease::{Beat, ControlLane, Flags, Signals};
pub use live::{
    After, BACKLOG_EVENTS, Backlog, BusListener, BusSpeaker, Content, DueEvent, Event, EventId, GapReason,
    InboxPage, MOST_ACKNOWLEDGED, MOST_UNREAD, NoEventId, Told, UserNo,
};
pub use measure::{HeldSnapshot, Load};
pub use migrate::create_database;
pub use outage::Probe;
pub use pace::{PACED_AHEAD, PACED_SHARE, PaceLane, Reserved};
pub use payload::{
    APNS_SOUND_BYTES, EncodedSize, FcmContent, apns_payload, encoded_sizes, fcm_content, is_reserved_by_fcm,
    webhook_notification,
};
pub use preflight::{Forecast, ProviderForecast};
pub use provider::{Provider, ProviderInfo, ProviderKind};
pub use purge::{PURGE_STEP, PurgeFilter, PurgeStep};
pub use replay::{DeadLetterMatch, MAX_REPLAY_DEVICES, NewReplay, Replay, ReplayLetters};
pub use replay_count::{MAX_REPLAY_COUNTED, ReplayCount};
pub use restore::{RESTORE_STEP, Restorable, RestoreFilter, RestorePlace, Restored};
pub use retention::{
    DEFAULT_HISTORY_DAYS, DEFAULT_INBOX_DAYS, DEFAULT_RETENTION_DAYS, MOST_HISTORY_DAYS, MOST_RETENTION_DAYS,
    Partition, PartitionState, Purged, RetentionTurn, Step,
};
pub use schedule::{Rescheduled, Started};
pub use sender::{DEAD_AFTER, SenderInfo, SenderLife};
pub use shards::{MAX_SHARDS, SetShards};
pub use slow_tier::SlowRounds;
pub use subscription::{BadSubscription, Subscription};
pub use sweep::{SweepLane, Swept};
pub use topic::Subscribed;
