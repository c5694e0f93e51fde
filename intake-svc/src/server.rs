//! One intake from its listeners to its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_live::Bus;
use bongsu_ops::api::CallsLayer;
use bongsu_ops::health::Health;
use bongsu_ops::trace::Tracer;
use bongsu_ops::{admin, grpc, health, telemetry};
use bongsu_proto::FILE_DESCRIPTOR_SET;
use bongsu_proto::v1::broadcast_service_server::{self, BroadcastServiceServer};
use bongsu_proto::v1::device_service_server::{self, DeviceServiceServer};
use bongsu_store::{CLIENT_ID, Store};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::broadcasts::Broadcasts;
use crate::config::Config;
use crate::devices::Devices;
use crate::providers::Providers;
use crate::{access, fan_out, metrics, retention};

/// How often the database is asked whether it answers, and how long it may take.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of one stream, and of one connection, that may be on their way to us: an import needs more than HTTP/2's 64 KiB
/// where the client is far away.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Where an intake is reached.
#[derive(Debug)]
pub struct Listeners {
    /// Clients' port.
    pub grpc: TcpListener,
    /// Probes and metrics.
    pub admin: TcpListener,
}

/// Serves until `shutdown`, then lets calls in flight end within the grace that `config` gives, and background work the
/// step it is at.
///
/// # Errors
///
/// When the configuration is wrong, Postgres does not answer within the patience at the start, or has another schema.
pub async fn run(config: Config, listeners: Listeners, shutdown: CancellationToken) -> anyhow::Result<()> {
    let url = config.validate()?;
    let recorder = telemetry::install_metrics()?;
    metrics::describe();
    let store = Store::new(url.expose(), config.database_connections, "bongsu-intake")
        .context("--database-url (BONGSU_DATABASE_URL)")?;
    let health = Health::new(&[broadcast_service_server::SERVICE_NAME, device_service_server::SERVICE_NAME]);
    let admin_address = listeners.admin.local_addr()?;

    // Probes are answered while we wait for the database, and until the last call has ended.
    let admin_shutdown = CancellationToken::new();
    let _admin_ends_with_us = admin_shutdown.clone().drop_guard();
    let admin = tokio::spawn(admin::serve(listeners.admin, health.clone(), recorder, admin_shutdown.clone()));
    tracing::info!(%admin_address, "admin port listens");

    tokio::select! {
        prepared = store.prepare(config.database_patience(), config.migrate) => prepared?,
        () = shutdown.cancelled() => return Ok(()),
    }
    if let Err(error) = store.open_short_lists().await {
        tracing::warn!("the first callers will wait for a connection: {error}");
    }
    let watched = store.clone();
    let ping = move || {
        let store = watched.clone();
        async move { store.ping().await.is_ok() }
    };
    let watch =
        tokio::spawn(health::watch(health.clone(), PING_INTERVAL, PING_TIMEOUT, ping, shutdown.clone()));

    let tracer = Tracer::start(&config.telemetry.trace, "bongsu-intake")?;
    let wake = Arc::new(Notify::new());
    // A failed server must end the background work too.
    let background_shutdown = shutdown.child_token();
    let _background_ends_with_us = background_shutdown.clone().drop_guard();
    // It tells what the last call and the last page made, too.
    let bus_shutdown = CancellationToken::new();
    let _bus_ends_with_us = bus_shutdown.clone().drop_guard();
    let bus = Bus::start(&config.live, store.clone(), bus_shutdown);
    let background = tokio::spawn(fan_out::run(
        store.clone(),
        bus.clone(),
        Arc::clone(&wake),
        config.fan_out_workers,
        tracer.clone(),
        background_shutdown.clone(),
    ));
    let retention =
        tokio::spawn(retention::run(store.clone(), config.retention(), background_shutdown.clone()));
    let broadcasts = Broadcasts {
        providers: Arc::new(Providers::new(store.clone())),
        store: store.clone(),
        bus,
        fan_out: wake,
        tracer: tracer.clone(),
    };
    serve(&config, broadcasts, &health, listeners.grpc, &shutdown).await?;
    background_shutdown.cancel();
    background.await.context("background work")?;
    retention.await.context("retention")?;
    watch.await.context("health watch")?;
    tracer.finish().await;
    store.close().await;
    admin_shutdown.cancel();
    admin.await.context("admin port")?.context("admin port")?;
    tracing::info!("stopped");
    Ok(())
}

/// Serves gRPC until `shutdown` and the end of the calls in flight.
async fn serve(
    config: &Config,
    broadcasts: Broadcasts,
    health: &Health,
    listener: TcpListener,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let max_message_bytes = config.max_message_bytes as usize;
    let devices = Devices {
        store: broadcasts.store.clone(),
        providers: Arc::clone(&broadcasts.providers),
        shutdown: shutdown.clone(),
    };
    let broadcasts = BroadcastServiceServer::new(broadcasts).max_decoding_message_size(max_message_bytes);
    let devices = DeviceServiceServer::new(devices).max_decoding_message_size(max_message_bytes);
    let (reflection_v1, reflection_v1alpha) = grpc::reflection(
        &[FILE_DESCRIPTOR_SET],
        &[broadcast_service_server::SERVICE_NAME, device_service_server::SERVICE_NAME],
    )?;
    let address = listener.local_addr()?;
    let access = config.access.layer(address, CLIENT_ID, access::METHODS)?;
    let tls = config.access.tls()?;
    let router = grpc::server()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .layer(CallsLayer::new(
            config.max_calls as usize,
            shutdown.clone(),
            "intake",
            metrics::METER,
            &["ImportDevices"],
        ))
        .layer(access)
        .add_service(broadcasts)
        .add_service(devices)
        .add_service(health.service())
        .add_service(reflection_v1)
        .add_service(reflection_v1alpha);
    tracing::info!(%address, "intake listens");
    config.access.announce(address);
    grpc::serve(router, listener, tls, shutdown.clone(), config.drain_grace()).await.context("gRPC server")
}
