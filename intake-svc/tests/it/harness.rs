//! A database and a running intake for each test.

use std::net::SocketAddr;

use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::device_service_client::DeviceServiceClient;
use bongsu_proto::v1::{
    Audience, CreateBroadcastRequest, Device, DeviceRegistration, EveryoneAudience, RegisterDeviceRequest,
    RegisterDeviceResponse, audience,
};
use bongsu_store::testing::fresh_database;
use bongsu_store::{ProviderKind, Store};
use intake_svc::{Config, Listeners};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The provider that every test has.
pub const PROVIDER: &str = "hook";

/// A running intake and its clients. It stops when dropped.
pub struct Intake {
    pub broadcasts: BroadcastServiceClient<Channel>,
    pub devices: DeviceServiceClient<Channel>,
    pub channel: Channel,
    pub admin: SocketAddr,
    pub store: Store,
    pub shutdown: CancellationToken,
    pub running: JoinHandle<anyhow::Result<()>>,
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// An intake on a fresh database with one provider.
pub async fn start() -> Intake {
    start_with(|_| {}).await
}

/// The same with other settings.
pub async fn start_with(change: impl FnOnce(&mut Config)) -> Intake {
    let url = fresh_database().await;
    let store = Store::new(&url, 4, "test").expect("a valid URL");
    let provider = store.register_provider(PROVIDER, ProviderKind::Webhook).await;
    provider.expect("registers").expect("a new name");
    let mut config = Config::at_database(&url);
    config.database_connections = 8;
    change(&mut config);
    let listeners = Listeners { grpc: any_port().await, admin: any_port().await };
    let grpc = listeners.grpc.local_addr().expect("an address");
    let admin = listeners.admin.local_addr().expect("an address");
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(intake_svc::run(config, listeners, shutdown.clone()));
    let channel = Channel::from_shared(format!("http://{grpc}")).expect("a URI");
    let channel = channel.connect().await.expect("the intake listens");
    Intake {
        broadcasts: BroadcastServiceClient::new(channel.clone()),
        devices: DeviceServiceClient::new(channel.clone()),
        channel,
        admin,
        store,
        shutdown,
        running,
    }
}

impl Intake {
    /// Registers one device.
    pub async fn register(&mut self, registration: DeviceRegistration) -> RegisterDeviceResponse {
        let request = RegisterDeviceRequest { registration: Some(registration) };
        self.devices.register_device(request).await.expect("registers").into_inner()
    }

    /// Registers a device of `user` with `token`.
    pub async fn device(&mut self, token: &str, user: &str) -> Device {
        self.register(registration(token, user)).await.device.expect("a device")
    }
}

/// A plain registration at the one provider.
pub fn registration(token: &str, user: &str) -> DeviceRegistration {
    DeviceRegistration {
        user_id: user.into(),
        provider: PROVIDER.into(),
        token: token.into(),
        ..Default::default()
    }
}

/// A broadcast to everyone.
pub fn announcement(key: &str) -> CreateBroadcastRequest {
    CreateBroadcastRequest {
        idempotency_key: key.into(),
        title: "봉화가 올랐다 🔥".into(),
        body: "남산에서 온 소식".into(),
        audience: to(audience::Kind::Everyone(EveryoneAudience {})),
        ..Default::default()
    }
}

pub fn to(kind: audience::Kind) -> Option<Audience> {
    Some(Audience { kind: Some(kind) })
}

/// Code and reason of a refusal.
pub fn refusal(status: &Status) -> (Code, String) {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
    assert_eq!(info.domain, "bongsu");
    (status.code(), info.reason.clone())
}

/// The fields that a refusal names.
pub fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    violations.into_iter().map(|violation| violation.field).collect()
}

async fn any_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}
