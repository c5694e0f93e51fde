//! One sender from its listeners to its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use bongsu_live::{Bus, Presence};
use bongsu_ops::admin::Scraped;
use bongsu_ops::api::CallsLayer;
use bongsu_ops::health::Health;
use bongsu_ops::trace::Tracer;
use bongsu_ops::{admin, grpc, health, open_files, telemetry};
use bongsu_proto::FILE_DESCRIPTOR_SET;
use bongsu_proto::v1::delivery_service_server::{self, DeliveryServiceServer};
use bongsu_proto::v1::provider_service_server::{self, ProviderServiceServer};
use bongsu_store::{CLIENT_ID, ProviderId, SenderId, Store};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::providers::Provider;
use crate::config::{Checked, Config};
use crate::engine::{self, line::Line};
use crate::gauges::DatabaseGauges;
use crate::live::auth::{AuthLayer, Authenticator, ticket_router};
use crate::live::page;
use crate::live::{Live, Settings};
use crate::rpc::{Deliveries, Providers, Watchers};
use crate::{access, metrics};

/// How often the database is asked whether it answers, and how long it may take.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long streams may take to end once the sender drains: each is told at once.
const STREAM_GRACE: Duration = Duration::from_secs(2);
/// Open files that a sender needs beside those of calls and of users' streams.
const OTHER_FILES: u64 = 400;

/// What is served.
const SERVICES: [&str; 2] = [delivery_service_server::SERVICE_NAME, provider_service_server::SERVICE_NAME];
/// Calls answered at a time; a status stream counts until it begins.
const MAX_CALLS: usize = 256;

/// Where a sender is reached.
#[derive(Debug)]
pub struct Listeners {
    /// Clients' port.
    pub grpc: TcpListener,
    /// Probes and metrics.
    pub admin: TcpListener,
    /// Users' own apps; none where there is no live channel.
    pub live: Option<TcpListener>,
}

/// Works until `shutdown`, then drains: nothing new is started, what is in flight is finished and recorded, the rest is
/// given back.
///
/// # Errors
///
/// When the configuration is wrong, Postgres does not answer within the patience at the start, or has another schema.
pub async fn run(config: Config, listeners: Listeners, shutdown: CancellationToken) -> anyhow::Result<()> {
    let Checked { database_url, providers, limits } = config.validate()?;
    let recorder = telemetry::install_metrics()?;
    metrics::describe();
    let store = Store::new(database_url.expose(), config.database_connections, "bongsu-sender")
        .context("--database-url (BONGSU_DATABASE_URL)")?;
    // A call may take a connection of its own.
    let calls: u64 = providers.iter().map(|provider| u64::from(provider.common.in_flight)).sum();
    let for_streams = listeners.live.as_ref().map_or(0, |_| Settings::files(&config.channel));
    let files = calls + OTHER_FILES;
    let for_streams = open_files::raise(files + for_streams).saturating_sub(files);
    let health = Health::new(&SERVICES);
    let admin_address = listeners.admin.local_addr()?;

    // Probes are answered while we wait for the database, and until the drain has ended.
    let admin_shutdown = CancellationToken::new();
    let _admin_ends_with_us = admin_shutdown.clone().drop_guard();
    let gauges = config.database_metrics.then(|| DatabaseGauges::new(&store));
    let scraped = gauges.clone().map(|gauges| -> Scraped {
        Box::new(move || {
            let gauges = gauges.clone();
            Box::pin(async move { gauges.render().await })
        })
    });
    let shown = admin::Metrics::new(recorder, scraped);
    let admin = tokio::spawn(admin::serve(listeners.admin, health.clone(), shown, admin_shutdown.clone()));
    tracing::info!(%admin_address, "admin port listens");

    let lines = tokio::select! {
        prepared = prepare(&store, &config, &providers) => prepared?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let watched = store.clone();
    let ping = move || {
        let store = watched.clone();
        async move { store.ping().await.is_ok() }
    };
    let watch =
        tokio::spawn(health::watch(health.clone(), PING_INTERVAL, PING_TIMEOUT, ping, shutdown.clone()));

    // Server and engine end together, whichever fails first.
    let stop = shutdown.child_token();
    let sender = SenderId::random();
    let tracer = Tracer::start(&config.telemetry.trace, "bongsu-sender")?;
    tracing::info!(%sender, providers = lines.len(), "sender starts");
    let presence = Presence::new(&config.live, store.clone());
    let live = listeners.live.map(|listener| (listener, Settings::new(&config.channel, for_streams)));
    let live = start_live(&config, &store, &presence, sender, live, &stop).await;
    let live = live.context("live channel")?;
    let engine = engine::run(store.clone(), presence, sender, limits, lines, tracer.clone(), stop.clone());
    let engine = tokio::spawn({
        let ends_the_server = stop.clone().drop_guard();
        async move {
            let ended = engine.await;
            drop(ends_the_server);
            ended
        }
    });
    let served = serve(&config, &store, &health, listeners.grpc, &stop).await;
    stop.cancel();
    if let Some(live) = live {
        live.await.context("live channel")?;
    }
    engine.await.context("engine")?.context("engine")?;
    watch.abort();
    tracer.finish().await;
    admin_shutdown.cancel();
    admin.await.context("admin port")?.context("admin port")?;
    if let Some(gauges) = gauges {
        gauges.close().await;
    }
    store.close().await;
    tracing::info!("stopped");
    served
}

/// Waits for Postgres, makes sure that its schema is ours, and makes the configured providers known.
async fn prepare(store: &Store, config: &Config, providers: &[Provider]) -> anyhow::Result<Vec<Arc<Line>>> {
    store.prepare(config.database_patience(), config.migrate).await?;
    let mut lines = Vec::new();
    for provider in providers {
        let (name, common) = (&provider.name, &provider.common);
        let id = store.register_provider(name, provider.kind.stored()).await?;
        let id = id.with_context(|| {
            format!("the name {name:?} stands for a provider of another kind: give this one another name")
        })?;
        agree_on_rate(store, id, name, common.rate_per_second).await?;
        lines.push(Arc::new(Line::new(id, name.clone(), provider.adapter()?, common)));
    }
    Ok(lines)
}

/// All senders have the same rate: that of the last one to start.
async fn agree_on_rate(store: &Store, id: ProviderId, name: &str, rate: Option<u32>) -> anyhow::Result<()> {
    let told = |rate: Option<u32>| rate.map_or("none".to_owned(), |rate| rate.to_string());
    if let Some(before) = store.pace_provider(id, rate).await? {
        tracing::info!(
            provider = name,
            per_second = told(rate),
            before = told(before),
            "all senders have a new rate limit for the provider"
        );
    }
    Ok(())
}

/// Serves the live channel, where there is one, until `shutdown`.
async fn start_live(
    config: &Config,
    store: &Store,
    presence: &Presence,
    sender: SenderId,
    live: Option<(TcpListener, Settings)>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some((listener, settings)) = live else { return Ok(None) };
    let authenticator = Authenticator::start(&config.channel, &store.ticket_key().await?)?;
    let live = Live {
        store: store.clone(),
        presence: presence.clone(),
        bus: Bus::start(&config.live, store.clone(), shutdown.clone()),
        sender,
        settings,
        tls: config.access.tls_for_browsers()?,
    };
    tracing::info!(address = %listener.local_addr()?, "live channel listens");
    let page = config.channel.page.then(page::router).unwrap_or_default();
    let protect = |router: Router| {
        let protected = router.merge(ticket_router(Arc::clone(&authenticator)));
        protected.layer(AuthLayer::new(authenticator)).merge(page)
    };
    Ok(Some(tokio::spawn(live.serve(listener, protect, shutdown.clone()))))
}

/// Serves gRPC until `shutdown`.
async fn serve(
    config: &Config,
    store: &Store,
    health: &Health,
    listener: TcpListener,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let watchers = Watchers::new(store.clone(), shutdown.clone());
    let deliveries = DeliveryServiceServer::new(Deliveries { store: store.clone(), watchers });
    let (reflection_v1, reflection_v1alpha) = grpc::reflection(&[FILE_DESCRIPTOR_SET], &SERVICES)?;
    let address = listener.local_addr()?;
    let access = config.access.layer(address, CLIENT_ID, access::METHODS)?;
    let tls = config.access.tls()?;
    let router = grpc::server()
        .layer(CallsLayer::new(MAX_CALLS, shutdown.clone(), "sender", metrics::METER, &[]))
        .layer(access)
        .add_service(deliveries)
        .add_service(ProviderServiceServer::new(Providers { store: store.clone() }))
        .add_service(health.service())
        .add_service(reflection_v1)
        .add_service(reflection_v1alpha);
    tracing::info!(%address, "sender listens");
    config.access.announce(address);
    grpc::serve(router, listener, tls, shutdown.clone(), STREAM_GRACE).await.context("gRPC server")
}
