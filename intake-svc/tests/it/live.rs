//! Broadcasts that go out live.

use std::collections::BTreeSet;
use std::time::Duration;

use bongsu_live::{Bus, Heard, LiveArgs};
use bongsu_proto::v1::{
    Broadcast, BroadcastState, CreateBroadcastRequest, GetBroadcastRequest, LiveCounts, Routing,
    UserAudience, audience,
};
use bongsu_store::UserNo;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::harness::{Intake, announcement, start, to};

/// Whatever is told, is told within so long.
const SOON: Duration = Duration::from_secs(30);

async fn create(intake: &Intake, request: CreateBroadcastRequest) -> Broadcast {
    let created = intake.broadcasts.clone().create_broadcast(request).await.expect("accepts");
    created.into_inner().broadcast.expect("a broadcast")
}

/// The next so many users that are told of.
async fn told(heard: &mut mpsc::Receiver<Heard>, users: usize) -> BTreeSet<UserNo> {
    let mut told = BTreeSet::new();
    let hearing = async {
        while told.len() < users {
            if let Heard::Users(users) = heard.recv().await.expect("it listens") {
                told.extend(users);
            }
        }
    };
    tokio::time::timeout(SOON, hearing).await.expect("they are told of");
    told
}

#[tokio::test]
async fn whoever_listens_is_told_of_short_lists_and_of_every_page() {
    let mut intake = start().await;
    for n in 0..3 {
        intake.device(&format!("token-{n}"), &format!("user-{n}")).await;
    }
    let bus = Bus::start(&LiveArgs::default(), intake.store.clone(), CancellationToken::new());
    let mut heard = bus.listen(CancellationToken::new());
    assert_eq!(heard.recv().await, Some(Heard::Anything), "it listens from now on");
    let users = UserAudience { user_ids: vec!["user-0".into(), "guest".into()] };
    let request = CreateBroadcastRequest {
        audience: to(audience::Kind::Users(users)),
        routing: Routing::Live.into(),
        ..announcement("short")
    };
    let short = create(&intake, request.clone()).await;
    assert_eq!((short.routing(), short.state()), (Routing::Live, BroadcastState::Completed));
    assert_eq!(short.live, Some(LiveCounts { events: 2, acknowledged: 0 }));
    let first = told(&mut heard, 2).await;

    let everyone = CreateBroadcastRequest { routing: Routing::LiveThenPush.into(), ..announcement("all") };
    let everyone = create(&intake, everyone).await;
    assert_eq!(everyone.ack_timeout, Some(prost_types::Duration { seconds: 10, nanos: 0 }));
    let all = told(&mut heard, 4).await;
    assert!(all.is_superset(&first), "the guest, too, who has no device");
    let request = GetBroadcastRequest { broadcast_id: everyone.id };
    let got = intake.broadcasts.clone().get_broadcast(request).await.expect("is there").into_inner();
    let got = got.broadcast.expect("a broadcast");
    assert_eq!(got.live, Some(LiveCounts { events: 4, acknowledged: 0 }));
    assert_eq!(got.counts.map(|counts| counts.total), Some(3));
}
