//! Health tells the truth, and both reflection versions list both services.

use bongsu_ops::admin::healthcheck;
use provider_sim::Behaviour;
use tonic_types::StatusExt as _;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_stops_is_not_ready_and_then_gone() {
    let mut world = World::with_sender(Behaviour::default()).await;
    let sender = world.take_sender();
    let admin = sender.admin;
    sender.stop().await;
    let asked = tokio::task::spawn_blocking(move || healthcheck(admin)).await.unwrap();
    assert!(asked.is_err());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_id_is_told_with_its_field() {
    let world = World::with_sender(Behaviour::default()).await;
    let request = bongsu_proto::v1::GetStatusRequest { broadcast_id: -1 };
    let refused = world.deliveries().await.get_status(request).await.unwrap_err();
    let details = refused.get_error_details();
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "broadcast_id");
    assert!(refused.message().contains("broadcast_id"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_of_both_services_are_served() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(3).await;
    let id = world.broadcast("k").await.id;
    world.finish(id).await;
    let sender = world.take_sender();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let text =
        http.get(format!("http://{}/metrics", sender.admin)).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("bongsu_sender_calls_total"), "{text}");
    sender.stop().await;
    world.stop().await;
}
