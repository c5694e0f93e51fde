//! An operator stops the calls to a provider, and nothing but an operator lets them go on.

use bongsu_proto::v1::{
    ListProvidersRequest, ParkProviderRequest, ParkReason, Provider, StreamStatusRequest,
    UnparkProviderRequest,
};
use bongsu_store::testing::open_batches;
use provider_sim::Behaviour;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::world::{World, registration, until};

async fn park(world: &World, provider: &str, reason: &str) -> Result<Provider, Status> {
    let request = ParkProviderRequest { provider: provider.into(), reason: reason.into() };
    let answer = world.providers().await.park_provider(request).await?;
    Ok(answer.into_inner().provider.unwrap())
}

async fn listed(world: &World) -> Provider {
    let answer = world.providers().await.list_providers(ListProvidersRequest {}).await.unwrap().into_inner();
    answer.providers.into_iter().find(|p| p.name == "push").unwrap()
}

/// One more sender, which calls this provider, too.
async fn add_sender(world: &mut World, other: std::net::SocketAddr) {
    world
        .add_sender(|config| {
            config.webhooks.push(format!("other=h2c://{other}/push").parse().unwrap());
            config.in_flight = 20;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_parked_in_the_middle_is_called_by_nobody_not_even_after_a_restart_until_it_is_unparked() {
    let mut world = World::new(Behaviour { latency_ms: 20, ..Default::default() }).await;
    let other = world.second_sim().await;
    add_sender(&mut world, other).await;
    add_sender(&mut world, other).await;
    world.import_good(3_000).await;
    let mut beside = registration("beside");
    beside.provider = "other".into();
    world.import_registrations(vec![beside]).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(300).await;
    let parked = park(&world, "push", "new keys come on Monday").await.unwrap();
    assert_eq!((parked.park_reason(), parked.parked_code.as_str()), (ParkReason::ByHand, "by_hand"));
    assert_eq!((parked.parked_detail.as_str(), parked.probe_time), ("new keys come on Monday", None));
    let again = park(&world, "push", "or on Tuesday").await.unwrap();
    assert_eq!((again.parked_since, again.parked_detail.as_str()), (parked.parked_since, "or on Tuesday"));

    let store = world.store();
    until("all is given back", async || open_batches(&store, &["ready", "waiting"]).await == 0).await;
    let before = world.sim.stats().await;
    assert!(before.open == 0 && before.calls < 3_000, "{before:?}");
    let request = StreamStatusRequest { broadcast_id: id };
    let mut stream = world.deliveries().await.stream_status(request).await.unwrap().into_inner();
    let status = stream.message().await.unwrap().unwrap().status.unwrap();
    let push = status.providers.iter().find(|p| p.provider == "push").unwrap();
    assert!(push.parked_since.is_some() && push.parked_code == "by_hand", "{push:?}");
    drop(stream);
    // Senders that start now know it from Postgres. They work, and the provider would: nobody asks it.
    add_sender(&mut world, other).await;
    for _ in 0..2 {
        world.take_sender().stop().await;
    }
    for n in 0..5 {
        let key = format!("beside-{n}");
        let kind = bongsu_proto::v1::audience::Kind::Users(bongsu_proto::v1::UserAudience {
            user_ids: vec!["beside".into()],
        });
        let beside = world.create(crate::world::to(&key, kind)).await.id;
        assert_eq!(world.finish(beside).await.counts.unwrap().sent, 1);
    }
    assert_eq!(world.sim.stats().await.calls, before.calls);
    assert_eq!(listed(&world).await.park_reason(), ParkReason::ByHand);

    let unpark = UnparkProviderRequest { provider: "push".into() };
    let unparked = world.providers().await.unpark_provider(unpark).await.unwrap().into_inner();
    assert_eq!(unparked.provider.unwrap().parked_since, None);
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead, counts.retried), (3_001, 0, 0), "no attempt was charged");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.calls, stats.duplicates), (3_000, 3_000, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parking_asks_for_a_provider_that_there_is_and_for_a_reason() {
    let world = World::with_sender(Behaviour::default()).await;
    let reason = |status: &Status| status.get_error_details().error_info().unwrap().reason.clone();
    let unknown = park(&world, "nobody", "why not").await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown)), (Code::NotFound, "PROVIDER_NOT_FOUND".into()));
    let long = "x".repeat(513);
    for (provider, why, field) in [
        ("", "why", "provider"),
        ("push", " ", "reason"),
        ("push", &*long, "reason"),
        ("push", "a\nb", "reason"),
    ] {
        let refused = park(&world, provider, why).await.unwrap_err();
        assert_eq!((refused.code(), reason(&refused)), (Code::InvalidArgument, "INVALID_REQUEST".into()));
        let violations = refused.get_error_details().bad_request().unwrap().field_violations.clone();
        assert_eq!(violations.iter().map(|v| &*v.field).collect::<Vec<_>>(), [field]);
    }
    assert_eq!(listed(&world).await.parked_since, None);
    park(&world, "push", &"x".repeat(512)).await.expect("as long as it may be");
    world.stop().await;
}
