//! The process: probes, reflection, draining.

use bongsu_ops::admin;
use bongsu_proto::v1::{GetBroadcastRequest, ImportDevicesRequest, ImportDevicesResponse};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::harness::{Intake, announcement, refusal, registration, start, start_with};

#[tokio::test]
async fn reflection_lists_the_services() {
    let intake = start().await;
    let mut client = ServerReflectionClient::new(intake.channel.clone());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(ask)).await.expect("answers");
    let answer = answers.into_inner().message().await.expect("no error").expect("one answer");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list: {answer:?}")
    };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    let expected = [
        "bongsu.v1.BroadcastService",
        "bongsu.v1.DeviceService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    for name in expected {
        assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
    }
}

#[tokio::test]
async fn health_is_served_by_name_and_over_http() {
    let intake = start().await;
    let mut client = HealthClient::new(intake.channel.clone());
    for service in ["", "bongsu.v1.BroadcastService", "bongsu.v1.DeviceService"] {
        let request = HealthCheckRequest { service: service.into() };
        let mut updates = client.watch(request).await.expect("is served").into_inner();
        let serving = async {
            while let Some(update) = updates.message().await.expect("no error") {
                if update.status() == ServingStatus::Serving {
                    return;
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), serving).await.expect("serves");
    }
    let address = intake.admin;
    let ready = tokio::task::spawn_blocking(move || admin::healthcheck(address)).await.expect("runs");
    ready.expect("is ready");
}

#[tokio::test]
async fn calls_above_the_limit_are_refused_and_told_to_come_back() {
    let mut intake = start_with(|config| config.max_calls = 1).await;
    // An open import, once its first row is committed, is known to hold the one place.
    let (send, import) = open_import(&intake).await;
    let answer = intake.broadcasts.get_broadcast(GetBroadcastRequest { broadcast_id: 1 }).await;
    let status = answer.expect_err("is refused");
    assert_eq!(refusal(&status), (Code::ResourceExhausted, "OVERLOADED".into()));
    drop(send);
    import.await.expect("ends").expect("imports");
    let answer = intake.broadcasts.get_broadcast(GetBroadcastRequest { broadcast_id: 1 }).await;
    assert_eq!(refusal(&answer.expect_err("there is none")).1, "BROADCAST_NOT_FOUND");
}

#[tokio::test]
async fn a_shutdown_ends_an_open_import_with_draining_and_the_process_stops() {
    let mut intake = start().await;
    intake.broadcasts.create_broadcast(announcement("k")).await.expect("accepts");
    let (_send, import) = open_import(&intake).await;
    intake.shutdown.cancel();
    let status = import.await.expect("ends").expect_err("is refused");
    assert_eq!(refusal(&status), (Code::Unavailable, "DRAINING".into()));
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(10), &mut intake.running).await;
    stopped.expect("stops in time").expect("no panic").expect("no error");
}

type Sender = tokio::sync::mpsc::Sender<ImportDevicesRequest>;
type Call = tokio::task::JoinHandle<Result<tonic::Response<ImportDevicesResponse>, tonic::Status>>;

/// An import whose first message is committed and whose end is open.
async fn open_import(intake: &Intake) -> (Sender, Call) {
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let mut devices = intake.devices.clone();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
    let import = tokio::spawn(async move { devices.import_devices(stream).await });
    let message = ImportDevicesRequest { registrations: vec![registration("t", "u")] };
    send.send(message).await.expect("is open");
    let taken = async {
        let filter = bongsu_store::DeviceFilter { limit: 1, ..Default::default() };
        while intake.store.list_devices(&filter).await.expect("lists").is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), taken).await.expect("the row is committed");
    (send, import)
}
