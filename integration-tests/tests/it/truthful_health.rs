//! What probes and operators are told is true.

use bongsu_ops::admin::healthcheck;
use provider_sim::Behaviour;
use tonic_types::StatusExt as _;

use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_drains_says_so_while_it_finishes_its_calls() {
    let mut world = World::with_sender(Behaviour { hang: true, ..Default::default() }).await;
    world.import_good(1).await;
    world.broadcast("k").await;
    let sender = world.take_sender();
    let admin = sender.admin;
    until("a call is under way", async || world.sim.stats().await.hung == 1).await;
    let stopping = tokio::spawn(sender.stop());
    until("draining", async || {
        let asked = tokio::task::spawn_blocking(move || healthcheck(admin)).await.unwrap();
        asked.is_err_and(|error| format!("{error:#}").contains("draining"))
    })
    .await;
    assert!(!stopping.is_finished(), "the call is still under way");
    stopping.abort();
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
    let url = format!("http://{}/metrics", world.intake.admin);
    let text = http.get(url).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("bongsu_intake_calls_total"), "{text}");
    sender.stop().await;
    world.stop().await;
}
