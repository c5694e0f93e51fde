//! What a provider says of tokens is believed, unless it says it of implausibly many: then the mistake is ours, and no device
//! may be lost by it.

use bongsu_proto::v1::restore_devices_request::Devices;
use bongsu_proto::v1::{
    DeadReason, DeliveryState, Device, DeviceState, ListDeliveriesRequest, ListDevicesRequest,
    ListProvidersRequest, ParkReason, Provider, ReplayDeadLettersRequest, RestoreDevicesRequest,
    RestoreFilter, UnparkProviderRequest,
};
use provider_sim::Behaviour;
use serde_json::json;
use tonic::Code;

use crate::world::{World, until};

/// A little slower than at once, so that not everything is answered before the first two hundred are counted.
fn slow() -> Behaviour {
    Behaviour { latency_ms: 5, ..Default::default() }
}

async fn in_state(world: &World, state: DeviceState) -> Vec<Device> {
    let request = ListDevicesRequest { state: state.into(), page_size: 1_000, ..Default::default() };
    world.devices.clone().list_devices(request).await.unwrap().into_inner().devices
}

async fn provider(world: &World) -> Provider {
    let mut providers = world.providers().await;
    providers.list_providers(ListProvidersRequest {}).await.unwrap().into_inner().providers.remove(0)
}

async fn unpark(world: &World, provider: &str) -> Result<Provider, Code> {
    let request = UnparkProviderRequest { provider: provider.into() };
    let answer = world.providers().await.unpark_provider(request).await;
    answer.map(|answer| answer.into_inner().provider.unwrap()).map_err(|status| status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_every_token_is_called_gone_the_provider_is_parked_and_in_the_end_everyone_is_reached() {
    let mut world = World::new(slow()).await;
    // Two hundred answers within the window, on a busy machine, too.
    world.add_sender_told("in_flight = 50\nmass_invalidation = { answers = 200, window_ms = 2500 }").await;
    world.import_good(1_000).await;
    world.sim.behave(json!({"status": 410})).await;
    let id = world.broadcast("k").await.id;
    until("it is parked, and two probes were in vain", async || provider(&world).await.probes_failed >= 2)
        .await;
    let parked = provider(&world).await;
    assert_eq!(
        (parked.park_reason(), &*parked.parked_code),
        (ParkReason::MassInvalidation, "mass_invalidation")
    );
    assert!(parked.parked_detail.contains("410"), "{parked:?}");
    // What was held back would have been written by now: the second probe came three seconds after the parking.
    assert_eq!(in_state(&world, DeviceState::Live).await.len(), 1_000);

    world.sim.behave(json!({"status": null})).await;
    // Or a probe was faster.
    let unparked = unpark(&world, "push").await;
    assert!(unparked.is_ok() || unparked == Err(Code::FailedPrecondition), "{unparked:?}");
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!(counts.sent + counts.dead_unregistered, 1_000, "{counts:?}");
    assert!(
        (100..=250).contains(&counts.dead_unregistered),
        "those answered before it was noticed: {counts:?}"
    );
    assert_eq!(unpark(&world, "push").await, Err(Code::FailedPrecondition));
    assert_eq!(unpark(&world, "pull").await, Err(Code::NotFound));
    assert_eq!(unpark(&world, "").await, Err(Code::InvalidArgument));

    let request = ReplayDeadLettersRequest { replay_id: "r".into(), broadcast_id: id, ..Default::default() };
    let replay = world.deliveries().await.replay_dead_letters(request).await.unwrap().into_inner();
    let again = world.finish(replay.broadcast_id).await.counts.unwrap();
    assert_eq!((again.sent, again.total), (counts.dead_unregistered, counts.dead_unregistered));
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (1_000, 0));
    assert_eq!(in_state(&world, DeviceState::Live).await.len(), 1_000);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_per_cent_of_gone_tokens_are_retired_exactly_and_shown_and_can_be_restored() {
    let mut world = World::with_quick_decisions(slow()).await;
    world.import((0..1_000).map(|n| format!("{}-{n}", if n % 33 == 0 { "expired" } else { "good" }))).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead_unregistered), (969, 31), "{counts:?}");
    until("they are retired", async || in_state(&world, DeviceState::Retired).await.len() >= 31).await;
    let retired = in_state(&world, DeviceState::Retired).await;
    assert_eq!(retired.len(), 31);
    assert!(
        retired
            .iter()
            .all(|d| d.token.starts_with("expired-") && d.retired_by == id && d.retire_code == "410")
    );

    // A client can learn which tokens failed, and why.
    let request = ListDeliveriesRequest {
        broadcast_id: id,
        states: vec![DeliveryState::Dead.into()],
        page_size: 1_000,
        ..Default::default()
    };
    let dead = world.deliveries().await.list_deliveries(request).await.unwrap().into_inner().deliveries;
    assert_eq!(dead.len(), 31);
    assert!(
        dead.iter()
            .all(|d| d.dead_reason() == DeadReason::Unregistered && d.last_code == "410" && d.attempts == 1)
    );

    let filter =
        RestoreFilter { provider: "push".into(), state: DeviceState::Retired.into(), ..Default::default() };
    let request = RestoreDevicesRequest { devices: Some(Devices::Filter(filter)), ..Default::default() };
    let answer = world.devices.restore_devices(request).await.unwrap().into_inner();
    assert_eq!((answer.restored, answer.superseded, &*answer.next_page_token), (31, 0, ""));
    let next = world.broadcast("next").await.id;
    assert_eq!(world.finish(next).await.counts.unwrap().total, 1_000);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_is_switched_off_every_word_is_believed_at_once() {
    let mut world = World::new(slow()).await;
    world.add_sender_told("mass_invalidation = \"off\"").await;
    world.import_good(500).await;
    world.sim.behave(json!({"status": 410})).await;
    let id = world.broadcast("k").await.id;
    assert_eq!(world.finish(id).await.counts.unwrap().dead_unregistered, 500);
    assert_eq!(in_state(&world, DeviceState::Retired).await.len(), 500);
    world.stop().await;
}
