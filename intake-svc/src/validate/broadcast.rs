//! What a broadcast may be.

use std::time::Duration;

use bongsu_ops::api::{Violations, from_timestamp};
use bongsu_proto::v1::audience::Kind;
use bongsu_proto::v1::create_broadcast_request::Expiry as SentExpiry;
use bongsu_proto::v1::reschedule_broadcast_request::Start;
use bongsu_proto::v1::{self, CreateBroadcastRequest};
use bongsu_store::{
    ACK_TIMEOUT_RANGE, Audience, BroadcastState, DEFAULT_ACK_TIMEOUT, DEFAULT_TTL, DeviceId, EXPIRY_RANGE,
    Expiry, Guarantee, MAX_RATE_PER_SECOND, Message, NewBroadcast, Priority, Routing,
};
use time::OffsetDateTime;

use super::text;
use crate::{convert, hash};

const MAX_KEY_BYTES: usize = 255;
const MAX_TITLE_BYTES: usize = 1_024;
const MAX_BODY_BYTES: usize = 16_384;
const MAX_DATA_ENTRIES: usize = 100;
const MAX_DATA_KEY_BYTES: usize = 128;
const MAX_TOPICS: usize = 20;
const MAX_LISTED_IDS: usize = 100_000;
const MAX_USER_ID_BYTES: usize = 256;

/// A broadcast of this client to store, or what is wrong with it.
pub(crate) fn new_broadcast(
    request: CreateBroadcastRequest,
    client_id: &str,
) -> Result<NewBroadcast, Violations> {
    let mut violations = Violations::default();
    let v = &mut violations;
    let request_hash = hash::of_request(&request);
    idempotency_key(&request.idempotency_key, v);
    let priority = priority(request.priority, v);
    let guarantee = guarantee(request.guarantee, v);
    let expiry = expiry(request.expiry.as_ref(), v);
    let schedule = schedule(request.schedule_time.as_ref(), v);
    let max_rate_per_second = max_rate(request.max_rate_per_second, v);
    let routing = routing(request.routing, v);
    let ack_timeout = ack_timeout(request.ack_timeout.as_ref(), routing, v);
    let audience = audience(request.audience.and_then(|audience| audience.kind), v);
    let message = Message { title: request.title, body: request.body, data: request.data };
    check_message(&message, v);
    match audience {
        Some(audience) if violations.is_empty() => Ok(NewBroadcast {
            client_id: client_id.to_owned(),
            idempotency_key: request.idempotency_key,
            message,
            audience,
            priority,
            guarantee,
            expiry,
            schedule,
            max_rate_per_second,
            routing,
            ack_timeout,
            request_hash,
            trace_context: None,
        }),
        _ => Err(violations),
    }
}

/// The states to list; empty for all.
pub(crate) fn list_states(states: &[i32], v: &mut Violations) -> Vec<BroadcastState> {
    let mut known = Vec::with_capacity(states.len());
    for (index, state) in states.iter().enumerate() {
        let domain = v1::BroadcastState::try_from(*state).ok().and_then(convert::state_from_proto);
        match domain {
            Some(domain) => known.push(domain),
            None => v.add(format_args!("states[{index}]"), format!("is {state}, which is no BroadcastState")),
        }
    }
    known
}

fn idempotency_key(key: &str, v: &mut Violations) {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let advice = "give 1 to 255 printable ASCII characters, unique per announcement: a UUID, for example";
        let problem =
            if key.is_empty() { "is missing".to_owned() } else { format!("has {} bytes", key.len()) };
        v.add("idempotency_key", format!("{problem}; {advice}"));
    }
    if let Some(c) = key.chars().find(|c| !matches!(c, ' '..='~')) {
        v.add("idempotency_key", format!("has the character {c:?}; only printable ASCII is allowed"));
    }
}

fn check_message(message: &Message, v: &mut Violations) {
    if message.title.is_empty() && message.body.is_empty() && message.data.is_empty() {
        v.add("title", "is empty, and so are body and data; at least one of them is required");
    }
    text::prose("title", &message.title, MAX_TITLE_BYTES, v);
    text::prose("body", &message.body, MAX_BODY_BYTES, v);
    if message.data.len() > MAX_DATA_ENTRIES {
        v.add("data", format!("has {} entries; at most {MAX_DATA_ENTRIES} are allowed", message.data.len()));
    }
    for (key, value) in &message.data {
        let shown = text::shown(key);
        text::name(format_args!("data[{shown:?}].key"), key, 1..=MAX_DATA_KEY_BYTES, v);
        text::opaque(format_args!("data[{shown:?}].value"), value, v);
    }
}

fn priority(sent: i32, v: &mut Violations) -> Priority {
    match v1::Priority::try_from(sent) {
        Ok(v1::Priority::Low) => Priority::Low,
        Ok(v1::Priority::Unspecified | v1::Priority::Normal) => Priority::Normal,
        Ok(v1::Priority::High) => Priority::High,
        Err(_) => {
            v.add("priority", format!("is {sent}; give PRIORITY_LOW, PRIORITY_NORMAL or PRIORITY_HIGH"));
            Priority::Normal
        }
    }
}

fn guarantee(sent: i32, v: &mut Violations) -> Guarantee {
    match v1::Guarantee::try_from(sent) {
        Ok(v1::Guarantee::Unspecified | v1::Guarantee::AtLeastOnce) => Guarantee::AtLeastOnce,
        Ok(v1::Guarantee::AtMostOnce) => Guarantee::AtMostOnce,
        Err(_) => {
            v.add("guarantee", format!("is {sent}; give GUARANTEE_AT_LEAST_ONCE or GUARANTEE_AT_MOST_ONCE"));
            Guarantee::AtLeastOnce
        }
    }
}

/// The form of the start. Whether it is too far ahead, or past, is for the database's clock to say.
fn schedule(sent: Option<&prost_types::Timestamp>, v: &mut Violations) -> Option<OffsetDateTime> {
    let moment = from_timestamp(sent?);
    if moment.is_none() {
        v.add("schedule_time", "is no moment of the years 1 to 9999");
    }
    moment
}

/// When to start anew: `None` is at once, which has to be asked for.
pub(crate) fn new_start(sent: Option<Start>) -> Result<Option<OffsetDateTime>, Violations> {
    let mut violations = Violations::default();
    let start = match sent {
        Some(Start::ScheduleTime(moment)) => schedule(Some(&moment), &mut violations),
        Some(Start::Now(true)) => None,
        Some(Start::Now(false)) => {
            violations.add("now", "is false; give true to start at once, or a schedule_time");
            None
        }
        None => {
            violations
                .add("schedule_time", "is missing; give a time to start at, or now = true to start at once");
            None
        }
    };
    if violations.is_empty() { Ok(start) } else { Err(violations) }
}

/// `None` where there is none.
fn max_rate(sent: i32, v: &mut Violations) -> Option<u32> {
    match u32::try_from(sent) {
        Ok(0) => None,
        Ok(rate) if rate <= MAX_RATE_PER_SECOND => Some(rate),
        _ => {
            let advice = format!("give 1 to {MAX_RATE_PER_SECOND} calls within a second, or 0 for no limit");
            v.add("max_rate_per_second", format!("is {sent}; {advice}"));
            None
        }
    }
}

fn routing(sent: i32, v: &mut Violations) -> Routing {
    match v1::Routing::try_from(sent) {
        Ok(v1::Routing::Unspecified | v1::Routing::Push) => Routing::Push,
        Ok(v1::Routing::Live) => Routing::Live,
        Ok(v1::Routing::LiveThenPush) => Routing::LiveThenPush,
        Ok(v1::Routing::LiveAndPush) => Routing::LiveAndPush,
        Err(_) => {
            v.add("routing", format!("{sent} is no routing; give one of 0 to 4, as in the reference"));
            Routing::Push
        }
    }
}

/// How long it waits for an acknowledgement, where it does.
fn ack_timeout(
    sent: Option<&prost_types::Duration>,
    routing: Routing,
    v: &mut Violations,
) -> Option<Duration> {
    if routing != Routing::LiveThenPush {
        if sent.is_some() {
            v.add("ack_timeout", "is for the routing LIVE_THEN_PUSH only; leave it out");
        }
        return None;
    }
    let Some(sent) = sent else { return Some(DEFAULT_ACK_TIMEOUT) };
    let (least, most) = ACK_TIMEOUT_RANGE;
    let valid = Duration::try_from(*sent).ok().filter(|timeout| (least..=most).contains(timeout));
    if valid.is_none() {
        v.add("ack_timeout", "is not between 1 second and 1 hour");
    }
    valid
}

/// The form of the expiry. Whether a moment is within the range is for the database's clock to say.
fn expiry(sent: Option<&SentExpiry>, v: &mut Violations) -> Expiry {
    let (least, most) = EXPIRY_RANGE;
    match sent {
        None => Expiry::After(DEFAULT_TTL),
        Some(SentExpiry::Ttl(ttl)) => {
            match Duration::try_from(*ttl).ok().filter(|ttl| (least..=most).contains(ttl)) {
                Some(ttl) => Expiry::After(ttl),
                None => {
                    v.add("ttl", "is out of range; give 1 second to 7 days");
                    Expiry::After(DEFAULT_TTL)
                }
            }
        }
        Some(SentExpiry::ExpireTime(moment)) => match from_timestamp(moment) {
            Some(moment) => Expiry::At(moment),
            None => {
                v.add("expire_time", "is no valid timestamp");
                Expiry::After(DEFAULT_TTL)
            }
        },
    }
}

fn audience(kind: Option<Kind>, v: &mut Violations) -> Option<Audience> {
    let audience = match kind {
        None => {
            v.add("audience", "is missing; give one of everyone, topics, users and devices");
            return None;
        }
        Some(Kind::Everyone(_)) => Audience::Everyone,
        Some(Kind::Topics(list)) => {
            count("audience.topics.topics", list.topics.len(), MAX_TOPICS, v);
            for (index, topic) in list.topics.iter().enumerate().take(MAX_TOPICS) {
                text::topic(format_args!("audience.topics.topics[{index}]"), topic, v);
            }
            Audience::topics(list.topics)
        }
        Some(Kind::Users(list)) => {
            count("audience.users.user_ids", list.user_ids.len(), MAX_LISTED_IDS, v);
            for (index, user_id) in list.user_ids.iter().enumerate().take(MAX_LISTED_IDS) {
                text::name(
                    format_args!("audience.users.user_ids[{index}]"),
                    user_id,
                    1..=MAX_USER_ID_BYTES,
                    v,
                );
            }
            Audience::users(list.user_ids)
        }
        Some(Kind::Devices(list)) => {
            count("audience.devices.device_ids", list.device_ids.len(), MAX_LISTED_IDS, v);
            for (index, id) in list.device_ids.iter().enumerate().filter(|(_, id)| **id <= 0) {
                v.add(
                    format_args!("audience.devices.device_ids[{index}]"),
                    format!("is {id}; ids are positive"),
                );
            }
            Audience::devices(list.device_ids.into_iter().map(DeviceId).collect())
        }
    };
    Some(audience)
}

fn count(field: &str, len: usize, most: usize, v: &mut Violations) {
    if !(1..=most).contains(&len) {
        v.add(field, format!("has {len} entries; give 1 to {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bongsu_proto::v1::{DeviceAudience, EveryoneAudience, TopicAudience, UserAudience};

    fn valid() -> CreateBroadcastRequest {
        CreateBroadcastRequest {
            idempotency_key: "k".into(),
            title: "봉수 🔥".into(),
            audience: to(Kind::Everyone(EveryoneAudience {})),
            ..Default::default()
        }
    }

    #[allow(clippy::unnecessary_wraps)]
    fn to(kind: Kind) -> Option<v1::Audience> {
        Some(v1::Audience { kind: Some(kind) })
    }

    fn fields(change: impl FnOnce(&mut CreateBroadcastRequest)) -> Vec<String> {
        let mut request = valid();
        change(&mut request);
        match new_broadcast(request, "default") {
            Ok(_) => vec![],
            Err(violations) => violations.kept().iter().map(|v| v.field.clone()).collect(),
        }
    }

    #[test]
    fn every_wrong_field_is_named_in_one_answer() {
        let found = fields(|r| {
            *r = CreateBroadcastRequest { priority: 9, ..Default::default() };
            r.expiry = Some(SentExpiry::Ttl(prost_types::Duration { seconds: 0, nanos: 0 }));
        });
        assert_eq!(found, ["idempotency_key", "priority", "ttl", "audience", "title"]);
    }

    #[test]
    fn limits_are_allowed_and_one_above_is_not() {
        let none: [&str; 0] = [];
        assert_eq!(fields(|r| r.idempotency_key = "k".repeat(255)), none);
        assert_eq!(fields(|r| r.idempotency_key = "k".repeat(256)), ["idempotency_key"]);
        assert_eq!(fields(|r| r.title = "t".repeat(1_024)), none);
        assert_eq!(fields(|r| r.title = "t".repeat(1_025)), ["title"]);
        assert_eq!(fields(|r| r.body = "b".repeat(16_384)), none);
        assert_eq!(fields(|r| r.body = "b".repeat(16_385)), ["body"]);
        let entries = |n: usize| (0..n).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(fields(|r| r.data = entries(100)), none);
        assert_eq!(fields(|r| r.data = entries(101)), ["data"]);
        let ttl = |seconds| Some(SentExpiry::Ttl(prost_types::Duration { seconds, nanos: 0 }));
        assert_eq!(fields(|r| r.expiry = ttl(7 * 24 * 3600)), none);
        assert_eq!(fields(|r| r.expiry = ttl(7 * 24 * 3600 + 1)), ["ttl"]);
        assert_eq!(fields(|r| r.max_rate_per_second = 1_000_000), none);
        assert_eq!(fields(|r| r.max_rate_per_second = 1_000_001), ["max_rate_per_second"]);
        assert_eq!(fields(|r| r.max_rate_per_second = -1), ["max_rate_per_second"]);
        let then_push =
            |timeout| move |r: &mut CreateBroadcastRequest| (r.routing, r.ack_timeout) = (3, timeout);
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        assert_eq!(fields(then_push(None)), none);
        assert_eq!(fields(then_push(seconds(3600))), none);
        assert_eq!(fields(then_push(seconds(3601))), ["ack_timeout"]);
        assert_eq!(fields(then_push(seconds(0))), ["ack_timeout"]);
        assert_eq!(fields(|r| (r.routing, r.ack_timeout) = (2, seconds(10))), ["ack_timeout"]);
        assert_eq!(fields(|r| r.routing = 5), ["routing"]);
        let topics = |n| to(Kind::Topics(TopicAudience { topics: vec!["t".into(); n] }));
        assert_eq!(fields(|r| r.audience = topics(20)), none);
        assert_eq!(fields(|r| r.audience = topics(21)), ["audience.topics.topics"]);
        let users = |n| to(Kind::Users(UserAudience { user_ids: vec!["u".into(); n] }));
        assert_eq!(fields(|r| r.audience = users(100_000)), none);
        assert_eq!(fields(|r| r.audience = users(100_001)), ["audience.users.user_ids"]);
        assert_eq!(fields(|r| r.audience = users(0)), ["audience.users.user_ids"]);
        let devices = to(Kind::Devices(DeviceAudience { device_ids: vec![1, 0] }));
        assert_eq!(fields(|r| r.audience = devices), ["audience.devices.device_ids[1]"]);
    }

    #[test]
    fn characters_that_postgres_cannot_keep_are_refused_everywhere() {
        assert_eq!(fields(|r| r.title = "a\0".into()), ["title"]);
        assert_eq!(fields(|r| r.idempotency_key = "a\0".into()), ["idempotency_key"]);
        assert_eq!(fields(|r| r.idempotency_key = "키".into()), ["idempotency_key"]);
        assert_eq!(fields(|r| r.data = [("k".into(), "\0".into())].into()), ["data[\"k\"].value"]);
        assert_eq!(fields(|r| r.data = [("\0".into(), "v".into())].into()), ["data[\"\\0\"].key"]);
        let users = to(Kind::Users(UserAudience { user_ids: vec!["a".into(), "b\0".into()] }));
        assert_eq!(fields(|r| r.audience = users), ["audience.users.user_ids[1]"]);
    }
}
