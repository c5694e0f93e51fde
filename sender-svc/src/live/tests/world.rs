//! A live channel of its own for each test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use bongsu_live::{Bus, LiveArgs, Presence};
use bongsu_ops::grpc::TlsFiles;
use bongsu_store::{
    Acceptance, Audience, BroadcastId, CLIENT_ID, DEFAULT_TTL, Expiry, Guarantee, Message, NewBroadcast,
    Priority, Routing, SenderId, Store, testing,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::auth::User;
use super::super::settings::Settings;
use super::super::{Live, problem};
use super::client::Client;
use crate::rpc::status;

/// Far more than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub store: Store,
    pub bus: Bus,
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// As in production, but for heartbeats and looks that tests wait for.
pub fn settings() -> Settings {
    Settings {
        heartbeat: Duration::from_secs(15),
        connections: 100,
        spare_connections: 100,
        connections_per_user: 10,
        look_every: Duration::from_secs(10),
        stalled_after: Duration::from_secs(10),
    }
}

impl World {
    pub async fn new(settings: Settings) -> Self {
        Self::at(&testing::fresh_database().await, settings).await
    }

    pub async fn at(database_url: &str, settings: Settings) -> Self {
        Self::start(database_url, None, settings).await
    }

    pub async fn over_tls(files: TlsFiles, settings: Settings) -> Self {
        Self::start(&testing::fresh_database().await, Some(files), settings).await
    }

    async fn start(database_url: &str, tls: Option<TlsFiles>, settings: Settings) -> Self {
        bongsu_ops::telemetry::install_crypto();
        let store = Store::new(database_url, 8, "test").unwrap();
        let shutdown = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bus = Bus::start(&LiveArgs::default(), store.clone(), shutdown.clone());
        let live = Live {
            store: store.clone(),
            presence: Presence::new(&LiveArgs::default(), store.clone()),
            bus: bus.clone(),
            sender: SenderId::random(),
            settings,
            tls: tls.map(|files| files.load_for_browsers().unwrap()),
        };
        let task = Some(tokio::spawn(live.serve(listener, by_name, shutdown.clone())));
        Self { store, bus, address, shutdown, task }
    }

    /// A broadcast that has no events yet.
    pub async fn broadcast(&self, title: &str) -> BroadcastId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let new = NewBroadcast {
            client_id: CLIENT_ID.into(),
            idempotency_key: NEXT.fetch_add(1, Ordering::Relaxed).to_string(),
            message: Message { title: title.into(), body: "b".repeat(100), data: Default::default() },
            audience: Audience::Everyone,
            priority: Priority::Normal,
            guarantee: Guarantee::AtLeastOnce,
            expiry: Expiry::After(DEFAULT_TTL),
            schedule: None,
            max_rate_per_second: None,
            routing: Routing::Live,
            ack_timeout: None,
            request_hash: [0; 32],
            trace_context: None,
        };
        match self.store.accept(&new).await.unwrap() {
            Acceptance::New(broadcast) => broadcast.id,
            other => panic!("not stored: {other:?}"),
        }
    }

    /// Puts an event of a new broadcast into the inboxes of these users, and does not tell of it.
    pub async fn post_silently(&self, title: &str, users: &[&str]) -> BroadcastId {
        let id = self.broadcast(title).await;
        let pairs: Vec<_> = users.iter().map(|user| (id, *user)).collect();
        self.store.test_events(&pairs).await.unwrap();
        id
    }

    /// Puts an event of a new broadcast into the inboxes of these users.
    pub async fn post(&self, title: &str, users: &[&str]) -> BroadcastId {
        let id = self.broadcast(title).await;
        let pairs: Vec<_> = users.iter().map(|user| (id, *user)).collect();
        self.bus.tell(self.store.test_events(&pairs).await.unwrap());
        id
    }

    /// A stream of the user that has begun.
    pub async fn connect(&self, user: &str, last_event_id: Option<&str>) -> Client {
        Client::connect(self.address, user, last_event_id).await
    }

    /// Ends it, and waits until it has.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        if let Some(task) = self.task.take() {
            tokio::time::timeout(PATIENCE, task).await.expect("it stops").unwrap();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// `Bearer NAME` is the user NAME, `Bearer NAME;MS` one whose token ends in so many milliseconds.
fn by_name(router: Router) -> Router {
    router.layer(from_fn(async |mut request: Request, next: Next| -> Response {
        let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(name) = token.and_then(|token| token.strip_prefix("Bearer ")) else {
            return problem::answer(&status::token_missing());
        };
        let (id, left) = name.split_once(';').unwrap_or((name, ""));
        let left = left.parse().ok().map(Duration::from_millis);
        let user = User { id: id.to_owned(), expires_at: left.map(|left| SystemTime::now() + left) };
        request.extensions_mut().insert(user);
        next.run(request).await
    }))
}
