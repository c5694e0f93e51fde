//! The admin port: probes and metrics over plain HTTP, apart from the port that clients use.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use futures::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::health::Health;

/// How long a request that is being answered may hold up the end of [`serve`]; idle connections close at once.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// How often the recorder folds histogram samples together; without it they would grow until the next scrape.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How long [`healthcheck`] waits to connect, and again for each read and write.
const HEALTHCHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// The most [`healthcheck`] reads of an answer, in bytes.
const HEALTHCHECK_MAX_BYTES: u64 = 16 * 1024;
/// The media type of the Prometheus text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What `/metrics` shows.
pub struct Metrics {
    recorder: PrometheusHandle,
    scraped: Option<Scraped>,
}

/// Asked at each scrape, beside what the process counts: text in the Prometheus format.
pub type Scraped = Box<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

impl From<PrometheusHandle> for Metrics {
    fn from(recorder: PrometheusHandle) -> Self {
        Self { recorder, scraped: None }
    }
}

impl Metrics {
    /// With what is asked at each scrape.
    pub fn new(recorder: PrometheusHandle, scraped: Option<Scraped>) -> Self {
        Self { recorder, scraped }
    }

    async fn render(&self) -> String {
        let mut text = self.recorder.render();
        if let Some(scraped) = &self.scraped {
            text.push_str(&scraped().await);
        }
        text
    }
}

/// Serves the admin port until `shutdown` is cancelled, then for at most one second more.
///
/// * `GET /live` – 200 while the process runs: restart it when this fails
/// * `GET /ready` – 200, or 503 with one reason per line: send it no work meanwhile
/// * `GET /metrics` – the Prometheus text format
///
/// Cancel `shutdown` last, so that `/ready` says "draining" while the rest drains.
///
/// # Errors
///
/// When accepting connections fails for good.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: impl Into<Metrics>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let metrics = metrics.into();
    let recorder = metrics.recorder.clone();
    let server = axum::serve(listener, router(health, metrics))
        .with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        result = async { server.await } => result,
        () = deadline => Ok(()),
        () = keep_up(&recorder) => Ok(()),
    }
}

fn router(health: Health, metrics: Metrics) -> Router {
    let ready = move || async move {
        match health.reasons() {
            reasons if reasons.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
            reasons => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", reasons.join("\n"))),
        }
    };
    let metrics = Arc::new(metrics);
    let metrics = move || async move {
        ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], metrics.render().await).into_response()
    };
    Router::new()
        .route("/live", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
}

/// Runs the recorder's upkeep for ever.
async fn keep_up(metrics: &PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        metrics.run_upkeep();
    }
}

/// Asks the admin port at `addr` whether it is ready: the `healthcheck` subcommand of an image without curl. An
/// unspecified address (`0.0.0.0`, `::`), as a service is told to listen on, is asked over loopback. Blocks for a few
/// seconds at most.
///
/// # Errors
///
/// When nobody answers there in time, or the answer is anything but 200; then with the reasons it gave.
pub fn healthcheck(addr: SocketAddr) -> anyhow::Result<()> {
    let addr = reachable(addr);
    let answer = get_ready(addr).with_context(|| format!("http://{addr}/ready does not answer"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => anyhow::bail!("not ready: {} ({status})", body.trim().replace('\n', ", ")),
    }
}

/// Where a listener on `addr` can be reached from the same host.
fn reachable(mut addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    addr
}

fn get_ready(addr: SocketAddr) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&addr, HEALTHCHECK_TIMEOUT)?;
    connection.set_read_timeout(Some(HEALTHCHECK_TIMEOUT))?;
    connection.set_write_timeout(Some(HEALTHCHECK_TIMEOUT))?;
    // HTTP/1.0: the answer ends where the connection does, so there is no framing to parse.
    connection.write_all(format!("GET /ready HTTP/1.0\r\nhost: {addr}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    connection.take(HEALTHCHECK_MAX_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
