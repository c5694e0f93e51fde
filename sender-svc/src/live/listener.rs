//! The live listener: HTTP/1.1 and HTTP/2 on one port, with many connections that are silent most of the time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bongsu_ops::grpc::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, Tls};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

/// Beside streams, connections for short calls.
pub const SPARE_CONNECTIONS: usize = 1_000;
/// The wait after a failed accept (out of file descriptors, say), where trying at once would only burn a core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long a client may take for its TLS handshake, and for the head of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a TCP connection is silent before the kernel checks on its peer.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// What the kernel keeps of a connection for a client that does not read, in bytes. Small: what a client did not take is in
/// the database.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// The same for hyper; the head of a request has to fit.
const HTTP1_BUFFER_BYTES: usize = 16 * 1024;
const HTTP2_BUFFER_BYTES: usize = 16 * 1024;
/// Calls and streams of one HTTP/2 connection at a time.
const HTTP2_STREAMS: u32 = 100;
/// How long connections that were cut may take to notice.
const CUT_WAIT: Duration = Duration::from_secs(1);

/// Ends the TCP connection of a request; in the extensions of each.
#[derive(Debug, Clone)]
pub struct Cut(pub CancellationToken);

/// How the listener behaves.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at most.
    pub connections: usize,
    /// A connection ends whose client's kernel has not acknowledged what was sent for so long.
    pub unacknowledged: Duration,
    /// After `shutdown`, streams have so long to end.
    pub grace: Duration,
}

/// Serves `router` until `shutdown`, and then until its connections have ended, or were cut after the grace.
pub async fn serve(
    router: Router,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    bounds: Bounds,
    shutdown: CancellationToken,
) {
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    let _cut_when_dropped = cut.clone().drop_guard();
    let places = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
    let accepting = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((tcp, address)) => {
                    let connection = Connection {
                        tcp,
                        address,
                        router: router.clone(),
                        tls: tls.clone(),
                        cut: cut.child_token(),
                        drain: shutdown.clone(),
                        place,
                    };
                    connection.set_bounds(bounds.unacknowledged);
                    connections.spawn(connection.run());
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    };
    let _ = shutdown.run_until_cancelled(accepting).await;
    drop(listener);
    connections.close();
    if tokio::time::timeout(bounds.grace, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "live connections are still open: closing them");
        cut.cancel();
        if tokio::time::timeout(CUT_WAIT, connections.wait()).await.is_err() {
            tracing::warn!("live connections go on although they were closed: leaving them behind");
        }
    }
}

struct Connection {
    tcp: TcpStream,
    address: SocketAddr,
    router: Router,
    tls: Option<Arc<Tls>>,
    cut: CancellationToken,
    drain: CancellationToken,
    place: OwnedSemaphorePermit,
}

impl Connection {
    /// What the kernel is to do about a client that is gone, or does not read.
    fn set_bounds(&self, unacknowledged: Duration) {
        let set = || -> io::Result<()> {
            let socket = SockRef::from(&self.tcp);
            socket.set_tcp_nodelay(true)?;
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE))?;
            socket.set_tcp_user_timeout(Some(unacknowledged))?;
            socket.set_send_buffer_size(SEND_BUFFER_BYTES)
        };
        if let Err(error) = set() {
            // It has ended already, most likely.
            tracing::debug!(address = %self.address, %error, "a connection's bounds could not be set");
        }
    }

    async fn run(self) {
        let Self { tcp, address, router, tls, cut, drain, place } = self;
        let served = async {
            match tls {
                None => http(tcp, router, cut.clone(), drain).await,
                Some(tls) => {
                    let shaken = TlsAcceptor::from(Arc::clone(&*tls.get())).accept(tcp);
                    match tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await {
                        Ok(Ok(stream)) => http(stream, router, cut.clone(), drain).await,
                        Ok(Err(error)) => tracing::debug!(%address, %error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!(%address, "a TLS handshake took too long"),
                    }
                }
            }
        };
        let _ = cut.run_until_cancelled(served).await;
        drop(place);
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    cut: CancellationToken,
    drain: CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_send_buf_size(HTTP2_BUFFER_BYTES);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Cut(cut.clone()));
        answer(router.clone(), request)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // How it ended is its client's concern.
    let draining = tokio::select! {
        _ = connection.as_mut() => false,
        () = drain.cancelled() => true,
    };
    if draining {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

async fn answer(mut router: Router, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    router.call(request).await
}
