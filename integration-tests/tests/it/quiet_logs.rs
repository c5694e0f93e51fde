//! Nothing secret is logged at any level: neither what a broadcast says, nor tokens of devices, nor those of callers.

use bongsu_cli::stack::{Options, Stack};
use bongsu_ops::access::token_sha256;
use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::device_service_client::DeviceServiceClient;
use bongsu_proto::v1::{
    CreateBroadcastRequest, DeviceRegistration, GetStatusRequest, ImportDevicesRequest, RegisterDeviceRequest,
};
use bongsu_store::testing::fresh_database;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::processes::{BONGSU, sender};
use crate::raw_provider::{RawProvider, Reply};
use crate::world::{registration, to_everyone, until};

const BEARER: &str = "marker-bearer-0123456789abcdef0123456789";
const WRONG_BEARER: &str = "marker-wrong-bearer-0123456789abcdef";
const TITLE: &str = "marker-title";
const BODY: &str = "marker-body";
const DATA: &str = "marker-data-value";
/// Tokens that the simulator treats by their first letters: accepted, gone, failing, refused.
const DEVICES: [&str; 4] = ["good-marker-1", "expired-marker-2", "failing-marker-3", "rejected-marker-4"];
/// Tokens at a provider that repeats each in its answer: 410, 500, 400, and what is no HTTP.
const REPEATED: [&str; 4] = ["gone-marker-5", "failing-marker-6", "rejected-marker-7", "garbled-marker-8"];

fn repeat(token: &str, _: u32) -> Reply {
    let line = match token.split('-').next() {
        Some("gone") => "HTTP/1.1 410 Gone",
        Some("failing") => "HTTP/1.1 500 Internal Server Error",
        Some("rejected") => "HTTP/1.1 400 Bad Request",
        _ => return Reply::Last(format!("{token} is what I was asked for\r\n\r\n").into_bytes()),
    };
    let body = format!("{{\"error\":\"no delivery to {token}\"}}");
    let head = format!("{line}\r\nx-token: {token}\r\ncontent-length: {}\r\n\r\n", body.len());
    Reply::Bytes((head + &body).into_bytes())
}

#[tokio::test]
async fn no_message_and_no_token_is_in_any_log_line_at_trace() {
    bongsu_ops::telemetry::install_crypto();
    let directory = tempfile::tempdir().unwrap();
    let access = directory.path().join("access.toml");
    let table = format!(
        "[clients.marker]\ntoken_sha256 = \"{}\"\nroles = [\"submit\", \"devices\", \"operate\"]\n",
        token_sha256(BEARER)
    );
    std::fs::write(&access, table).unwrap();
    let access = access.display().to_string();
    let mut options = Options::new().unwrap();
    options.executable = BONGSU.into();
    options.database_url = Some(fresh_database().await);
    options.logs = Some(directory.path().to_owned());
    options.log_filter = "trace".into();
    options.intake_args = vec!["--access-file".into(), access.clone()];
    let stack = Stack::start(options).await.unwrap();
    let repeater = RawProvider::start(repeat, 0).await;
    let webhook = format!("repeater=http://{}/push", repeater.address);
    let told =
        ["--access-file", &access, "--webhook", &webhook, "--retry-initial-ms", "20", "--max-attempts", "2"];
    let mut sending = stack.spawn_sender(sender(&told)).await.unwrap();

    let channel = Channel::from_shared(stack.intake.url()).unwrap().connect().await.unwrap();
    let mut devices = DeviceServiceClient::with_interceptor(channel.clone(), with_token);
    let at_repeater =
        |token: &&str| DeviceRegistration { provider: "repeater".into(), ..registration(token) };
    let registrations: Vec<_> =
        DEVICES.iter().map(|token| registration(token)).chain(REPEATED.iter().map(at_repeater)).collect();
    devices.import_devices(tokio_stream::iter([ImportDevicesRequest { registrations }])).await.unwrap();
    let again = RegisterDeviceRequest { registration: Some(registration(DEVICES[0])) };
    devices.register_device(again).await.unwrap();

    let mut broadcasts = BroadcastServiceClient::with_interceptor(channel.clone(), with_token);
    let message = CreateBroadcastRequest {
        title: TITLE.into(),
        body: BODY.into(),
        data: [("key".to_owned(), DATA.to_owned())].into(),
        ..to_everyone("marker")
    };
    let id = broadcasts.create_broadcast(message.clone()).await.unwrap().into_inner().broadcast.unwrap().id;
    // Other content under the same key, and a caller that nobody knows.
    broadcasts
        .create_broadcast(CreateBroadcastRequest { body: format!("{BODY}-2"), ..message })
        .await
        .unwrap_err();
    let mut wrong = Request::new(to_everyone("x"));
    wrong.metadata_mut().insert("authorization", format!("Bearer {WRONG_BEARER}").parse().unwrap());
    BroadcastServiceClient::new(channel).create_broadcast(wrong).await.unwrap_err();

    let channel = Channel::from_shared(sending.url()).unwrap().connect().await.unwrap();
    let deliveries = DeliveryServiceClient::with_interceptor(channel, with_token);
    until("every device was called", async || {
        let request = GetStatusRequest { broadcast_id: id };
        let status = deliveries.clone().get_status(request).await.unwrap().into_inner().status.unwrap();
        let counts = status.counts.unwrap();
        counts.sent == 1 && counts.dead >= 4 && counts.dead + counts.retried >= 7
    })
    .await;
    sending.stop(std::time::Duration::from_secs(20)).await.unwrap();
    stack.stop(vec![]).await;

    let mut lines = 0;
    for service in ["intake", "sender-1"] {
        let log = std::fs::read_to_string(directory.path().join(format!("{service}.log"))).unwrap();
        assert!(log.contains("starting"), "{service} logs nothing: {log}");
        for marker in [BEARER, WRONG_BEARER, TITLE, BODY, DATA].iter().chain(&DEVICES).chain(&REPEATED) {
            let found: Vec<_> = log.lines().filter(|line| line.contains(marker)).collect();
            assert!(found.is_empty(), "{service} logs {marker}:\n{}", found.join("\n"));
        }
        lines += log.lines().count();
    }
    assert!(lines > 10, "there was something to look through");
    let intake = std::fs::read_to_string(directory.path().join("intake.log")).unwrap();
    assert!(intake.contains("DEBUG"), "what is below info is logged, a refused call for one: {intake}");
}

fn with_token(mut request: Request<()>) -> Result<Request<()>, Status> {
    request.metadata_mut().insert("authorization", format!("Bearer {BEARER}").parse().unwrap());
    Ok(request)
}
