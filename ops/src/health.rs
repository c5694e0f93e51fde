//! One state – does the database answer, are we draining – behind gRPC health, `/ready` and the logs.
//!
//! The gRPC service is our own few lines over the generated trait of tonic-health rather than its reporter: all
//! services then follow a single value without a moment in which they disagree, and an open `Watch` ends when we
//! drain, so that a balancer's health watch never holds up the shutdown.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as GrpcHealth, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Whether this process can do its work. Clones share one state, which starts as "the database has not answered yet".
#[derive(Clone, Debug)]
pub struct Health {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    services: Vec<&'static str>,
    state: watch::Sender<State>,
}

/// What readiness depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    database: Database,
    draining: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Database {
    /// Not asked yet: the state at start.
    Unknown,
    /// The last check was answered.
    Answers,
    /// The last check failed or took too long.
    Away,
}

impl Health {
    /// A state for the gRPC services of these full names (`bongsu.v1.BroadcastService`, …) and for `""`, the process
    /// as a whole. Nothing is serving until [`Health::set_database`] says that the database answers.
    pub fn new(services: &[&'static str]) -> Health {
        let state = State { database: Database::Unknown, draining: false };
        Health { inner: Arc::new(Inner { services: services.to_vec(), state: watch::Sender::new(state) }) }
    }

    /// Records whether the database answers; a change is logged, a repetition is not.
    pub fn set_database(&self, answers: bool) {
        let database = if answers { Database::Answers } else { Database::Away };
        let changed = self.inner.state.send_if_modified(|state| {
            let changed = state.database != database;
            state.database = database;
            changed
        });
        if changed && answers {
            tracing::info!("the database answers");
        } else if changed {
            tracing::warn!("the database does not answer: not ready until it does");
        }
    }

    /// Records that this process is stopping, for good: it is not ready any more and open health watches end.
    pub fn set_draining(&self) {
        let changed =
            self.inner.state.send_if_modified(|state| !std::mem::replace(&mut state.draining, true));
        if changed {
            tracing::info!("draining: not ready any more");
        }
    }

    /// Whether new work may be sent here.
    pub fn is_ready(&self) -> bool {
        self.inner.state.borrow().is_ready()
    }

    /// Why not ready; empty when ready.
    pub fn reasons(&self) -> Vec<&'static str> {
        let state = *self.inner.state.borrow();
        let database = match state.database {
            Database::Unknown => Some("the database has not answered yet"),
            Database::Away => Some("the database does not answer"),
            Database::Answers => None,
        };
        database.into_iter().chain(state.draining.then_some("draining")).collect()
    }

    /// The standard `grpc.health.v1.Health` service, to add to a server.
    pub fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService { health: self.clone() })
    }
}

impl State {
    fn is_ready(self) -> bool {
        self.database == Database::Answers && !self.draining
    }

    fn response(self) -> HealthCheckResponse {
        let status = if self.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
        HealthCheckResponse { status: status as i32 }
    }
}

/// Keeps `health` true: runs `check` (a ping of the database) at once and then `every` so often; one that has not
/// answered within `timeout` counts as failed. Returns when `shutdown` is cancelled, after marking the process as
/// draining.
pub async fn watch<F, Fut>(
    health: Health,
    every: Duration,
    timeout: Duration,
    mut check: F,
    shutdown: CancellationToken,
) where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let forever = async {
        loop {
            let answers = tokio::time::timeout(timeout, check()).await.unwrap_or(false);
            health.set_database(answers);
            tokio::time::sleep(every).await;
        }
    };
    shutdown.run_until_cancelled(forever).await;
    health.set_draining();
}

/// `grpc.health.v1.Health` over a [`Health`].
#[derive(Debug)]
pub struct HealthService {
    health: Health,
}

impl HealthService {
    fn watch_state(&self, service: &str) -> Result<watch::Receiver<State>, Status> {
        if service.is_empty() || self.health.inner.services.contains(&service) {
            Ok(self.health.inner.state.subscribe())
        } else {
            Err(Status::not_found("no such service here; the empty name asks for the whole process"))
        }
    }
}

#[tonic::async_trait]
impl GrpcHealth for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let state = *self.watch_state(&request.get_ref().service)?.borrow();
        Ok(Response::new(state.response()))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut states = self.watch_state(&request.get_ref().service)?;
        states.mark_changed(); // the present status is the first message
        Ok(Response::new(stream::unfold((states, None), next_status).boxed()))
    }
}

/// What a `Watch` still knows: the states to come, and the last one it told of.
type Watching = (watch::Receiver<State>, Option<State>);

/// The next message of a `Watch`: only changes of the status, and none after "draining".
async fn next_status(
    (mut states, told): Watching,
) -> Option<(Result<HealthCheckResponse, Status>, Watching)> {
    if told.is_some_and(|state| state.draining) {
        return None;
    }
    loop {
        states.changed().await.ok()?;
        let state = *states.borrow_and_update();
        if state.draining || told.is_none_or(|told| told.is_ready() != state.is_ready()) {
            return Some((Ok(state.response()), (states, Some(state))));
        }
    }
}
