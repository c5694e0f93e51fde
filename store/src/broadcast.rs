//! Broadcasts: one accepted request to notify an audience.
//!
//! ```text
//!  scheduled ──▶ accepted ──▶ fanning_out ──▶ delivering ──▶ completed
//!      │             └──────────────┴───────────────┴──▶ cancelling ──▶ cancelled
//!      └──▶ cancelled, or completed where it expired before anybody started it
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::counts::{Counts, LiveCounts};
use crate::ids::{BroadcastId, DeviceId};
use crate::live::Told;

/// Where a broadcast is. Spelled alike in SQL (`broadcast_state`) and proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, sqlx::Type)]
#[sqlx(type_name = "broadcast_state", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum BroadcastState {
    /// Stored by accept, for later; no delivery exists. Any intake starts it once its time has come (`accepted`), or ends it,
    /// with no delivery, where it has expired by then. An operator may move its time, pause it, or cancel it at once.
    Scheduled,
    /// Stored by accept, or started; no delivery exists yet. The first page of fan-out moves it on.
    Accepted,
    /// Pages of fan-out are being made; senders already work on the first ones. The page that finds nothing more moves
    /// it on.
    FanningOut,
    /// Every delivery exists. The completion statement ends it once no batch is open. A small explicit audience starts
    /// here.
    Delivering,
    /// Final: every delivery has a final state, and the tallies are folded.
    Completed,
    /// A caller cancelled it; what is not leased is settled by the sweep, what is leased by its owner.
    Cancelling,
    /// Final: cancelled, and every delivery has a final state.
    Cancelled,
}

impl BroadcastState {
    /// Whether nothing will change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// A share of the senders' capacity, by weight in the fair queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "broadcast_priority", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Low,
    Normal,
    High,
}

impl Priority {
    /// How far a delivery of this priority moves the fair queue's virtual time.
    pub fn rank_step(self) -> i64 {
        1_000 / self.weight()
    }

    /// Deliveries of this priority per one of [`Priority::Low`] while both wait.
    pub(crate) fn weight(self) -> i64 {
        match self {
            Self::Low => 1,
            Self::Normal => 4,
            Self::High => 16,
        }
    }
}

/// What a delivery does when nobody knows whether the provider took it. Spelled alike in SQL (`delivery_guarantee`) and proto.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "delivery_guarantee", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// It is called again.
    #[default]
    AtLeastOnce,
    /// It ends `unconfirmed`.
    AtMostOnce,
}

/// Which way it goes to a user. Spelled alike in SQL (`broadcast_routing`) and proto.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "broadcast_routing", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// To each device.
    #[default]
    Push,
    /// To the user's inbox and streams alone.
    Live,
    /// To devices where the user has no connection, or does not acknowledge in time.
    LiveThenPush,
    /// Both at once.
    LiveAndPush,
}

impl Routing {
    /// Whether users get an event.
    pub fn is_live(self) -> bool {
        self != Self::Push
    }

    /// Whether devices get a delivery.
    pub fn pushes(self) -> bool {
        self != Self::Live
    }
}

/// How long a connected user may take to acknowledge, where the routing waits for it.
pub const ACK_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// The same where the caller says nothing.
pub const DEFAULT_ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub title: String,
    pub body: String,
    /// Handed to the app as it is.
    pub data: BTreeMap<String, String>,
}

/// Who it is for. Lists are sorted and distinct: [`Audience::users`] and its neighbours see to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    Topics(Vec<String>),
    Users(Vec<String>),
    Devices(Vec<DeviceId>),
}

impl Audience {
    pub fn topics(topics: Vec<String>) -> Self {
        Self::Topics(distinct(topics))
    }

    pub fn users(users: Vec<String>) -> Self {
        Self::Users(distinct(users))
    }

    pub fn devices(devices: Vec<DeviceId>) -> Self {
        Self::Devices(distinct(devices))
    }

    /// Ids in an explicit list; 0 for the others.
    pub(crate) fn listed(&self) -> usize {
        match self {
            Self::Everyone | Self::Topics(_) => 0,
            Self::Users(users) => users.len(),
            Self::Devices(devices) => devices.len(),
        }
    }
}

fn distinct<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items.dedup();
    items
}

/// Which form an audience has. Spelled alike in SQL (`audience_kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "audience_kind", rename_all = "snake_case")]
pub enum AudienceKind {
    Everyone,
    Topics,
    Users,
    Devices,
    /// Of another broadcast: a replay.
    DeadLetters,
}

/// What a stored broadcast says of its audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AudienceSummary {
    Everyone,
    Topics(Vec<String>),
    /// Number of distinct user ids.
    Users(i64),
    /// Number of distinct device ids.
    Devices(i64),
    /// The dead letters of this broadcast.
    DeadLetters(BroadcastId),
}

/// Until when it is worth sending, as the caller put it: so long after its start, or until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    After(Duration),
    At(OffsetDateTime),
}

/// Whose broadcasts and idempotency keys they are where callers do not say who they are: all share one space of keys.
pub const CLIENT_ID: &str = "default";

/// The highest rate that a broadcast may ask for, in calls within a second.
pub const MAX_RATE_PER_SECOND: u32 = 1_000_000;

/// Shortest and longest time from the start to the expiry. The start is the acceptance, or what it is scheduled for.
pub const EXPIRY_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(7 * 24 * 3600));
/// Expiry where the caller says nothing.
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 3600);

/// How far ahead a broadcast may be scheduled.
pub const MOST_AHEAD: Duration = Duration::from_secs(30 * 24 * 3600);

/// A valid request, not yet stored.
#[derive(Debug, Clone)]
pub struct NewBroadcast {
    /// Whose idempotency keys these are.
    pub client_id: String,
    pub idempotency_key: String,
    pub message: Message,
    pub audience: Audience,
    pub priority: Priority,
    pub guarantee: Guarantee,
    pub expiry: Expiry,
    /// When it is to start; none, or past: at once.
    pub schedule: Option<OffsetDateTime>,
    /// Calls within any second at most; `None`: as many as can be made.
    pub max_rate_per_second: Option<u32>,
    pub routing: Routing,
    /// With [`Routing::LiveThenPush`] alone.
    pub ack_timeout: Option<Duration>,
    /// Over the request as it was sent, in canonical form: same content, same hash.
    pub request_hash: [u8; 32],
    /// The span that asked for it, as a W3C traceparent, where it is sampled. No part of the content.
    pub trace_context: Option<String>,
}

/// A stored broadcast with its committed counts.
#[derive(Debug, Clone)]
pub struct Broadcast {
    pub id: BroadcastId,
    pub idempotency_key: String,
    pub message: Message,
    pub audience: AudienceSummary,
    pub priority: Priority,
    pub guarantee: Guarantee,
    pub state: BroadcastState,
    /// No call starts while set.
    pub paused: bool,
    /// Calls within any second at most; `None`: as many as can be made.
    pub max_rate_per_second: Option<u32>,
    pub routing: Routing,
    /// With [`Routing::LiveThenPush`] alone.
    pub ack_timeout: Option<Duration>,
    pub created_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
    /// When it is to start, or was, where that was not at once.
    pub scheduled_at: Option<OffsetDateTime>,
    pub settled_at: Option<OffsetDateTime>,
    pub counts: Counts,
    /// Nothing with [`Routing::Push`].
    pub live: LiveCounts,
    /// Who got an event as it was accepted, and is to be told. Empty in all that is read.
    pub told: Told,
}

/// What became of a request to accept.
#[must_use]
#[derive(Debug)]
pub enum Acceptance {
    /// Stored by this call.
    New(Box<Broadcast>),
    /// The key stands for a broadcast with the same content.
    Replayed(Box<Broadcast>),
    /// The key stands for a broadcast with other content.
    KeyReused(BroadcastId),
    /// The expiry is not within [`EXPIRY_RANGE`] of the start, which is now by the database's clock, or scheduled for later.
    ExpiryOutOfRange { start: OffsetDateTime, scheduled: bool },
    /// It is scheduled for more than [`MOST_AHEAD`] from now, by the database's clock.
    TooFarAhead { now: OffsetDateTime },
}

/// What a check without storing found.
#[must_use]
#[derive(Debug)]
pub enum Check {
    /// It would be stored, start then where that is not at once, and expire then.
    WouldAccept { now: OffsetDateTime, scheduled_at: Option<OffsetDateTime>, expires_at: OffsetDateTime },
    /// As for [`Acceptance`].
    Otherwise(Acceptance),
}

/// What became of a request to pause, resume or cancel.
#[must_use]
#[derive(Debug)]
pub enum Controlled {
    /// It is as asked, now or before.
    Done(Box<Broadcast>),
    /// It had ended, or was being cancelled.
    TooLate(Box<Broadcast>),
    NotFound,
}

/// Which broadcasts to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct BroadcastFilter {
    /// Empty: all.
    pub states: Vec<BroadcastState>,
    /// Only those of this client.
    pub client_id: Option<String>,
    /// Only those older than this one: the last of the page before.
    pub before: Option<BroadcastId>,
    /// Rows at most.
    pub limit: i64,
}
