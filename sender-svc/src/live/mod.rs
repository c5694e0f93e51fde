//! The live channel: users' own apps, connected to this process, get what is new at once and say that they have it.
//!
//! [`listener`] serves HTTP, [`auth`] says who calls, [`http`] and [`service`] what they may ask for, [`hub`] keeps their streams,
//! [`acks`] records what they acknowledge, [`inbox`] is what they were notified of. [`page`] is for trying it.

mod acks;
pub mod auth;
mod config;
mod http;
mod hub;
pub mod inbox;
mod listener;
mod metrics;
pub mod notification;
pub mod page;
mod problem;
mod render;
mod request;
mod service;
mod settings;
mod sse;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bongsu_live::{Bus, Presence};
use bongsu_ops::grpc::Tls;
use bongsu_store::{SenderId, Store};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::{ENVIRONMENT, LiveConfig};
pub use metrics::METRICS;
pub use settings::Settings;

use self::acks::Acks;
use self::hub::Hub;
use self::listener::Bounds;

/// How long streams may take to end once this process drains: each is told at once.
const STREAM_GRACE: Duration = Duration::from_secs(2);

/// What the live channel works with.
pub struct Live {
    pub store: Store,
    pub presence: Presence,
    pub bus: Bus,
    pub sender: SenderId,
    pub settings: Settings,
    pub tls: Option<Arc<Tls>>,
}

impl Live {
    /// Serves until `shutdown`, then sends everybody elsewhere. `protect` lets only known users through.
    pub async fn serve(
        self,
        listener: TcpListener,
        protect: impl FnOnce(Router) -> Router,
        shutdown: CancellationToken,
    ) {
        let Self { store, presence, bus, sender, settings, tls } = self;
        let hub = Hub::start(store.clone(), presence, &bus, sender, settings);
        let routes = http::router(hub.clone(), Acks::new(store.clone())).merge(inbox::router(store));
        let router = protect(routes).fallback(http::nothing);
        let bounds = Bounds {
            connections: settings.connections.saturating_add(settings.spare_connections),
            unacknowledged: settings.heartbeat * 2,
            grace: STREAM_GRACE,
        };
        let served = listener::serve(router, listener, tls, bounds, shutdown.clone());
        let drained = async {
            shutdown.cancelled().await;
            hub.drain();
        };
        tokio::join!(served, drained);
        hub.finish().await;
    }
}
