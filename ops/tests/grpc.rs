//! Health and reflection as a client sees them, and a server whose end comes.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in their helpers

use std::collections::BTreeSet;
use std::time::Duration;

use bongsu_ops::grpc;
use bongsu_ops::health::{self, Health};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::{v1, v1alpha};

const SERVICE: &str = "bongsu.test.v1.Service";
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn every_service_follows_the_database_and_unknown_ones_are_not_found() {
    let server = Server::start(Duration::from_secs(5)).await;
    let mut client = HealthClient::new(server.channel.clone());
    for (answers, expected) in [
        (None, ServingStatus::NotServing),
        (Some(true), ServingStatus::Serving),
        (Some(false), ServingStatus::NotServing),
    ] {
        if let Some(answers) = answers {
            server.health.set_database(answers);
        }
        for service in ["", SERVICE] {
            let answer = client.check(request(service)).await.expect("a known service").into_inner();
            assert_eq!(answer.status(), expected, "{service:?} when the database answers: {answers:?}");
        }
    }
    let unknown = client.check(request("bongsu.v1.Unknown")).await.expect_err("no such service");
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test]
async fn a_health_watch_tells_each_change_once_and_ends_with_the_drain() {
    let server = Server::start(Duration::from_secs(60)).await;
    let mut watch = server.watch(SERVICE).await;
    assert_eq!(next(&mut watch).await, Some(ServingStatus::NotServing));
    server.health.set_database(false); // still not serving: nothing to tell
    server.health.set_database(true);
    assert_eq!(next(&mut watch).await, Some(ServingStatus::Serving));
    server.health.set_draining();
    assert_eq!(next(&mut watch).await, Some(ServingStatus::NotServing));
    assert_eq!(next(&mut watch).await, None, "nothing comes after the drain");
    server.shutdown.cancel();
    server.ends().await;
}

#[tokio::test]
async fn a_stream_that_stays_open_is_cut_after_the_grace() {
    let server = Server::start(Duration::from_millis(50)).await;
    let mut watch = server.watch("").await;
    assert_eq!(next(&mut watch).await, Some(ServingStatus::NotServing));
    server.shutdown.cancel(); // without set_draining, the watch would stay open for ever
    server.ends().await;
    let cut = tokio::time::timeout(PATIENCE, watch.message()).await.expect("the client is not left hanging");
    cut.expect_err("the stream did not end by itself");
}

#[tokio::test]
async fn dropping_the_server_cuts_its_connections() {
    let server = Server::start(Duration::from_secs(60)).await;
    let mut watch = server.watch("").await;
    assert_eq!(next(&mut watch).await, Some(ServingStatus::NotServing));
    server.task.abort();
    let cut = tokio::time::timeout(PATIENCE, watch.message()).await.expect("the client is not left hanging");
    cut.expect_err("the stream did not end by itself");
}

#[tokio::test]
async fn both_versions_of_reflection_list_everything() {
    let server = Server::start(Duration::from_secs(5)).await;
    let everything = BTreeSet::from([
        "grpc.health.v1.Health".to_owned(),
        "grpc.reflection.v1.ServerReflection".to_owned(),
        "grpc.reflection.v1alpha.ServerReflection".to_owned(),
    ]);
    assert_eq!(list_v1(server.channel.clone()).await, everything);
    assert_eq!(list_v1alpha(server.channel.clone()).await, everything);
}

#[tokio::test]
async fn a_check_that_hangs_counts_as_a_database_that_is_away() {
    let (health, shutdown) = (Health::new(&[]), CancellationToken::new());
    let (checks, mut began) = mpsc::unbounded_channel();
    let seen = health.clone();
    let mut number = 0;
    // The first check is answered, the others hang; each tells what was known when it began.
    let check = move || {
        number += 1;
        checks.send(seen.reasons()).unwrap();
        let answers = number == 1;
        async move { answers || std::future::pending().await }
    };
    let short = Duration::from_millis(5);
    let watching = tokio::spawn(health::watch(health.clone(), short, short, check, shutdown.clone()));
    assert_eq!(began.recv().await.unwrap(), ["the database has not answered yet"]);
    assert!(began.recv().await.unwrap().is_empty());
    assert_eq!(began.recv().await.unwrap(), ["the database does not answer"]);
    shutdown.cancel();
    watching.await.unwrap();
    assert_eq!(health.reasons(), ["the database does not answer", "draining"]);
}

/// A server with health and reflection on a free port, and a client's connection to it.
struct Server {
    health: Health,
    shutdown: CancellationToken,
    channel: Channel,
    task: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    async fn start(grace: Duration) -> Server {
        let (health, shutdown) = (Health::new(&[SERVICE]), CancellationToken::new());
        let listener = grpc::bind("127.0.0.1:0".parse().unwrap(), "nothing").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (v1, v1alpha) = grpc::reflection(&[], &[]).unwrap();
        let router = grpc::server().add_service(health.service()).add_service(v1).add_service(v1alpha);
        let task = tokio::spawn(grpc::serve(router, listener, None, shutdown.clone(), grace));
        let channel = Channel::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
        Server { health, shutdown, channel, task }
    }

    async fn watch(&self, service: &str) -> Streaming<HealthCheckResponse> {
        HealthClient::new(self.channel.clone()).watch(request(service)).await.unwrap().into_inner()
    }

    async fn ends(self) {
        let ended = tokio::time::timeout(PATIENCE, self.task).await.expect("the server ends");
        ended.unwrap().unwrap();
    }
}

fn request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn next(watch: &mut Streaming<HealthCheckResponse>) -> Option<ServingStatus> {
    let message = tokio::time::timeout(PATIENCE, watch.message()).await.expect("a message in time");
    message.unwrap().map(|message| message.status())
}

async fn list_v1(channel: Channel) -> BTreeSet<String> {
    use v1::server_reflection_request::MessageRequest::ListServices;
    use v1::server_reflection_response::MessageResponse::ListServicesResponse;
    let request = v1::ServerReflectionRequest {
        message_request: Some(ListServices(String::new())),
        ..Default::default()
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel);
    let requests = futures::stream::iter([request]);
    let answer = client.server_reflection_info(requests).await.unwrap().into_inner().message().await.unwrap();
    match answer.unwrap().message_response {
        Some(ListServicesResponse(list)) => list.service.into_iter().map(|service| service.name).collect(),
        other => panic!("not a list: {other:?}"),
    }
}

async fn list_v1alpha(channel: Channel) -> BTreeSet<String> {
    use v1alpha::server_reflection_request::MessageRequest::ListServices;
    use v1alpha::server_reflection_response::MessageResponse::ListServicesResponse;
    let request = v1alpha::ServerReflectionRequest {
        message_request: Some(ListServices(String::new())),
        ..Default::default()
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let requests = futures::stream::iter([request]);
    let answer = client.server_reflection_info(requests).await.unwrap().into_inner().message().await.unwrap();
    match answer.unwrap().message_response {
        Some(ListServicesResponse(list)) => list.service.into_iter().map(|service| service.name).collect(),
        other => panic!("not a list: {other:?}"),
    }
}
