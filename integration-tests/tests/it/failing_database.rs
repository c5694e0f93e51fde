//! A broadcast under way while its database fails: what everybody says meanwhile, and what must hold in the end.

use std::path::PathBuf;
use std::sync::Arc;

use bongsu_ops::admin::healthcheck;
use bongsu_ops::local_postgres::{LocalPostgres, LocalPostgresError, Options};
use bongsu_proto::v1::{
    BroadcastState, CreateBroadcastRequest, ListDeadLettersRequest, UserAudience, audience,
};
use bongsu_store::testing::database_at;
use provider_sim::Behaviour;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::tcp_proxy::TcpProxy;
use crate::world::{Running, World, connect, quick, to, to_everyone, until};

/// Deliveries of the broadcast that is under way.
const DEVICES: usize = 2_000;

/// A server of the test's own, to break.
pub struct PrivatePostgres {
    server: Arc<LocalPostgres>,
    pub url: String,
}

impl PrivatePostgres {
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let start = move || LocalPostgres::start(&Options { fsync: false, settings }).unwrap();
        let server = tokio::task::spawn_blocking(start).await.unwrap();
        let url = database_at(&server.url("postgres")).await;
        Self { server: Arc::new(server), url }
    }

    /// Does something to the server, and waits until it is done.
    pub async fn does(
        &self,
        what: impl FnOnce(&LocalPostgres) -> Result<(), LocalPostgresError> + Send + 'static,
    ) {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || what(&server)).await.unwrap().unwrap();
    }

    /// Its first process.
    pub fn postmaster(&self) -> i32 {
        self.server.postmaster_pid().expect("it runs").cast_signed()
    }

    /// A network to it, and the URL through that.
    pub async fn over_tcp(&self) -> (TcpProxy, String) {
        let proxy = TcpProxy::start(PathBuf::from(self.server.socket_dir()).join(".s.PGSQL.5432")).await;
        let url = format!("postgres://postgres@{}/bongsu?sslmode=disable", proxy.address);
        (proxy, url)
    }
}

/// Two senders in the middle of a broadcast, whose id comes with them.
pub async fn under_way(database_url: String) -> (World, i64) {
    let (mut world, request) = about_to_begin(database_url).await;
    let id = world.create(request).await.id;
    world.sim.accepted(200).await;
    (world, id)
}

/// Two senders and the broadcast they will work on. Calls take long enough for many to be under way whenever something
/// happens.
pub async fn about_to_begin(database_url: String) -> (World, CreateBroadcastRequest) {
    about_to_begin_with(database_url, |_| ()).await
}

pub async fn about_to_begin_with(
    database_url: String,
    configure: fn(&mut sender_svc::Config),
) -> (World, CreateBroadcastRequest) {
    let behaviour = Behaviour { latency_ms: 100, jitter_ms: 50, ..Default::default() };
    let mut world = World::at(database_url, behaviour).await;
    for _ in 0..2 {
        world
            .add_sender(|config| {
                quick(config);
                config.in_flight = 40;
                configure(config);
            })
            .await;
    }
    world.import_good(DEVICES).await;
    (world, to_everyone("under way"))
}

/// Waits until gRPC health and /ready of every service say that it can work, or that it cannot.
pub async fn everybody_says(world: &World, serving: bool) {
    let what = if serving { "everybody is serving" } else { "nobody is serving" };
    until(what, async || {
        for service in world.services() {
            if says(service).await != (serving, serving) {
                return false;
            }
        }
        true
    })
    .await;
}

async fn says(service: &Running) -> (bool, bool) {
    let mut health = HealthClient::new(connect(service.address).await);
    let answer = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    let admin = service.admin;
    let ready = tokio::task::spawn_blocking(move || healthcheck(admin).is_ok()).await.unwrap();
    (answer.status() == ServingStatus::Serving, ready)
}

/// A request that is refused while the database is away, and made again later.
fn to_one() -> CreateBroadcastRequest {
    to_user("asked again", "good-0")
}

pub fn to_user(key: &str, user: &str) -> CreateBroadcastRequest {
    to(key, audience::Kind::Users(UserAudience { user_ids: vec![user.into()] }))
}

/// The intake says that the database is away, and when to ask again.
pub async fn intake_asks_for_patience(world: &mut World) {
    check_patience(&world.broadcasts.create_broadcast(to_one()).await.unwrap_err());
}

/// Checks a refusal for the time being.
pub fn check_patience(refused: &Status) {
    let details = refused.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    assert_eq!((refused.code(), reason), (Code::Unavailable, Some("DATABASE_UNAVAILABLE")), "{refused:?}");
    assert!(details.retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{refused:?}");
}

/// Every delivery of the broadcast was called once and is recorded so; what was refused is accepted, once.
pub async fn ends_whole(mut world: World, id: i64) {
    everybody_says(&world, true).await;
    let status = world.finish(id).await;
    let (counts, devices) = (status.counts.unwrap(), i64::try_from(DEVICES).unwrap());
    assert_eq!(
        (status.state(), counts.total, counts.sent, counts.dead),
        (BroadcastState::Completed, devices, devices, 0)
    );
    let letters = ListDeadLettersRequest { broadcast_id: id, ..Default::default() };
    let letters = world.deliveries().await.list_dead_letters(letters).await.unwrap().into_inner();
    assert_eq!(letters.dead_letters, []);

    let again = world.create(to_one()).await;
    assert_eq!(world.create(to_one()).await.id, again.id);
    assert_eq!(world.finish(again.id).await.counts.unwrap().sent, 1);

    let stats = world.sim.stats().await;
    let calls = DEVICES as u64 + 1;
    assert_eq!((stats.accepted, stats.duplicates, stats.calls), (calls, 0, calls));
    world.stop().await;
}
