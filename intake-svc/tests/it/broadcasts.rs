//! `BroadcastService`.

use std::collections::HashSet;

use bongsu_proto::v1::{
    Broadcast, BroadcastState, CancelBroadcastRequest, CreateBroadcastRequest, CreateBroadcastResponse,
    DeviceAudience, GetBroadcastRequest, ListBroadcastsRequest, TopicAudience, UserAudience, audience,
    create_broadcast_request::Expiry,
};
use prost_types::{Duration, Timestamp};
use tonic::{Code, Status};

use crate::harness::{Intake, announcement, fields, refusal, registration, start, start_with, to};

async fn create(intake: &Intake, request: CreateBroadcastRequest) -> Result<CreateBroadcastResponse, Status> {
    intake.broadcasts.clone().create_broadcast(request).await.map(tonic::Response::into_inner)
}

async fn created(intake: &Intake, request: CreateBroadcastRequest) -> Broadcast {
    create(intake, request).await.expect("accepts").broadcast.expect("a broadcast")
}

async fn get(intake: &Intake, broadcast_id: i64) -> Broadcast {
    let response = intake.broadcasts.clone().get_broadcast(GetBroadcastRequest { broadcast_id }).await;
    response.expect("is there").into_inner().broadcast.expect("a broadcast")
}

/// Asks until the broadcast is in `state`; fails after a good while.
async fn reaches(intake: &Intake, id: i64, state: BroadcastState) -> Broadcast {
    let asked = async {
        loop {
            let broadcast = get(intake, id).await;
            if broadcast.state() == state {
                return broadcast;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let within = std::time::Duration::from_secs(20);
    tokio::time::timeout(within, asked).await.unwrap_or_else(|_| panic!("not {state:?} within {within:?}"))
}

#[tokio::test]
async fn the_same_key_and_content_is_the_same_broadcast() {
    let intake = start().await;
    let first = create(&intake, announcement("k")).await.expect("accepts");
    assert!(!first.replayed);
    let again = create(&intake, announcement("k")).await.expect("accepts");
    assert!(again.replayed);
    let (first, again) = (first.broadcast.expect("one"), again.broadcast.expect("one"));
    assert_eq!((first.id, &first.title, &first.body), (again.id, &again.title, &again.body));
    assert_eq!(first.title, "봉화가 올랐다 🔥");
    assert_eq!(get(&intake, first.id).await.idempotency_key, "k");
}

#[tokio::test]
async fn the_same_key_with_other_content_is_refused_and_nothing_is_stored() {
    let intake = start().await;
    let first = created(&intake, announcement("k")).await;
    let other = CreateBroadcastRequest { body: "다른 소식".into(), ..announcement("k") };
    for validate_only in [false, true] {
        let other = CreateBroadcastRequest { validate_only, ..other.clone() };
        let status = create(&intake, other).await.expect_err("is refused");
        assert_eq!(refusal(&status), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
        assert!(status.message().contains(&first.id.to_string()), "{}", status.message());
    }
    let all = intake.broadcasts.clone().list_broadcasts(ListBroadcastsRequest::default()).await;
    assert_eq!(all.expect("lists").into_inner().broadcasts.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_callers_with_one_key_make_one_broadcast() {
    let intake = start().await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut client = intake.broadcasts.clone();
            tokio::spawn(async move { client.create_broadcast(announcement("k")).await.expect("accepts") })
        })
        .collect();
    let (mut ids, mut new) = (HashSet::new(), 0);
    for call in calls {
        let response = call.await.expect("ends").into_inner();
        new += usize::from(!response.replayed);
        ids.insert(response.broadcast.expect("a broadcast").id);
    }
    assert_eq!((ids.len(), new), (1, 1));
}

#[tokio::test]
async fn no_ttl_and_the_same_ttl_given_are_different_content() {
    let intake = start().await;
    created(&intake, announcement("k")).await;
    let day = Some(Expiry::Ttl(Duration { seconds: 24 * 3600, nanos: 0 }));
    let status = create(&intake, CreateBroadcastRequest { expiry: day, ..announcement("k") }).await;
    assert_eq!(refusal(&status.expect_err("is refused")).1, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn validate_only_answers_as_if_and_stores_nothing() {
    let intake = start().await;
    let request = CreateBroadcastRequest { validate_only: true, ..announcement("k") };
    let response = create(&intake, request).await.expect("is valid");
    let broadcast = response.broadcast.expect("a broadcast");
    assert_eq!((broadcast.id, response.replayed), (0, false));
    assert!(broadcast.expire_time.is_some());
    let first = created(&intake, announcement("k")).await;
    let again = CreateBroadcastRequest { validate_only: true, ..announcement("k") };
    let response = create(&intake, again).await.expect("is valid");
    assert_eq!((response.broadcast.expect("the stored one").id, response.replayed), (first.id, true));
}

#[tokio::test]
async fn a_refused_request_names_every_wrong_field() {
    let intake = start().await;
    let request = CreateBroadcastRequest { title: "a\0b".into(), audience: None, ..announcement("키") };
    let status = create(&intake, request).await.expect_err("is refused");
    assert_eq!(refusal(&status), (Code::InvalidArgument, "INVALID_REQUEST".into()));
    assert_eq!(fields(&status), ["idempotency_key", "audience", "title"]);
    assert!(status.message().contains("and 2 more problems"), "{}", status.message());
}

#[tokio::test]
async fn a_message_at_every_limit_is_accepted() {
    let intake = start().await;
    let user_ids = (0..100_000).map(|n| format!("사용자-{n}")).collect();
    let request = CreateBroadcastRequest {
        idempotency_key: "k".repeat(255),
        title: "t".repeat(1_024),
        body: "b".repeat(16_384),
        data: (0..100).map(|n| (format!("{n:0>128}"), "값".repeat(10))).collect(),
        audience: to(audience::Kind::Users(UserAudience { user_ids })),
        ..Default::default()
    };
    let broadcast = created(&intake, request).await;
    assert_eq!(broadcast.data.len(), 100);
    let done = reaches(&intake, broadcast.id, BroadcastState::Completed).await;
    assert_eq!(done.counts.expect("counts").total, 0, "nobody has a device");
}

#[tokio::test]
async fn an_expire_time_is_judged_by_the_databases_clock() {
    let intake = start().await;
    let at = |seconds| Some(Expiry::ExpireTime(Timestamp { seconds, nanos: 0 }));
    let now = created(&intake, announcement("now")).await.create_time.expect("a time").seconds;
    for (seconds, accepted) in [(now - 10, false), (now + 3600, true), (now + 8 * 24 * 3600, false)] {
        let request = CreateBroadcastRequest { expiry: at(seconds), ..announcement(&seconds.to_string()) };
        match create(&intake, request).await {
            Ok(response) => {
                assert!(accepted);
                let broadcast = response.broadcast.expect("a broadcast");
                assert_eq!(broadcast.expire_time.expect("a time").seconds, seconds);
            }
            Err(status) => {
                assert!(!accepted, "{status:?}");
                assert_eq!(fields(&status), ["expire_time"]);
            }
        }
    }
}

#[tokio::test]
async fn everyone_who_consented_gets_one_delivery() {
    let mut intake = start().await;
    for n in 0..30 {
        let mut row = registration(&format!("t{n}"), &format!("u{}", n / 2));
        row.consent = Some(n % 3 != 0);
        intake.register(row).await;
    }
    let broadcast = created(&intake, announcement("k")).await;
    let made = reaches(&intake, broadcast.id, BroadcastState::Delivering).await;
    let counts = made.counts.expect("counts");
    assert_eq!((counts.total, counts.pending), (20, 20));
}

#[tokio::test]
async fn audiences_reach_exactly_whom_they_name() {
    let mut intake = start().await;
    let one = intake.register(with_topics("t1", "a", &["news", "art"])).await.device.expect("one");
    intake.register(with_topics("t2", "a", &["news"])).await;
    let other = intake.register(with_topics("t3", "b", &[])).await.device.expect("one");
    let topics = |names: &[&str]| TopicAudience { topics: names.iter().map(ToString::to_string).collect() };
    let users = UserAudience { user_ids: vec!["a".into(), "a".into(), "nobody".into()] };
    let devices = DeviceAudience { device_ids: vec![other.id, one.id, other.id, 999] };
    let audiences = [
        (audience::Kind::Topics(topics(&["art", "news"])), 2),
        (audience::Kind::Topics(topics(&["art"])), 1),
        (audience::Kind::Users(users), 2),
        (audience::Kind::Devices(devices), 2),
    ];
    for (n, (kind, expected)) in audiences.into_iter().enumerate() {
        let request = CreateBroadcastRequest { audience: to(kind), ..announcement(&n.to_string()) };
        let id = created(&intake, request).await.id;
        let made = reaches(&intake, id, BroadcastState::Delivering).await;
        assert_eq!(made.counts.expect("counts").total, expected, "audience {n}");
    }
}

fn with_topics(token: &str, user: &str, topics: &[&str]) -> bongsu_proto::v1::DeviceRegistration {
    bongsu_proto::v1::DeviceRegistration {
        topics: topics.iter().map(ToString::to_string).collect(),
        ..registration(token, user)
    }
}

#[tokio::test]
async fn a_broadcast_to_nobody_completes() {
    let intake = start().await;
    let broadcast = created(&intake, announcement("k")).await;
    let done = reaches(&intake, broadcast.id, BroadcastState::Completed).await;
    assert!(done.settle_time.is_some());
}

#[tokio::test]
async fn a_running_broadcast_can_be_cancelled_twice_and_a_completed_one_not() {
    let mut intake = start().await;
    let mut client = intake.broadcasts.clone();
    let mut cancel =
        async |broadcast_id| client.cancel_broadcast(CancelBroadcastRequest { broadcast_id }).await;
    let unknown = cancel(42).await.expect_err("is unknown");
    assert_eq!(refusal(&unknown), (Code::NotFound, "BROADCAST_NOT_FOUND".into()));

    let empty = created(&intake, announcement("empty")).await.id;
    reaches(&intake, empty, BroadcastState::Completed).await;
    let completed = cancel(empty).await.expect_err("has ended");
    assert_eq!(refusal(&completed), (Code::FailedPrecondition, "BROADCAST_FINAL".into()));

    intake.device("t", "u").await;
    let running = created(&intake, announcement("running")).await.id;
    for _ in 0..2 {
        let answered = cancel(running).await.expect("cancels").into_inner().broadcast.expect("one");
        assert!(matches!(answered.state(), BroadcastState::Cancelling | BroadcastState::Cancelled));
    }
    let done = reaches(&intake, running, BroadcastState::Cancelled).await;
    let counts = done.counts.expect("counts");
    assert_eq!((counts.pending, counts.cancelled), (0, counts.total));
}

#[tokio::test]
async fn pages_hold_every_broadcast_once_newest_first() {
    let intake = start().await;
    let mut expected = vec![];
    for n in 0..5 {
        expected.insert(0, created(&intake, announcement(&n.to_string())).await.id);
    }
    let (mut found, mut page_token, mut pages) = (vec![], String::new(), 0);
    loop {
        let request = ListBroadcastsRequest { page_size: 2, page_token, ..Default::default() };
        let page = intake.broadcasts.clone().list_broadcasts(request).await.expect("lists").into_inner();
        found.extend(page.broadcasts.iter().map(|broadcast| broadcast.id));
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!((found, pages), (expected, 3));
}

#[tokio::test]
async fn a_page_token_is_refused_with_another_filter_and_when_it_is_no_token() {
    let intake = start().await;
    for n in 0..2 {
        created(&intake, announcement(&n.to_string())).await;
    }
    let list = async |request| intake.broadcasts.clone().list_broadcasts(request).await;
    let first = ListBroadcastsRequest { page_size: 1, ..Default::default() };
    let token = list(first.clone()).await.expect("lists").into_inner().next_page_token;
    let completed = vec![BroadcastState::Completed.into()];
    let other = ListBroadcastsRequest { states: completed, page_token: token, ..first.clone() };
    let nonsense = ListBroadcastsRequest { page_token: "x".into(), ..first };
    for request in [other, nonsense] {
        let status = list(request).await.expect_err("is refused");
        assert_eq!(refusal(&status), (Code::InvalidArgument, "INVALID_REQUEST".into()));
        assert_eq!(fields(&status), ["page_token"]);
    }
}

#[tokio::test]
async fn a_message_above_the_transport_limit_is_refused_and_the_service_goes_on() {
    let intake = start_with(|config| config.max_message_bytes = 65_536).await;
    let huge = CreateBroadcastRequest { body: "b".repeat(100_000), ..announcement("k") };
    let status = create(&intake, huge).await.expect_err("is refused");
    assert_eq!(refusal(&status), (Code::ResourceExhausted, "MESSAGE_TOO_LARGE".into()));
    created(&intake, announcement("k")).await;
}
