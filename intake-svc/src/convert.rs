//! The bridge between the store's types and the wire. Only renames: what may be wrong is in `validate`.

use bongsu_ops::api::to_timestamp;
use bongsu_proto::v1;
use bongsu_store::{
    AudienceSummary, Broadcast, BroadcastState, Counts, Device, Guarantee, LiveCounts, Message, NewBroadcast,
    Priority, RetireReason, Routing,
};
use time::OffsetDateTime;

pub(crate) fn broadcast(b: Broadcast) -> v1::Broadcast {
    let Message { title, body, data } = b.message;
    v1::Broadcast {
        id: b.id.0,
        state: state(b.state).into(),
        title,
        body,
        data,
        priority: priority(b.priority).into(),
        audience: Some(audience(b.audience)),
        expire_time: Some(to_timestamp(b.expires_at)),
        create_time: Some(to_timestamp(b.created_at)),
        settle_time: b.settled_at.map(to_timestamp),
        counts: Some(counts(&b.counts)),
        idempotency_key: b.idempotency_key,
        paused: b.paused,
        guarantee: guarantee(b.guarantee).into(),
        schedule_time: b.scheduled_at.map(to_timestamp),
        max_rate_per_second: b.max_rate_per_second.map_or(0, |rate| i32::try_from(rate).unwrap_or(i32::MAX)),
        routing: routing(b.routing).into(),
        ack_timeout: b.ack_timeout.and_then(|timeout| timeout.try_into().ok()),
        live: b
            .routing
            .is_live()
            .then_some(v1::LiveCounts { events: b.live.events, acknowledged: b.live.acknowledged }),
    }
}

/// A broadcast as it would be stored, in answer to validate_only.
pub(crate) fn unstored(
    new: NewBroadcast,
    now: OffsetDateTime,
    scheduled_at: Option<OffsetDateTime>,
    expires_at: OffsetDateTime,
) -> v1::Broadcast {
    let summary = match new.audience {
        bongsu_store::Audience::Everyone => AudienceSummary::Everyone,
        bongsu_store::Audience::Topics(topics) => AudienceSummary::Topics(topics),
        bongsu_store::Audience::Users(users) => AudienceSummary::Users(users.len() as i64),
        bongsu_store::Audience::Devices(devices) => AudienceSummary::Devices(devices.len() as i64),
    };
    broadcast(Broadcast {
        id: bongsu_store::BroadcastId(0),
        idempotency_key: new.idempotency_key,
        message: new.message,
        audience: summary,
        priority: new.priority,
        guarantee: new.guarantee,
        state: if scheduled_at.is_some() { BroadcastState::Scheduled } else { BroadcastState::Accepted },
        paused: false,
        max_rate_per_second: new.max_rate_per_second,
        routing: new.routing,
        ack_timeout: new.ack_timeout,
        created_at: now,
        expires_at,
        scheduled_at,
        settled_at: None,
        counts: Counts::default(),
        live: LiveCounts::default(),
        told: vec![],
    })
}

fn device_state(d: &Device) -> v1::DeviceState {
    match (d.retired_at, d.quarantined_at) {
        (Some(_), _) => v1::DeviceState::Retired,
        (None, Some(_)) => v1::DeviceState::Quarantined,
        (None, None) => v1::DeviceState::Live,
    }
}

pub(crate) fn device(d: Device) -> v1::Device {
    v1::Device {
        state: device_state(&d).into(),
        id: d.id.0,
        user_id: d.user_id,
        provider: d.provider,
        token: d.token,
        installation_id: d.installation_id.unwrap_or_default(),
        consent: d.consent,
        register_time: Some(to_timestamp(d.registered_at)),
        retire_time: d.retired_at.map(to_timestamp),
        quarantine_time: d.quarantined_at.map(to_timestamp),
        quarantine_code: d.quarantine_code.unwrap_or_default(),
        quarantine_detail: d.quarantine_detail.unwrap_or_default(),
        quarantined_by: d.quarantined_by.map_or(0, |id| id.0),
        retired_by: d.retired_by.map_or(0, |id| id.0),
        retire_code: d.retire_code.unwrap_or_default(),
        retire_reason: d.retire_reason.map_or(v1::RetireReason::Unspecified, retire_reason).into(),
        topics: d.topics,
    }
}

pub(crate) fn state(state: BroadcastState) -> v1::BroadcastState {
    match state {
        BroadcastState::Scheduled => v1::BroadcastState::Scheduled,
        BroadcastState::Accepted => v1::BroadcastState::Accepted,
        BroadcastState::FanningOut => v1::BroadcastState::FanningOut,
        BroadcastState::Delivering => v1::BroadcastState::Delivering,
        BroadcastState::Completed => v1::BroadcastState::Completed,
        BroadcastState::Cancelling => v1::BroadcastState::Cancelling,
        BroadcastState::Cancelled => v1::BroadcastState::Cancelled,
    }
}

/// None for the unspecified one.
pub(crate) fn state_from_proto(state: v1::BroadcastState) -> Option<BroadcastState> {
    match state {
        v1::BroadcastState::Unspecified => None,
        v1::BroadcastState::Scheduled => Some(BroadcastState::Scheduled),
        v1::BroadcastState::Accepted => Some(BroadcastState::Accepted),
        v1::BroadcastState::FanningOut => Some(BroadcastState::FanningOut),
        v1::BroadcastState::Delivering => Some(BroadcastState::Delivering),
        v1::BroadcastState::Completed => Some(BroadcastState::Completed),
        v1::BroadcastState::Cancelling => Some(BroadcastState::Cancelling),
        v1::BroadcastState::Cancelled => Some(BroadcastState::Cancelled),
    }
}

fn routing(routing: Routing) -> v1::Routing {
    match routing {
        Routing::Push => v1::Routing::Push,
        Routing::Live => v1::Routing::Live,
        Routing::LiveThenPush => v1::Routing::LiveThenPush,
        Routing::LiveAndPush => v1::Routing::LiveAndPush,
    }
}

fn priority(priority: Priority) -> v1::Priority {
    match priority {
        Priority::Low => v1::Priority::Low,
        Priority::Normal => v1::Priority::Normal,
        Priority::High => v1::Priority::High,
    }
}

fn guarantee(guarantee: Guarantee) -> v1::Guarantee {
    match guarantee {
        Guarantee::AtLeastOnce => v1::Guarantee::AtLeastOnce,
        Guarantee::AtMostOnce => v1::Guarantee::AtMostOnce,
    }
}

fn retire_reason(reason: RetireReason) -> v1::RetireReason {
    match reason {
        RetireReason::Requested => v1::RetireReason::Requested,
        RetireReason::Replaced => v1::RetireReason::Replaced,
        RetireReason::Unregistered => v1::RetireReason::Unregistered,
    }
}

fn audience(summary: AudienceSummary) -> v1::AudienceSummary {
    use v1::audience_summary::Kind;
    let kind = match summary {
        AudienceSummary::Everyone => Kind::Everyone(v1::EveryoneAudience {}),
        AudienceSummary::Topics(topics) => Kind::Topics(v1::TopicAudience { topics }),
        AudienceSummary::DeadLetters(id) => Kind::ReplayOf(id.0),
        AudienceSummary::Users(count) => Kind::UserCount(count),
        AudienceSummary::Devices(count) => Kind::DeviceCount(count),
    };
    v1::AudienceSummary { kind: Some(kind) }
}

fn counts(c: &Counts) -> v1::DeliveryCounts {
    v1::DeliveryCounts {
        total: c.total,
        pending: c.pending(),
        retrying: c.retrying,
        sent: c.sent,
        dead: c.dead(),
        expired: c.expired,
        skipped: c.skipped,
        cancelled: c.cancelled,
        dead_unregistered: c.dead_unregistered,
        dead_rejected: c.dead_rejected,
        dead_attempts_exhausted: c.dead_attempts_exhausted,
        retried: c.retried,
        unconfirmed: c.unconfirmed,
    }
}
