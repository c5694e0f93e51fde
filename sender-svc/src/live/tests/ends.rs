//! How streams end that their clients do not end.

use std::time::{Duration, Instant};

use bongsu_proto::v1::SubscribeRequest;
use bongsu_proto::v1::live_service_client::LiveServiceClient;
use bongsu_proto::v1::subscribe_response::Event;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tonic::{Code, Request};

use super::client::{Client, ask};
use super::world::{PATIENCE, World, settings};
use crate::live::settings::Settings;

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let world = World::new(Settings { heartbeat: Duration::from_millis(200), ..settings() }).await;
    let began = Instant::now();
    let mut ann = world.connect("ann;600", None).await;
    assert_eq!(ann.next().await, None);
    assert!(began.elapsed() >= Duration::from_millis(590), "{:?}", began.elapsed());

    let mut grpc = LiveServiceClient::connect(format!("http://{}", world.address)).await.unwrap();
    let mut request = Request::new(SubscribeRequest::default());
    request.metadata_mut().insert("authorization", "Bearer ann;300".parse().unwrap());
    let mut stream = grpc.subscribe(request).await.unwrap().into_inner();
    let ended = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an end without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unauthenticated);
    world.stop().await;
}

#[tokio::test]
async fn a_drain_sends_every_client_elsewhere_at_a_time_of_its_own_and_ends() {
    let world = World::new(settings()).await;
    let mut clients = vec![];
    for n in 0..20 {
        clients.push(world.connect(&format!("user{n}"), None).await);
    }
    let mut grpc = LiveServiceClient::connect(format!("http://{}", world.address)).await.unwrap();
    let mut request = Request::new(SubscribeRequest::default());
    request.metadata_mut().insert("authorization", "Bearer ann".parse().unwrap());
    let mut stream = grpc.subscribe(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());

    let began = Instant::now();
    world.stop().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let mut hints = std::collections::BTreeSet::new();
    for mut client in clients {
        let last = client.next().await.expect("a hint where to go");
        assert_eq!(last.kind, "reconnect");
        let after = last.data["after_ms"].as_u64().unwrap();
        assert_eq!(last.retry_ms, Some(after));
        assert!((100..=1_000).contains(&after), "{after}");
        hints.insert(after);
        assert_eq!(client.next().await, None);
    }
    assert!(hints.len() > 5, "{hints:?}");
    let last = stream.message().await.unwrap().unwrap().event;
    assert!(matches!(last, Some(Event::Reconnect(_))), "{last:?}");
    assert!(stream.message().await.unwrap().is_none());
}

/// Asks for a stream over a connection that takes little, and reads nothing of it.
async fn silent_client(world: &World, user: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut tcp = socket.connect(world.address).await.unwrap();
    let request = format!("GET /v1/live HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {user}\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    tcp
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_ended_and_one_that_takes_everything_does_not_feel_it() {
    let settings = Settings {
        heartbeat: Duration::from_millis(400),
        stalled_after: Duration::from_millis(500),
        connections_per_user: 2,
        ..settings()
    };
    let world = World::new(settings).await;
    let mut silent = silent_client(&world, "ann").await;
    let mut quick = world.connect("ann", None).await;
    let refused = ask(&reqwest::Client::new(), world.address, "ann", None).await;
    assert_eq!(refused.status(), 429);
    // More than all buffers between the two hold.
    let mut sent = 0;
    let gone = async {
        loop {
            world.post(&format!("{sent} {}", "x".repeat(900)), &["ann"]).await;
            let seen = quick.next().await.unwrap();
            assert!(seen.title().starts_with(&format!("{sent} ")), "{}", seen.title());
            sent += 1;
            let asked = ask(&reqwest::Client::new(), world.address, "ann", Some("0-0")).await;
            if sent > 64 && asked.status() == 200 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the silent one is ended");
    let mut rest = vec![];
    let _ = silent.read_to_end(&mut rest).await; // a reset, perhaps
    assert!(!rest.is_empty(), "it was sent something before");
    world.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_not_read_gives_its_place_back_and_others_of_its_connection_go_on() {
    let settings = Settings {
        heartbeat: Duration::from_millis(400),
        stalled_after: Duration::from_millis(500),
        connections_per_user: 1,
        ..settings()
    };
    let world = World::new(settings).await;
    // One connection, as through a proxy, with windows that are soon full.
    let http2 = reqwest::Client::builder()
        .http2_prior_knowledge()
        .http2_initial_stream_window_size(4_096)
        .http2_initial_connection_window_size(1 << 20)
        .build()
        .unwrap();
    let silent = ask(&http2, world.address, "ann", None).await;
    assert_eq!(silent.status(), 200);
    let mut read = Client::of(ask(&http2, world.address, "bob", None).await).await;
    let mut sent = 0;
    let gone = async {
        loop {
            world.post(&format!("{sent} {}", "x".repeat(900)), &["ann", "bob"]).await;
            let seen = read.next().await.unwrap();
            assert!(seen.title().starts_with(&format!("{sent} ")), "{}", seen.title());
            sent += 1;
            if sent > 64 && ask(&reqwest::Client::new(), world.address, "ann", None).await.status() == 200 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the place is given back");
    world.post("last", &["bob"]).await;
    assert_eq!(read.titles(1).await, ["last"]);
    drop(silent);
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_was_killed_gives_its_place_back() {
    let world = World::new(Settings { connections: 1, ..settings() }).await;
    let mut killed = silent_client(&world, "ann").await;
    let mut first = [0; 1];
    killed.read_exact(&mut first).await.unwrap();
    assert_eq!(ask(&reqwest::Client::new(), world.address, "bob", None).await.status(), 503);
    // As the kernel does it for a process that is gone: nothing is said but a reset.
    killed.set_zero_linger().unwrap();
    drop(killed);
    let asked = async {
        while ask(&reqwest::Client::new(), world.address, "bob", None).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("the place is given back");
    world.stop().await;
}
