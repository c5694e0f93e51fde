//! How many streams there may be, and that a place is free again once its client has gone.

use std::time::Duration;

use bongsu_proto::v1::SubscribeRequest;
use bongsu_proto::v1::live_service_client::LiveServiceClient;
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use super::client::ask;
use super::world::{PATIENCE, World, settings};
use crate::live::settings::Settings;

/// Waits until a stream of the user can be had.
async fn until_there_is_room(world: &World, user: &str) {
    let asked = async {
        while ask(&reqwest::Client::new(), world.address, user, None).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("the place is given back");
}

#[tokio::test]
async fn one_more_than_the_process_takes_is_told_when_to_ask_again() {
    let world = World::new(Settings { connections: 2, ..settings() }).await;
    let first = world.connect("ann", None).await;
    let _second = world.connect("bob", None).await;
    let refused = ask(&reqwest::Client::new(), world.address, "cho", None).await;
    assert_eq!(refused.status(), 503);
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=5).contains(&seconds), "{seconds}");
    let body: serde_json::Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(body["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(body["error"]["reason"], "CONNECTIONS_EXCEEDED");

    let mut grpc = LiveServiceClient::connect(format!("http://{}", world.address)).await.unwrap();
    let mut request = Request::new(SubscribeRequest::default());
    request.metadata_mut().insert("authorization", "Bearer cho".parse().unwrap());
    let refused = grpc.subscribe(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());

    drop(first);
    until_there_is_room(&world, "cho").await;
    world.stop().await;
}

#[tokio::test]
async fn one_user_cannot_take_everybodys_place() {
    let world = World::new(Settings { connections_per_user: 1, ..settings() }).await;
    let _ann = world.connect("ann", None).await;
    let refused = ask(&reqwest::Client::new(), world.address, "ann", None).await;
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("USER_CONNECTIONS_EXCEEDED"));
    world.connect("bob", None).await;
    world.stop().await;
}

#[tokio::test]
async fn a_grpc_client_that_leaves_gives_its_place_back() {
    let world = World::new(Settings { connections: 1, ..settings() }).await;
    let mut grpc = LiveServiceClient::connect(format!("http://{}", world.address)).await.unwrap();
    let mut request = Request::new(SubscribeRequest::default());
    request.metadata_mut().insert("authorization", "Bearer ann".parse().unwrap());
    let mut stream = grpc.subscribe(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    // The stream alone: its connection stays.
    drop(stream);
    until_there_is_room(&world, "bob").await;
    world.stop().await;
}

#[tokio::test]
async fn nobody_is_let_in_without_being_known() {
    let world = World::new(settings()).await;
    let answer = reqwest::get(format!("http://{}/v1/live", world.address)).await.unwrap();
    assert_eq!(answer.status(), 401);
    world.stop().await;
}
