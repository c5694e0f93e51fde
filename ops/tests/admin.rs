//! The admin port tells what the health state says, and ends when told to.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in their helpers

use std::net::SocketAddr;
use std::time::Duration;

use bongsu_ops::health::Health;
use bongsu_ops::{admin, telemetry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_database_and_the_drain() {
    let (addr, health, shutdown, server) = start().await;
    assert_eq!(get(addr, "/ready").await, (503, "the database has not answered yet\n".to_owned()));
    health.set_database(true);
    assert_eq!(get(addr, "/ready").await, (200, "ok\n".to_owned()));
    health.set_database(false);
    health.set_draining();
    let both = "the database does not answer\ndraining\n".to_owned();
    assert_eq!(get(addr, "/ready").await, (503, both));
    assert_eq!(get(addr, "/live").await, (200, "ok\n".to_owned()), "alive all the while");
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_in_the_prometheus_format() {
    let (addr, _health, _shutdown, _server) = start().await;
    metrics::counter!("ops_admin_test_total").increment(3);
    let (status, body) = get(addr, "/metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("ops_admin_test_total 3\n"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn healthcheck_reports_the_reasons_and_reaches_an_unspecified_address() {
    let (addr, health, shutdown, server) = start().await;
    let unspecified: SocketAddr = (std::net::Ipv4Addr::UNSPECIFIED, addr.port()).into();
    let check = move || tokio::task::spawn_blocking(move || admin::healthcheck(unspecified));
    let error = check().await.unwrap().expect_err("not ready").to_string();
    assert!(error.starts_with("not ready: the database has not answered yet (HTTP/1."), "{error}");
    health.set_database(true);
    check().await.unwrap().expect("ready");
    shutdown.cancel();
    server.await.unwrap().unwrap();
    let error = check().await.unwrap().expect_err("nobody there").to_string();
    assert!(error.ends_with("/ready does not answer"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_idle_connection_nor_half_a_request_holds_up_the_end() {
    let (addr, _health, shutdown, server) = start().await;
    let mut idle = TcpStream::connect(addr).await.unwrap();
    idle.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 15];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let mut half = TcpStream::connect(addr).await.unwrap();
    half.write_all(b"GET /live HT").await.unwrap();
    shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), server).await;
    ended.expect("ends although connections are open").unwrap().unwrap();
}

async fn start() -> (SocketAddr, Health, CancellationToken, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (health, shutdown) = (Health::new(&[]), CancellationToken::new());
    let metrics = telemetry::install_metrics().unwrap();
    let server = tokio::spawn(admin::serve(listener, health.clone(), metrics, shutdown.clone()));
    (addr, health, shutdown, server)
}

async fn get(addr: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nhost: {addr}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
