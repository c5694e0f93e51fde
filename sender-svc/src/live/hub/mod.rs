//! The streams of this process: who is connected, and how what is new gets to them.
//!
//! A stream knows the number up to which its client has everything, its cursor. Whatever says that a user has something new,
//! the bus, a look at everybody, a queue that has room again, only makes somebody read what comes after the cursor; so the
//! order of the numbers, and each of them once, follow from the cursor alone. A stream is registered before its backlog is
//! read: what is committed after that read is told of to somebody who listens.

mod connection;
mod join;
mod look;
mod presence;
mod read;
mod registry;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bongsu_live::{Bus, Presence};
use bongsu_store::{SenderId, Store};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

pub use connection::{Caller, End, Item};

use self::connection::Connection;
use self::registry::Registry;
use super::metrics::{self, Ended, Outcome};
use super::settings::Settings;
use crate::rpc::status;

/// When a client that found no place may ask again.
const FULL_RETRY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(5);
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hub {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    presence: Presence,
    sender: SenderId,
    settings: Settings,
    registry: Mutex<Registry>,
    /// Of event ids; known once anybody is joined.
    epoch: AtomicI64,
    /// Somebody is to be joined.
    join: Notify,
    /// Somebody's inbox is to be looked at.
    read: Notify,
    /// Somebody came or went.
    moved: Notify,
    /// Presence is told by one at a time, so that the last one tells the truth.
    telling: tokio::sync::Mutex<()>,
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the stream's place back, once.
    fn leave(&self, connection: &Connection) {
        let Some(moved) = self.registry().leave(connection) else { return };
        let ended = connection.ended().map_or(Ended::Client, Ended::from);
        metrics::disconnect(connection.caller.transport, ended);
        if moved {
            self.moved.notify_one();
        }
    }
}

impl Hub {
    /// Works until [`Hub::finish`].
    pub fn start(store: Store, presence: Presence, bus: &Bus, sender: SenderId, settings: Settings) -> Self {
        let shared = Arc::new(Shared {
            store,
            presence,
            sender,
            settings,
            registry: Mutex::default(),
            epoch: AtomicI64::default(),
            join: Notify::new(),
            read: Notify::new(),
            moved: Notify::new(),
            telling: tokio::sync::Mutex::default(),
        });
        let hub = Self { shared, tasks: TaskTracker::new(), stop: CancellationToken::new() };
        hub.spawn(join::run(Arc::clone(&hub.shared)));
        hub.spawn(read::run(Arc::clone(&hub.shared)));
        hub.spawn(look::run(Arc::clone(&hub.shared)));
        hub.spawn(look::listen(Arc::clone(&hub.shared), bus.listen(hub.stop.clone())));
        hub.spawn(presence::run(Arc::clone(&hub.shared)));
        hub
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Opens a stream. It begins at once; what was missed follows when the database has told it.
    pub fn connect(&self, caller: Caller) -> Result<Stream, Box<Status>> {
        let transport = caller.transport;
        let entered = self.shared.registry().enter(&self.shared.settings, caller);
        metrics::connect(entered.as_ref().err().copied().unwrap_or(Outcome::Opened(transport)));
        let connection = entered.map_err(|outcome| {
            let settings = &self.shared.settings;
            Box::new(match outcome {
                Outcome::UserFull => status::user_connections_exceeded(settings.connections_per_user),
                Outcome::Draining => status::draining(),
                _ => status::connections_exceeded(settings.connections, rand::random_range(FULL_RETRY)),
            })
        })?;
        self.shared.join.notify_one();
        Ok(Stream { shared: Arc::clone(&self.shared), connection })
    }

    pub fn heartbeat(&self) -> Duration {
        self.shared.settings.heartbeat
    }

    /// Sends everybody elsewhere.
    pub fn drain(&self) {
        self.shared.registry().drain();
    }

    /// Ends what works here, and says that nobody is connected any more.
    pub async fn finish(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.shared.registry().moved_all();
        let _ = tokio::time::timeout(FAREWELL, self.shared.withdraw_all()).await;
    }
}

/// A stream, for whoever carries it. It has left when this is dropped.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
}

impl Stream {
    /// What comes next. None after [`Item::End`].
    pub fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Item>> {
        let (item, refill) = self.connection.poll_next(cx);
        if refill && let Some(user) = self.connection.user() {
            self.shared.registry().heard([user], Instant::now());
            self.shared.read.notify_one();
        }
        item
    }

    /// Part of the ids of all events.
    pub fn epoch(&self) -> i64 {
        self.shared.epoch.load(Ordering::Relaxed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.leave(&self.connection);
    }
}
