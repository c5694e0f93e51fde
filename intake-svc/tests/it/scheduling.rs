//! `BroadcastService`: what starts later.

use std::time::Duration;

use bongsu_proto::v1::create_broadcast_request::Expiry;
use bongsu_proto::v1::reschedule_broadcast_request::Start;
use bongsu_proto::v1::{
    Broadcast, BroadcastState, CancelBroadcastRequest, CreateBroadcastRequest, GetBroadcastRequest,
    ListBroadcastsRequest, PauseBroadcastRequest, RescheduleBroadcastRequest, UserAudience, audience,
};
use prost_types::Timestamp;
use time::OffsetDateTime;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::harness::{Intake, announcement, fields, refusal, start, to};

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

fn ahead(seconds: i64) -> Timestamp {
    Timestamp { seconds: OffsetDateTime::now_utc().unix_timestamp() + seconds, nanos: 0 }
}

fn scheduled(key: &str, seconds: i64) -> CreateBroadcastRequest {
    CreateBroadcastRequest { schedule_time: Some(ahead(seconds)), ..announcement(key) }
}

async fn create(intake: &Intake, request: CreateBroadcastRequest) -> Result<Broadcast, Status> {
    let answer = intake.broadcasts.clone().create_broadcast(request).await?;
    Ok(answer.into_inner().broadcast.expect("a broadcast"))
}

async fn reschedule(intake: &Intake, broadcast_id: i64, start: Option<Start>) -> Result<Broadcast, Status> {
    let request = RescheduleBroadcastRequest { broadcast_id, start };
    let answer = intake.broadcasts.clone().reschedule_broadcast(request).await?;
    Ok(answer.into_inner().broadcast.expect("a broadcast"))
}

/// Asks until the broadcast is no longer scheduled.
async fn started(intake: &Intake, broadcast_id: i64) -> Broadcast {
    let asked = async {
        loop {
            let answer = intake.broadcasts.clone().get_broadcast(GetBroadcastRequest { broadcast_id }).await;
            let broadcast = answer.expect("is there").into_inner().broadcast.expect("a broadcast");
            if broadcast.state() != BroadcastState::Scheduled {
                return broadcast;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.expect("it starts")
}

#[tokio::test]
async fn a_broadcast_waits_for_its_time_and_starts_by_itself() {
    let intake = start().await;
    let soon = create(&intake, scheduled("soon", 2)).await.expect("accepts");
    let later = create(&intake, scheduled("later", HOUR_S)).await.expect("accepts");
    let answered = OffsetDateTime::now_utc().unix_timestamp();
    let at = soon.schedule_time.expect("a time").seconds;
    assert!(soon.state() == BroadcastState::Scheduled || answered >= at, "{soon:?}");
    assert_eq!(soon.expire_time.expect("a time").seconds, at + DAY_S, "24 hours from its start");
    let after = started(&intake, soon.id).await;
    assert!(OffsetDateTime::now_utc().unix_timestamp() >= at, "not before its time");
    assert_eq!(after.schedule_time, soon.schedule_time, "when it started can still be told");
    let request =
        ListBroadcastsRequest { states: vec![BroadcastState::Scheduled.into()], ..Default::default() };
    let listed = intake.broadcasts.clone().list_broadcasts(request).await.expect("lists").into_inner();
    assert_eq!(listed.broadcasts.iter().map(|b| b.id).collect::<Vec<_>>(), [later.id]);
}

#[tokio::test]
async fn a_start_counts_as_content_and_one_that_is_past_is_at_once() {
    let intake = start().await;
    let request = scheduled("k", HOUR_S);
    let first = create(&intake, request.clone()).await.expect("accepts");
    assert_eq!(create(&intake, request.clone()).await.expect("the same").id, first.id);
    for other in [announcement("k"), CreateBroadcastRequest { schedule_time: Some(ahead(7)), ..request }] {
        let status = create(&intake, other).await.expect_err("is refused");
        assert_eq!(refusal(&status).1, "IDEMPOTENCY_KEY_REUSED");
    }
    let users = to(audience::Kind::Users(UserAudience { user_ids: vec!["u".into()] }));
    for (key, audience) in [("everyone", announcement("").audience), ("users", users)] {
        let past = CreateBroadcastRequest { audience, ..scheduled(key, -HOUR_S) };
        let accepted = create(&intake, past).await.expect("accepts");
        assert_ne!(accepted.state(), BroadcastState::Scheduled);
        assert_eq!(accepted.schedule_time, None);
    }
}

#[tokio::test]
async fn a_start_that_cannot_be_is_refused_with_what_is_wrong_and_validate_only_says_what_would_be() {
    let intake = start().await;
    let no_time = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
    let at = |seconds| Some(Expiry::ExpireTime(ahead(seconds)));
    let valid = scheduled("k", 2 * HOUR_S);
    for (field, said, request) in [
        ("schedule_time", "no moment", CreateBroadcastRequest { schedule_time: no_time, ..valid.clone() }),
        ("schedule_time", "30 days", scheduled("k", 31 * DAY_S)),
        ("expire_time", "after its start", CreateBroadcastRequest { expiry: at(HOUR_S), ..valid.clone() }),
        ("expire_time", "after its start", CreateBroadcastRequest { expiry: at(8 * DAY_S), ..valid.clone() }),
    ] {
        for validate_only in [true, false] {
            let request = CreateBroadcastRequest { validate_only, ..request.clone() };
            let status = create(&intake, request).await.expect_err(said);
            assert_eq!(refusal(&status), (Code::InvalidArgument, "INVALID_REQUEST".into()));
            assert_eq!(fields(&status), [field]);
            assert!(status.message().contains(said), "{}", status.message());
        }
    }
    let would = create(&intake, CreateBroadcastRequest { validate_only: true, ..valid.clone() }).await;
    let would = would.expect("is valid");
    assert_eq!((would.id, would.state()), (0, BroadcastState::Scheduled));
    assert_eq!(would.schedule_time, valid.schedule_time);
}

#[tokio::test]
async fn a_scheduled_broadcast_is_given_another_time_and_one_that_has_started_is_not() {
    let intake = start().await;
    let id = create(&intake, scheduled("k", HOUR_S)).await.expect("accepts").id;
    let later = ahead(DAY_S);
    for _ in 0..2 {
        let moved = reschedule(&intake, id, Some(Start::ScheduleTime(later))).await.expect("moves");
        assert_eq!((moved.state(), moved.schedule_time), (BroadcastState::Scheduled, Some(later)));
        assert_eq!(moved.expire_time.expect("a time").seconds, later.seconds + DAY_S);
    }
    for (start, field) in [
        (None, "schedule_time"),
        (Some(Start::Now(false)), "now"),
        (Some(Start::ScheduleTime(ahead(31 * DAY_S))), "schedule_time"),
    ] {
        let status = reschedule(&intake, id, start).await.expect_err(field);
        assert_eq!((refusal(&status).0, fields(&status)), (Code::InvalidArgument, vec![field.to_owned()]));
    }
    let expires = Some(Expiry::ExpireTime(ahead(2 * HOUR_S)));
    let request = CreateBroadcastRequest { expiry: expires, ..scheduled("expires", HOUR_S) };
    let expires = create(&intake, request).await.expect("accepts").id;
    let status = reschedule(&intake, expires, Some(Start::ScheduleTime(later))).await.expect_err("too late");
    assert_eq!(fields(&status), ["schedule_time"]);
    assert!(status.message().contains("expire_time"), "{}", status.message());

    assert_eq!(reschedule(&intake, id, Some(Start::Now(true))).await.expect("starts").id, id);
    started(&intake, id).await;
    let status = reschedule(&intake, id, Some(Start::ScheduleTime(later))).await.expect_err("has started");
    assert_eq!(refusal(&status), (Code::FailedPrecondition, "BROADCAST_STARTED".into()));
    let state = status.get_error_details().error_info().expect("one").metadata["state"].clone();
    assert!(["accepted", "fanning_out", "delivering", "completed"].contains(&&*state), "{state}");
    let status = reschedule(&intake, 7, Some(Start::Now(true))).await.expect_err("there is none");
    assert_eq!(refusal(&status), (Code::NotFound, "BROADCAST_NOT_FOUND".into()));
}

#[tokio::test]
async fn a_scheduled_broadcast_can_be_paused_and_is_cancelled_at_once() {
    let mut intake = start().await;
    let broadcast_id = create(&intake, scheduled("k", HOUR_S)).await.expect("accepts").id;
    let paused = intake.broadcasts.pause_broadcast(PauseBroadcastRequest { broadcast_id }).await;
    let paused = paused.expect("pauses").into_inner().broadcast.expect("one");
    assert!(paused.paused && paused.state() == BroadcastState::Scheduled);
    for _ in 0..2 {
        let cancelled = intake.broadcasts.cancel_broadcast(CancelBroadcastRequest { broadcast_id }).await;
        let cancelled = cancelled.expect("cancels").into_inner().broadcast.expect("one");
        assert_eq!((cancelled.state(), cancelled.paused), (BroadcastState::Cancelled, false));
        assert!(cancelled.settle_time.is_some());
    }
    let status = reschedule(&intake, broadcast_id, Some(Start::Now(true))).await.expect_err("has ended");
    assert_eq!(refusal(&status).1, "BROADCAST_STARTED");
}
