//! What streams bring, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bongsu_proto::v1::live_service_client::LiveServiceClient;
use bongsu_proto::v1::subscribe_response::Event;
use bongsu_proto::v1::{AcknowledgeRequest, SubscribeRequest};
use bongsu_store::Controlled;
use tonic::Request;

use super::client::{Client, ask};
use super::world::{PATIENCE, World, settings};
use crate::live::settings::Settings;

/// A request of this user.
fn of<T>(user: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {user}").parse().unwrap());
    request
}

#[tokio::test]
async fn what_was_missed_comes_first_and_then_what_is_new_in_order() {
    let world = World::new(settings()).await;
    world.post("1", &["ann", "bob"]).await;
    world.post("2", &["ann"]).await;
    let mut ann = world.connect("ann", None).await;
    assert_eq!(ann.titles(2).await, ["1", "2"]);
    world.post("3", &["bob", "ann"]).await;
    let third = ann.next().await.unwrap();
    assert_eq!((third.title(), third.seq(), third.kind.as_str()), ("3", 3, "notification"));
    assert_eq!(third.data["event_id"], third.id);
    assert_eq!(world.connect("bob", None).await.titles(2).await, ["1", "3"]);
    world.stop().await;
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_id_of_its_client() {
    let world = World::new(settings()).await;
    for title in ["1", "2", "3"] {
        world.post(title, &["ann"]).await;
    }
    let mut first = world.connect("ann", None).await;
    let id = first.next().await.unwrap().id;
    assert_eq!(world.connect("ann", Some(&id)).await.titles(2).await, ["2", "3"]);
    // An EventSource cannot send the header the first time.
    let url = format!("http://{}/v1/live?last_event_id={id}", world.address);
    let answer = reqwest::Client::new().get(url).bearer_auth("ann").send().await.unwrap();
    assert_eq!(Client::of(answer).await.titles(2).await, ["2", "3"]);
    let mut strange = world.connect("ann", Some("who knows")).await;
    let gap = strange.next().await.unwrap();
    assert_eq!((gap.kind.as_str(), gap.data["reason"].as_str()), ("gap", Some("unknown_event_id")));
    assert_eq!(strange.titles(3).await, ["1", "2", "3"]);
    world.stop().await;
}

#[tokio::test]
async fn what_a_client_has_acknowledged_is_not_missed_any_more() {
    let world = World::new(settings()).await;
    let (one, two) = (world.post("1", &["ann"]).await, world.post("2", &["ann"]).await);
    world.post("3", &["ann"]).await;
    let client = reqwest::Client::new();
    let acknowledge = |body: String| {
        let request = client.post(format!("http://{}/v1/live/acknowledge", world.address));
        request.bearer_auth("ann").body(body).send()
    };
    let answer = acknowledge(format!("{{\"notification_ids\":[\"{one}\"]}}")).await.unwrap();
    assert_eq!(answer.status(), 204);
    let mut grpc = LiveServiceClient::connect(format!("http://{}", world.address)).await.unwrap();
    grpc.acknowledge(of("ann", AcknowledgeRequest { notification_ids: vec![two.0, one.0] })).await.unwrap();
    assert_eq!(world.connect("ann", None).await.titles(1).await, ["3"]);
    for (body, field) in [
        (String::new(), "body"),
        ("{\"notification_ids\":[]}".into(), "notification_ids"),
        ("{\"notification_ids\":[\"x\"]}".into(), "notification_ids[0]"),
    ] {
        let answer = acknowledge(body).await.unwrap();
        assert_eq!(answer.status(), 400);
        let error: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(error["error"]["reason"], "INVALID_REQUEST");
        assert!(error["error"]["message"].as_str().unwrap().starts_with(field), "{error}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_same_comes_over_http_2_and_over_grpc_on_the_same_port() {
    let world = World::new(settings()).await;
    let id = world.post("1", &["ann"]).await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let answer = ask(&http2, world.address, "ann", None).await;
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    let mut sse = Client::of(answer).await;
    assert_eq!(sse.headers()["content-type"], "text/event-stream");
    assert_eq!(sse.headers()["cache-control"], "no-cache, no-transform");
    assert_eq!(sse.headers()["x-accel-buffering"], "no");
    assert!((1_000..=5_000).contains(&sse.retry_ms), "{}", sse.retry_ms);
    assert_eq!(sse.titles(1).await, ["1"]);

    let mut grpc = LiveServiceClient::connect(format!("http://{}", world.address)).await.unwrap();
    let mut stream = grpc.subscribe(of("ann", SubscribeRequest::default())).await.unwrap().into_inner();
    let connected = stream.message().await.unwrap().unwrap().event.unwrap();
    assert!(matches!(connected, Event::Connected(c) if c.heartbeat_interval.unwrap().seconds == 15));
    let Some(Event::Notification(seen)) = stream.message().await.unwrap().unwrap().event else {
        panic!("no notification")
    };
    assert_eq!((seen.title.as_str(), seen.notification_id, seen.acknowledged), ("1", id.0, false));
    world.post("2", &["ann"]).await;
    assert_eq!(sse.titles(1).await, ["2"]);
    let Some(Event::Notification(seen)) = stream.message().await.unwrap().unwrap().event else {
        panic!("no notification")
    };
    assert_eq!(seen.title, "2");
    world.stop().await;
}

#[tokio::test]
async fn two_streams_of_a_user_get_everything_each_where_ever_they_began() {
    let world = World::new(settings()).await;
    for n in 0..150 {
        world.post(&n.to_string(), &["ann"]).await;
    }
    let mut first = world.connect("ann", None).await;
    let hundredth = {
        let titles = first.titles(99).await;
        assert_eq!(titles.last().unwrap(), "98");
        first.next().await.unwrap().id
    };
    let mut second = world.connect("ann", Some(&hundredth)).await;
    world.post("150", &["ann"]).await;
    let rest: Vec<String> = (100..=150).map(|n| n.to_string()).collect();
    assert_eq!(first.titles(51).await, rest);
    assert_eq!(second.titles(51).await, rest);
    world.stop().await;
}

/// Twenty writers, three readers of each of three users who break off and come back at random: each reader sees each number
/// exactly once and in order, whatever was told meanwhile, and once more when told is nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_while_writers_write_and_readers_come_and_go() {
    const WRITERS: usize = 20;
    const EACH: usize = 12;
    const USERS: [&str; 3] = ["ann", "bob", "cho"];
    let world = Arc::new(World::new(Settings { look_every: Duration::from_millis(200), ..settings() }).await);
    let written = Arc::new(AtomicI64::new(0));
    let mut readers = tokio::task::JoinSet::new();
    for user in USERS {
        for _ in 0..3 {
            readers.spawn(read_all(Arc::clone(&world), user, (WRITERS * EACH) as i64));
        }
    }
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (world, written) = (Arc::clone(&world), Arc::clone(&written));
        writers.spawn(async move {
            for n in 0..EACH {
                let title = format!("{writer}.{n}");
                // Every third one is told to nobody.
                if n % 3 == 0 {
                    world.post_silently(&title, &USERS).await;
                } else {
                    world.post(&title, &USERS).await;
                }
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    assert_eq!(written.load(Ordering::Relaxed), (WRITERS * EACH) as i64);
    while let Some(done) = readers.join_next().await {
        done.unwrap();
    }
}

/// Reads the numbers 1 to `last` of the user, each once and in order, over many streams.
async fn read_all(world: Arc<World>, user: &str, last: i64) {
    let mut last_event_id: Option<String> = None;
    let mut seen = 0;
    while seen < last {
        let mut client = world.connect(user, last_event_id.as_deref()).await;
        for _ in 0..rand::random_range(1..40) {
            let event = client.next().await.expect("the stream goes on");
            assert_eq!((event.kind.as_str(), event.seq()), ("notification", seen + 1));
            seen += 1;
            last_event_id = Some(event.id);
            if seen == last {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_broadcast_is_left_out() {
    let world = World::new(settings()).await;
    let gone = world.post("1", &["ann"]).await;
    world.post("2", &["ann"]).await;
    assert!(matches!(world.store.cancel_broadcast(gone).await.unwrap(), Controlled::Done(_)));
    assert_eq!(world.connect("ann", None).await.titles(1).await, ["2"]);
    world.stop().await;
}

#[tokio::test]
async fn silence_is_broken_by_heartbeats() {
    let heartbeat = Duration::from_millis(200);
    let world = World::new(Settings { heartbeat, ..settings() }).await;
    let mut ann = world.connect("ann", None).await;
    for _ in 0..3 {
        let seen = tokio::time::timeout(PATIENCE, ann.next_of_any_kind()).await.unwrap().unwrap();
        assert_eq!((seen.kind.as_str(), seen.id.as_str()), ("heartbeat", ""));
    }
    world.stop().await;
}
