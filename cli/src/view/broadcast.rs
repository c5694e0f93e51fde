//! A broadcast.

use std::collections::BTreeMap;

use bongsu_proto::v1;
use bongsu_proto::v1::audience_summary::Kind;
use serde::Serialize;

use super::{PreflightView, seconds, time};
use crate::table::{Align, details, number, shortened};
use crate::times::{span, to_the_second};
use crate::words::word;

/// How much of a title a list shows, in columns.
const TITLE_COLUMNS: usize = 40;

#[derive(Debug, Serialize)]
pub struct BroadcastView<'a> {
    id: String,
    state: String,
    title: &'a str,
    body: &'a str,
    data: &'a BTreeMap<String, String>,
    priority: String,
    guarantee: String,
    paused: bool,
    max_rate_per_second: Option<i32>,
    routing: String,
    ack_timeout: Option<String>,
    audience: AudienceView<'a>,
    expire_time: Option<String>,
    create_time: Option<String>,
    schedule_time: Option<String>,
    settle_time: Option<String>,
    counts: CountsView,
    live: Option<LiveView>,
    idempotency_key: &'a str,
}

/// Notifications in inboxes; none where it does not go out live.
#[derive(Debug, Serialize)]
pub(super) struct LiveView {
    events: i64,
    acknowledged: i64,
}

impl From<v1::LiveCounts> for LiveView {
    fn from(live: v1::LiveCounts) -> Self {
        Self { events: live.events, acknowledged: live.acknowledged }
    }
}

/// The answer to `send`.
#[derive(Debug, Serialize)]
pub struct SentView<'a> {
    pub broadcast: BroadcastView<'a>,
    pub replayed: bool,
    pub validate_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightView<'a>>,
}

#[derive(Debug, Default, Serialize)]
struct AudienceView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    everyone: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_of: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct CountsView {
    total: i64,
    pending: i64,
    retrying: i64,
    sent: i64,
    dead: i64,
    expired: i64,
    skipped: i64,
    cancelled: i64,
    dead_unregistered: i64,
    dead_rejected: i64,
    dead_attempts_exhausted: i64,
    retried: i64,
    unconfirmed: i64,
}

impl<'a> From<&'a v1::Broadcast> for BroadcastView<'a> {
    fn from(broadcast: &'a v1::Broadcast) -> Self {
        Self {
            id: broadcast.id.to_string(),
            state: word::<v1::BroadcastState>(broadcast.state),
            title: &broadcast.title,
            body: &broadcast.body,
            data: &broadcast.data,
            priority: word::<v1::Priority>(broadcast.priority),
            guarantee: word::<v1::Guarantee>(broadcast.guarantee),
            paused: broadcast.paused,
            max_rate_per_second: Some(broadcast.max_rate_per_second).filter(|rate| *rate > 0),
            routing: word::<v1::Routing>(broadcast.routing),
            ack_timeout: broadcast.ack_timeout.map(|timeout| format!("{}s", seconds(&timeout))),
            audience: audience_view(broadcast.audience.as_ref()),
            expire_time: time(broadcast.expire_time.as_ref()),
            create_time: time(broadcast.create_time.as_ref()),
            schedule_time: time(broadcast.schedule_time.as_ref()),
            settle_time: time(broadcast.settle_time.as_ref()),
            counts: CountsView::from(broadcast.counts.unwrap_or_default()),
            live: broadcast.live.map(LiveView::from),
            idempotency_key: &broadcast.idempotency_key,
        }
    }
}

impl From<v1::DeliveryCounts> for CountsView {
    fn from(counts: v1::DeliveryCounts) -> Self {
        Self {
            total: counts.total,
            pending: counts.pending,
            retrying: counts.retrying,
            sent: counts.sent,
            dead: counts.dead,
            expired: counts.expired,
            skipped: counts.skipped,
            cancelled: counts.cancelled,
            dead_unregistered: counts.dead_unregistered,
            dead_rejected: counts.dead_rejected,
            dead_attempts_exhausted: counts.dead_attempts_exhausted,
            retried: counts.retried,
            unconfirmed: counts.unconfirmed,
        }
    }
}

fn audience_view(audience: Option<&v1::AudienceSummary>) -> AudienceView<'_> {
    let none = AudienceView::default();
    match audience.and_then(|audience| audience.kind.as_ref()) {
        Some(Kind::Everyone(_)) => AudienceView { everyone: Some(true), ..none },
        Some(Kind::Topics(topics)) => AudienceView { topics: Some(&topics.topics), ..none },
        Some(Kind::UserCount(users)) => AudienceView { user_count: Some(*users), ..none },
        Some(Kind::DeviceCount(devices)) => AudienceView { device_count: Some(*devices), ..none },
        Some(Kind::ReplayOf(id)) => AudienceView { replay_of: Some(id.to_string()), ..none },
        None => none,
    }
}

/// Whom it is for, in words.
pub fn audience(audience: Option<&v1::AudienceSummary>) -> String {
    let plural =
        |count: i64, one: &str| format!("{} {one}{}", number(count), if count == 1 { "" } else { "s" });
    match audience.and_then(|audience| audience.kind.as_ref()) {
        Some(Kind::Everyone(_)) => "everyone".to_owned(),
        Some(Kind::Topics(topics)) if topics.topics.len() == 1 => format!("topic {}", topics.topics.join("")),
        Some(Kind::Topics(topics)) => format!("topics {}", topics.topics.join(", ")),
        Some(Kind::UserCount(users)) => plural(*users, "user"),
        Some(Kind::DeviceCount(devices)) => plural(*devices, "device"),
        Some(Kind::ReplayOf(id)) => format!("dead letters of broadcast {id}"),
        None => String::new(),
    }
}

pub fn broadcast_columns() -> [(&'static str, Align); 8] {
    [
        ("ID", Align::Left),
        ("CREATED", Align::Left),
        ("STATE", Align::Left),
        ("TOTAL", Align::Right),
        ("SENT", Align::Right),
        ("PENDING", Align::Right),
        ("DEAD", Align::Right),
        ("TITLE", Align::Left),
    ]
}

pub fn broadcast_row(broadcast: &v1::Broadcast) -> Vec<String> {
    let counts = broadcast.counts.unwrap_or_default();
    vec![
        broadcast.id.to_string(),
        to_the_second(broadcast.create_time.as_ref()),
        state(broadcast),
        number(counts.total),
        number(counts.sent),
        number(counts.pending),
        number(counts.dead),
        shortened(&broadcast.title, TITLE_COLUMNS),
    ]
}

/// Its state in words, and when one starts that has not.
pub fn state(broadcast: &v1::Broadcast) -> String {
    let mut state = word::<v1::BroadcastState>(broadcast.state);
    if broadcast.state() == v1::BroadcastState::Scheduled {
        state = format!("{state} for {}", to_the_second(broadcast.schedule_time.as_ref()));
    }
    if broadcast.paused { format!("{state} (paused)") } else { state }
}

fn max_rate(per_second: i32) -> String {
    if per_second > 0 { format!("{} a second", number(per_second.into())) } else { String::new() }
}

/// Which way it goes, where that is not to devices alone.
fn routing(broadcast: &v1::Broadcast) -> String {
    let word = word::<v1::Routing>(broadcast.routing);
    match &broadcast.ack_timeout {
        _ if broadcast.live.is_none() => String::new(),
        Some(timeout) => format!("{word}, {} to acknowledge", span(seconds(timeout) as u64)),
        None => word,
    }
}

/// How many users have it in their inbox, and of how many a client said that it has it.
pub(super) fn live_text(live: v1::LiveCounts) -> String {
    let users = if live.events == 1 { "inbox" } else { "inboxes" };
    format!("in {} {users}, {} acknowledged", number(live.events), number(live.acknowledged))
}

/// Everything about one broadcast, for people.
pub fn broadcast_details(broadcast: &v1::Broadcast) -> String {
    let counts = broadcast.counts.unwrap_or_default();
    let some = |count: i64| if count == 0 { String::new() } else { number(count) };
    // What was only validated has no id, and no state, creation or key to speak of either.
    let stored = |text: String| if broadcast.id == 0 { String::new() } else { text };
    let mut rows = vec![
        ("id", stored(broadcast.id.to_string())),
        ("state", stored(state(broadcast))),
        ("audience", audience(broadcast.audience.as_ref())),
        ("priority", word::<v1::Priority>(broadcast.priority)),
        ("guarantee", word::<v1::Guarantee>(broadcast.guarantee)),
        ("max rate", max_rate(broadcast.max_rate_per_second)),
        ("routing", routing(broadcast)),
        ("title", broadcast.title.clone()),
        ("body", broadcast.body.clone()),
    ];
    rows.extend(broadcast.data.iter().map(|(key, value)| ("data", format!("{key}={value}"))));
    rows.extend([
        ("created", stored(to_the_second(broadcast.create_time.as_ref()))),
        ("starts", to_the_second(broadcast.schedule_time.as_ref())),
        ("expires", to_the_second(broadcast.expire_time.as_ref())),
        ("settled", to_the_second(broadcast.settle_time.as_ref())),
        ("key", stored(broadcast.idempotency_key.clone())),
        ("deliveries", stored(number(counts.total))),
        ("  sent", some(counts.sent)),
        ("  pending", some(counts.pending)),
        ("  dead", some(counts.dead)),
        ("  expired", some(counts.expired)),
        ("  skipped", some(counts.skipped)),
        ("  cancelled", some(counts.cancelled)),
        ("  unconfirmed", some(counts.unconfirmed)),
        ("live", stored(broadcast.live.map_or(String::new(), live_text))),
    ]);
    details(&rows)
}
