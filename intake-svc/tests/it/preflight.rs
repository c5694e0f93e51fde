//! What `validate_only` says of a broadcast before it is sent.

use bongsu_proto::v1::{
    CreateBroadcastRequest, CreateBroadcastResponse, DurationBasis, ListBroadcastsRequest, Preflight,
    PreflightWarningKind as Kind, TopicAudience, UserAudience, audience,
};
use tonic::Code;

use crate::harness::{Intake, PROVIDER, announcement, fields, refusal, start, to};

async fn checked(intake: &Intake, request: CreateBroadcastRequest) -> CreateBroadcastResponse {
    let request = CreateBroadcastRequest { validate_only: true, ..request };
    intake.broadcasts.clone().create_broadcast(request).await.expect("is valid").into_inner()
}

async fn preflight(intake: &Intake, request: CreateBroadcastRequest) -> Preflight {
    checked(intake, request).await.preflight.expect("a preflight")
}

fn kinds(preflight: &Preflight) -> Vec<Kind> {
    preflight.warnings.iter().map(|warning| warning.kind()).collect()
}

#[tokio::test]
async fn it_says_whom_it_would_reach_how_long_it_takes_and_stores_nothing() {
    let mut intake = start().await;
    for n in 0..3 {
        intake.device(&format!("token-{n}"), &format!("user-{n}")).await;
    }
    let request = CreateBroadcastRequest { max_rate_per_second: 2, ..announcement("k") };
    let response = checked(&intake, request.clone()).await;
    assert_eq!(response.broadcast.map(|broadcast| broadcast.max_rate_per_second), Some(2));
    let found = response.preflight.expect("a preflight");
    assert_eq!((found.devices, found.estimated), (3, false));
    assert_eq!(found.providers.len(), 1);
    let provider = &found.providers[0];
    assert_eq!((provider.name.as_str(), provider.kind.as_str(), provider.devices), (PROVIDER, "webhook", 3));
    assert!(provider.encoded_bytes > 0 && provider.limit_bytes == 65_536);
    assert_eq!(found.duration, Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }));
    assert_eq!(found.duration_basis(), DurationBasis::MaxRate);
    assert_eq!(kinds(&found), [Kind::NoSenderAlive]);
    let all = intake.broadcasts.clone().list_broadcasts(ListBroadcastsRequest::default()).await;
    assert_eq!(all.expect("lists").into_inner().broadcasts, []);
    // Once it is accepted, the key stands for it, and what it would come to is no question any more.
    intake.broadcasts.clone().create_broadcast(request.clone()).await.expect("accepts");
    let replayed = checked(&intake, request).await;
    assert!(replayed.replayed && replayed.preflight.is_none());
}

#[tokio::test]
async fn what_stands_in_the_way_is_named() {
    let mut intake = start().await;
    let nobody = to(audience::Kind::Topics(TopicAudience { topics: vec!["nwes".into()] }));
    let empty = preflight(&intake, CreateBroadcastRequest { audience: nobody, ..announcement("a") }).await;
    assert_eq!(kinds(&empty), [Kind::EmptyAudience, Kind::NoSenderAlive, Kind::EmptyTopic]);
    assert_eq!(empty.duration, None);
    assert!(empty.warnings[2].text.contains("nwes"));

    intake.device("token-0", "user-0").await;
    intake.device("token-1", "user-0").await;
    let provider = intake.store.register_provider(PROVIDER, bongsu_store::ProviderKind::Webhook).await;
    let provider = provider.expect("reads").expect("is there");
    let elsewhere = intake.store.register_provider("elsewhere", bongsu_store::ProviderKind::Webhook).await;
    let mut sender = intake.store.control_lane(bongsu_store::SenderId::random());
    sender.serve(elsewhere.expect("registers").into_iter());
    sender.heartbeat(0, &[]).await.expect("beats");
    intake.store.hold_provider(provider, std::time::Duration::from_secs(60)).await.expect("holds");
    let users = UserAudience { user_ids: vec!["user-0".into(), "nobody".into(), "no one".into()] };
    let request = CreateBroadcastRequest {
        audience: to(audience::Kind::Users(users)),
        data: (0..4).map(|n| (n.to_string(), "x".repeat(15_000))).collect(),
        max_rate_per_second: 1,
        expiry: Some(bongsu_proto::v1::create_broadcast_request::Expiry::Ttl(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        })),
        ..announcement("b")
    };
    let found = preflight(&intake, request).await;
    assert_eq!(
        kinds(&found),
        [
            Kind::WithoutDevice,
            Kind::ExpiresBeforeDone,
            Kind::ProviderHeld,
            Kind::ProviderUnconfigured,
            Kind::CloseToSizeLimit
        ]
    );
    assert_eq!((found.devices, found.warnings[0].count), (2, 2));
    assert!(found.warnings[2..].iter().all(|warning| warning.provider == PROVIDER));
}

#[tokio::test]
async fn a_rate_belongs_to_the_content_and_has_its_bounds() {
    let intake = start().await;
    let with = |max_rate_per_second| CreateBroadcastRequest { max_rate_per_second, ..announcement("k") };
    let mut client = intake.broadcasts.clone();
    let wrong = client.create_broadcast(with(1_000_001)).await.expect_err("is refused");
    assert_eq!(fields(&wrong), ["max_rate_per_second"]);
    let first = client.create_broadcast(with(5)).await.expect("accepts").into_inner();
    assert_eq!(first.broadcast.map(|broadcast| broadcast.max_rate_per_second), Some(5));
    assert!(client.create_broadcast(with(5)).await.expect("accepts").into_inner().replayed);
    let other = client.create_broadcast(with(6)).await.expect_err("is refused");
    assert_eq!(refusal(&other), (Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED".into()));
}
