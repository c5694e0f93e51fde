//! A small world for one test: its own database, its own simulator, an intake and as many senders as it wants, all in this
//! process and reached over real sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::device_service_client::DeviceServiceClient;
use bongsu_proto::v1::provider_service_client::ProviderServiceClient;
use bongsu_proto::v1::{
    Audience, Broadcast, BroadcastStatus, CreateBroadcastRequest, DeviceRegistration, EveryoneAudience,
    ImportDevicesRequest, ImportDevicesResponse, StreamStatusRequest, audience,
};
use bongsu_store::Store;
use bongsu_store::testing::fresh_database;
use provider_sim::{Behaviour, Stats};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// A broadcast that takes longer than this is stuck.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct World {
    pub database_url: String,
    pub sim: Sim,
    pub broadcasts: BroadcastServiceClient<Channel>,
    pub devices: DeviceServiceClient<Channel>,
    senders: Vec<Running>,
    pub intake: Running,
}

/// A service of this process.
pub struct Running {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it as SIGTERM would, and waits until it has ended.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

/// How a test wants its senders.
pub fn quick(config: &mut sender_svc::Config) {
    // The schedule of the product scaled down, so that four attempts take half a second.
    config.retry_initial_ms = 20;
}

impl World {
    /// Postgres, a simulator that behaves so, and an intake.
    pub async fn new(behaviour: Behaviour) -> Self {
        Self::at(fresh_database().await, behaviour).await
    }

    /// As [`World::new`], at a database with the schema.
    pub async fn at(database_url: String, behaviour: Behaviour) -> Self {
        Self::configured(database_url, behaviour, |_| {}).await
    }

    /// As [`World::new`], with an intake that is told this.
    pub async fn with_intake(behaviour: Behaviour, configure: impl FnOnce(&mut intake_svc::Config)) -> Self {
        Self::configured(fresh_database().await, behaviour, configure).await
    }

    async fn configured(
        database_url: String,
        behaviour: Behaviour,
        configure: impl FnOnce(&mut intake_svc::Config),
    ) -> Self {
        bongsu_ops::telemetry::install_crypto();
        let sim = Sim::start(behaviour).await;
        let mut config = intake_svc::Config::at_database(&database_url);
        configure(&mut config);
        let intake = start_intake(config).await;
        let channel = connect(intake.address).await;
        Self {
            database_url,
            sim,
            broadcasts: BroadcastServiceClient::new(channel.clone()),
            devices: DeviceServiceClient::new(channel),
            senders: vec![],
            intake,
        }
    }

    /// As [`World::new`], with a sender of the quick schedule.
    pub async fn with_sender(behaviour: Behaviour) -> Self {
        let mut world = Self::new(behaviour).await;
        world.add_sender(quick).await;
        world
    }

    /// One more sender.
    pub async fn add_sender(&mut self, configure: impl FnOnce(&mut sender_svc::Config)) {
        let webhook = format!("push=h2c://{}/push", self.sim.address).parse().unwrap();
        let mut config = sender_svc::Config::at_database(&self.database_url, webhook);
        configure(&mut config);
        let listeners = sender_svc::Listeners { grpc: listener().await, admin: listener().await, live: None };
        let (address, admin) = (listeners.grpc.local_addr().unwrap(), listeners.admin.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let run = sender_svc::run(config, listeners, shutdown.clone());
        let task = tokio::spawn(async move { run.await.unwrap() });
        let running = Running { address, admin, shutdown, task };
        ready(running.admin).await;
        self.senders.push(running);
    }

    /// One more sender of the quick schedule, whose provider is told this, too: lines of TOML.
    pub async fn add_sender_told(&mut self, settings: &str) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("bongsu-providers-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (file, address) = (std::env::temp_dir().join(name), self.sim.address);
        let table =
            format!("[providers.push]\nkind = \"webhook\"\nurl = \"h2c://{address}/push\"\n{settings}");
        std::fs::write(&file, table).unwrap();
        self.add_sender(|config| {
            quick(config);
            config.webhooks.clear();
            config.providers = Some(file.clone());
        })
        .await;
        std::fs::remove_file(file).unwrap();
    }

    /// As [`World::with_sender`], where it is decided within a second whether a provider is believed that tokens are gone.
    pub async fn with_quick_decisions(behaviour: Behaviour) -> Self {
        let mut world = Self::new(behaviour).await;
        world.add_sender_told("mass_invalidation = { window_ms = 1000 }").await;
        world
    }

    /// The oldest sender's API of providers.
    pub async fn providers(&self) -> ProviderServiceClient<Channel> {
        ProviderServiceClient::new(connect(self.senders[0].address).await)
    }

    /// Takes the oldest sender out, for the test to stop.
    pub fn take_sender(&mut self) -> Running {
        self.senders.remove(0)
    }

    /// The intake and the senders.
    pub fn services(&self) -> impl Iterator<Item = &Running> {
        std::iter::once(&self.intake).chain(&self.senders)
    }

    /// The oldest sender's API.
    pub async fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(connect(self.senders[0].address).await)
    }

    /// A second simulator, which behaves well; its address.
    pub async fn second_sim(&self) -> SocketAddr {
        let listener = listener().await;
        let address = listener.local_addr().unwrap();
        let config = provider_sim::Config::default();
        tokio::spawn(provider_sim::run(config, listener, self.sim.shutdown.clone()));
        address
    }

    /// Registers a device for each token, of a user of the same name.
    pub async fn import<S: ToString>(
        &mut self,
        tokens: impl IntoIterator<Item = S>,
    ) -> ImportDevicesResponse {
        self.import_registrations(tokens.into_iter().map(|t| registration(&t.to_string())).collect()).await
    }

    pub async fn import_registrations(
        &mut self,
        registrations: Vec<DeviceRegistration>,
    ) -> ImportDevicesResponse {
        let messages: Vec<_> =
            registrations.chunks(5_000).map(|c| ImportDevicesRequest { registrations: c.to_vec() }).collect();
        let response = self.devices.import_devices(tokio_stream::iter(messages)).await.unwrap().into_inner();
        assert_eq!(response.rejected, 0, "{:?}", response.errors);
        response
    }

    /// `n` devices with tokens that the simulator accepts.
    pub async fn import_good(&mut self, n: usize) {
        self.import((0..n).map(|i| format!("good-{i}"))).await;
    }

    /// Accepts a broadcast to everyone.
    pub async fn broadcast(&mut self, key: &str) -> Broadcast {
        self.create(to_everyone(key)).await
    }

    pub async fn create(&mut self, request: CreateBroadcastRequest) -> Broadcast {
        self.broadcasts.create_broadcast(request).await.unwrap().into_inner().broadcast.unwrap()
    }

    /// Follows a broadcast to its end, and returns the last status.
    pub async fn finish(&self, id: i64) -> BroadcastStatus {
        let mut stream = self
            .deliveries()
            .await
            .stream_status(StreamStatusRequest { broadcast_id: id })
            .await
            .unwrap()
            .into_inner();
        let mut last = None;
        let following = async {
            while let Some(message) = stream.message().await.unwrap() {
                last = message.status;
            }
        };
        tokio::time::timeout(PATIENCE, following).await.expect("the broadcast ends");
        let last = last.unwrap();
        check_sums(&last);
        last
    }

    /// Stops everything, and checks that nothing was left running.
    pub async fn stop(self) {
        for sender in self.senders {
            sender.stop().await;
        }
        self.intake.stop().await;
        self.sim.end();
    }

    /// The store, to look at what no API shows.
    pub fn store(&self) -> Store {
        Store::new(&self.database_url, 4, "test").unwrap()
    }
}

/// Sums are equal everywhere: states add up to the total, providers to the whole.
pub fn check_sums(status: &BroadcastStatus) {
    let c = status.counts.as_ref().unwrap();
    assert_eq!(
        c.total,
        c.pending + c.sent + c.dead + c.expired + c.skipped + c.cancelled + c.unconfirmed,
        "{status:?}"
    );
    assert_eq!(c.dead, c.dead_unregistered + c.dead_rejected + c.dead_attempts_exhausted, "{status:?}");
    let by_provider: i64 = status.providers.iter().map(|p| p.counts.as_ref().unwrap().total).sum();
    assert_eq!(c.total, by_provider, "{status:?}");
}

pub fn to_everyone(key: &str) -> CreateBroadcastRequest {
    to(key, audience::Kind::Everyone(EveryoneAudience {}))
}

pub fn to(key: &str, kind: audience::Kind) -> CreateBroadcastRequest {
    CreateBroadcastRequest {
        idempotency_key: key.into(),
        title: "봉수".into(),
        body: "불이 올랐다".into(),
        audience: Some(Audience { kind: Some(kind) }),
        ..Default::default()
    }
}

pub fn registration(token: &str) -> DeviceRegistration {
    DeviceRegistration {
        user_id: token.into(),
        provider: "push".into(),
        token: token.into(),
        ..Default::default()
    }
}

/// A provider that can be told to misbehave.
pub struct Sim {
    pub address: SocketAddr,
    http: reqwest::Client,
    shutdown: CancellationToken,
}

impl Sim {
    pub async fn start(behaviour: Behaviour) -> Self {
        let listener = listener().await;
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let config = provider_sim::Config { behaviour, ..Default::default() };
        tokio::spawn(provider_sim::run(config, listener, shutdown.clone()));
        // One connection for all that is asked, kept: it counts where the provider has a limit, and must not be one that the
        // limit refuses.
        let http = reqwest::Client::builder()
            .no_proxy()
            .http2_prior_knowledge()
            .pool_idle_timeout(None)
            .build()
            .unwrap();
        Self { address, http, shutdown }
    }

    /// Ends it, and every connection, answered or not.
    pub fn end(&self) {
        self.shutdown.cancel();
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn stats(&self) -> Stats {
        self.http.get(self.url("/stats")).send().await.unwrap().json().await.unwrap()
    }

    /// The keys of all deliveries that it saw.
    pub async fn keys(&self) -> Vec<String> {
        let text = self.http.get(self.url("/deliveries")).send().await.unwrap().text().await.unwrap();
        let records = text.lines().map(|l| serde_json::from_str::<provider_sim::DeliveryRecord>(l).unwrap());
        records.map(|r| r.key).collect()
    }

    /// Starts another one, which behaves well, there, in its place.
    pub async fn move_to(&mut self, address: SocketAddr) {
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(provider_sim::run(provider_sim::Config::default(), listener, self.shutdown.clone()));
        self.address = address;
    }

    pub async fn behave(&self, change: serde_json::Value) {
        let answer = self.http.patch(self.url("/behaviour")).json(&change).send().await.unwrap();
        assert!(answer.status().is_success(), "{:?}", answer.text().await);
    }

    /// Waits until the provider has accepted so many.
    pub async fn accepted(&self, n: u64) -> Stats {
        let url = self.url(&format!("/wait?accepted={n}&timeout_ms=60000"));
        let answer = self.http.get(url).send().await.unwrap();
        assert!(answer.status().is_success(), "fewer than {n} were accepted: {:?}", self.stats().await);
        answer.json().await.unwrap()
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub async fn connect(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

async fn start_intake(config: intake_svc::Config) -> Running {
    let listeners = intake_svc::Listeners { grpc: listener().await, admin: listener().await };
    let (address, admin) = (listeners.grpc.local_addr().unwrap(), listeners.admin.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let run = intake_svc::run(config, listeners, shutdown.clone());
    let task = tokio::spawn(async move { run.await.unwrap() });
    ready(admin).await;
    Running { address, admin, shutdown, task }
}

/// Waits until /ready says so.
pub async fn ready(admin: SocketAddr) {
    until("ready", async || {
        tokio::task::spawn_blocking(move || bongsu_ops::admin::healthcheck(admin).is_ok()).await.unwrap()
    })
    .await;
}

/// Waits for a condition that another task or process brings about.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..3_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: did not come true within a minute");
}
