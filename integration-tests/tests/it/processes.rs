//! Real processes for tests that kill them.

use bongsu_cli::stack::{Options, Process, SenderOptions, Stack};
use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::device_service_client::DeviceServiceClient;
use bongsu_proto::v1::{
    Broadcast, BroadcastState, CreateBroadcastRequest, DeviceRegistration, GetBroadcastRequest,
    ImportDevicesRequest,
};
use bongsu_store::testing::fresh_database;
use provider_sim::{DeliveryRecord, Stats};
use tonic::transport::Channel;

use crate::world::{registration, until};

/// This package's own binary, which is `bongsu`.
pub const BONGSU: &str = env!("CARGO_BIN_EXE_bongsu-under-test");

/// An intake and a simulator as processes, and a database.
pub struct Processes {
    pub stack: Stack,
    pub broadcasts: BroadcastServiceClient<Channel>,
    devices: DeviceServiceClient<Channel>,
    http: reqwest::Client,
}

impl Processes {
    pub async fn start(provider_sim_args: &[&str]) -> Self {
        bongsu_ops::telemetry::install_crypto();
        let mut options = Options::new().unwrap();
        options.executable = BONGSU.into();
        options.database_url = Some(fresh_database().await);
        options.provider_sim_args = provider_sim_args.iter().map(ToString::to_string).collect();
        options.log_filter = "error".into();
        let stack = Stack::start(options).await.unwrap();
        let channel = Channel::from_shared(stack.intake.url()).unwrap().connect().await.unwrap();
        Self {
            broadcasts: BroadcastServiceClient::new(channel.clone()),
            devices: DeviceServiceClient::new(channel),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            stack,
        }
    }

    pub async fn import_good(&mut self, n: usize) {
        self.import((0..n).map(|i| registration(&format!("good-{i}"))).collect()).await;
    }

    pub async fn import(&mut self, registrations: Vec<DeviceRegistration>) {
        let messages: Vec<_> =
            registrations.chunks(5_000).map(|c| ImportDevicesRequest { registrations: c.to_vec() }).collect();
        let report = self.devices.import_devices(tokio_stream::iter(messages)).await.unwrap().into_inner();
        assert_eq!(report.created, i64::try_from(registrations.len()).unwrap());
    }

    pub async fn create(&mut self, request: CreateBroadcastRequest) -> i64 {
        self.broadcasts.create_broadcast(request).await.unwrap().into_inner().broadcast.unwrap().id
    }

    pub async fn broadcast(&mut self, id: i64) -> Broadcast {
        let request = GetBroadcastRequest { broadcast_id: id };
        self.broadcasts.get_broadcast(request).await.unwrap().into_inner().broadcast.unwrap()
    }

    /// Waits until it has completed; returns it.
    pub async fn finish(&mut self, id: i64) -> Broadcast {
        let mut client = self.broadcasts.clone();
        until("completed", async || {
            let request = GetBroadcastRequest { broadcast_id: id };
            let broadcast = client.get_broadcast(request).await.unwrap().into_inner().broadcast.unwrap();
            broadcast.state() == BroadcastState::Completed
        })
        .await;
        self.broadcast(id).await
    }

    pub async fn accepted(&self, n: u64) -> Stats {
        let url = format!("{}/wait?accepted={n}&timeout_ms=60000", self.stack.provider_sim.url());
        self.http.get(url).send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
    }

    /// All deliveries that the simulator saw.
    pub async fn deliveries(&self) -> Vec<DeliveryRecord> {
        let url = format!("{}/deliveries", self.stack.provider_sim.url());
        let text = self.http.get(url).send().await.unwrap().text().await.unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a process tells of itself.
    pub async fn metrics(&self, process: &Process) -> String {
        let url = format!("http://{}/metrics", process.admin().unwrap());
        self.http.get(url).send().await.unwrap().text().await.unwrap()
    }

    /// Changes how the simulator behaves.
    pub async fn behave(&self, change: serde_json::Value) {
        let url = format!("{}/behaviour", self.stack.provider_sim.url());
        self.http.patch(url).json(&change).send().await.unwrap().error_for_status().unwrap();
    }

    pub async fn stats(&self) -> Stats {
        let url = format!("{}/stats", self.stack.provider_sim.url());
        self.http.get(url).send().await.unwrap().json().await.unwrap()
    }
}

pub fn sender(args: &[&str]) -> SenderOptions {
    SenderOptions { args: args.iter().map(ToString::to_string).collect(), ..SenderOptions::default() }
}

/// The sum of a counter over those of its lines that have this label.
pub fn metric_sum(metrics: &str, name: &str, label: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The value of a counter without labels; 0 where it was never counted.
pub fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.trim().parse().unwrap())
}
