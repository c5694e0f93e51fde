//! Deliveries: one per broadcast and device, the unit of outcome.

use serde::Serialize;

/// Where a delivery is. Spelled alike in SQL (`delivery_state`) and proto. All but [`DeliveryState::Pending`] and
/// [`DeliveryState::Sending`] are final.
///
/// ```text
///  pending ──────────────▶ sent | dead | expired | skipped | cancelled
///   ▲  ▲ │ at most once       ▲
///   │  │ └──────▶ sending ────┴─▶ unconfirmed
///   └──┴────────────┘ a failed attempt that is to be repeated
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, sqlx::Type)]
#[sqlx(type_name = "delivery_state", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Made by fan-out; stays so through its attempts until one of the others is recorded.
    Pending,
    /// In a broadcast that is sent at most once: committed before the call, so that nobody calls again.
    Sending,
    /// The provider accepted it.
    Sent,
    /// Not to be tried again, with a [`DeadReason`] and a dead letter.
    Dead,
    /// Not sent before the broadcast's expiry.
    Expired,
    /// Consent withdrawn or device retired between fan-out and the call.
    Skipped,
    /// The broadcast was cancelled before a call was made.
    Cancelled,
    /// At most once: whether the provider accepted it is not known, and it is not asked again.
    Unconfirmed,
}

/// Why a delivery is dead. Spelled alike in SQL (`dead_reason`) and proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx::Type)]
#[sqlx(type_name = "dead_reason", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// Every attempt failed.
    AttemptsExhausted,
    /// The provider said that the token is no longer registered.
    Unregistered,
    /// The provider refused our request.
    Rejected,
    /// Of dead letters only: the delivery ended [`DeliveryState::Unconfirmed`].
    Unconfirmed,
}
