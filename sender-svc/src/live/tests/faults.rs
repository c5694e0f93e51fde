//! What breaks below streams, and does not end them.

use std::time::Duration;

use bongsu_ops::local_postgres::{LocalPostgres, Options, Shutdown};
use bongsu_store::testing;

use super::world::{PATIENCE, World, settings};
use crate::live::settings::Settings;

#[tokio::test]
async fn a_bus_that_loses_every_hint_costs_one_look_and_no_notification() {
    let world = World::new(Settings { look_every: Duration::from_millis(300), ..settings() }).await;
    let mut ann = world.connect("ann", None).await;
    world.post("1", &["ann"]).await;
    assert_eq!(ann.titles(1).await, ["1"]);
    for n in 2..5 {
        world.post_silently(&n.to_string(), &["ann"]).await;
        assert_eq!(ann.titles(1).await, [n.to_string()]);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_stay_while_the_database_restarts_and_go_on() {
    let server = LocalPostgres::start(&Options::default()).unwrap();
    let url = testing::database_at(&server.url("postgres")).await;
    let settings = Settings {
        heartbeat: Duration::from_millis(200),
        look_every: Duration::from_millis(500),
        ..settings()
    };
    let world = World::at(&url, settings).await;
    let mut ann = world.connect("ann", None).await;
    world.post("1", &["ann"]).await;
    assert_eq!(ann.titles(1).await, ["1"]);

    server.stop_server().unwrap();
    // Who comes now is let in, and waits.
    let mut bob = world.connect("bob", None).await;
    assert_eq!(ann.next_of_any_kind().await.unwrap().kind, "heartbeat");
    assert_eq!(bob.next_of_any_kind().await.unwrap().kind, "heartbeat");
    server.start_server().unwrap();
    tokio::time::timeout(PATIENCE, world.store.wait_until_ready(PATIENCE)).await.unwrap().unwrap();
    world.post("2", &["ann", "bob"]).await;
    assert_eq!(ann.titles(1).await, ["2"]);
    assert_eq!(bob.titles(1).await, ["2"]);

    server.restart_server(Shutdown::Immediate).unwrap();
    tokio::time::timeout(PATIENCE, world.store.wait_until_ready(PATIENCE)).await.unwrap().unwrap();
    world.post_silently("3", &["bob", "ann"]).await;
    assert_eq!(ann.titles(1).await, ["3"]);
    assert_eq!(bob.titles(1).await, ["3"]);
    world.stop().await;
}
