//! Serving until told to stop, and stopping in bounded time.
//!
//! tonic's graceful shutdown waits for open streams for ever, and dropping its future leaves their connections
//! running in tasks of their own. So every connection is wrapped in one that can be cut: then its streams end, and
//! tonic's own wait with them.
//!
//! TLS is ours too: tonic's takes a certificate once, and ours change without a restart.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Body as HttpBody, Bytes, StdError};
use tonic::service::Routes;
use tonic::transport::server::{Connected, Router, TcpIncoming};
use tower::{Layer, Service};

use super::tls::{self, Tls};

/// How long a TCP connection is silent before the kernel checks on its peer; finds the dead ones among those whose
/// HTTP/2 handshake never came.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// The wait after a failed accept (out of file descriptors, say), where trying at once would only burn a core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long a client may take for its TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Handshakes under way at a time; who comes then waits to be accepted.
const MAX_HANDSHAKES: usize = 1_024;
/// How long connections that were cut may take to notice.
const CUT_WAIT: Duration = Duration::from_secs(1);

/// Serves `router` on `listener` until `shutdown` is cancelled; then accepts no more, tells clients to go away, waits
/// up to `grace` for the calls in flight, and cuts the connections of those that are still open. Dropping the future
/// cuts them at once. With `tls` each connection begins with a handshake, by the certificate of that moment.
///
/// # Errors
///
/// Those of tonic's own serving.
pub async fn serve<L, ResBody>(
    router: Router<L>,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), tonic::transport::Error>
where
    L: Layer<Routes>,
    L::Service: Service<Request<Body>, Response = Response<ResBody>> + Clone + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send,
    <L::Service as Service<Request<Body>>>::Error: Into<StdError> + Send,
    ResBody: HttpBody<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<StdError>,
{
    let cut = CancellationToken::new();
    let _cut_when_dropped = cut.clone().drop_guard();
    let accepting = cut.clone();
    let incoming = TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        .with_keepalive(Some(TCP_KEEPALIVE))
        .then(accepted)
        // Side by side, so that nobody waits for another's handshake.
        .map(move |tcp| begin(tcp, tls.clone(), accepting.clone()))
        .buffer_unordered(MAX_HANDSHAKES)
        .filter_map(std::future::ready);

    let mut serving = pin!(router.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned()));
    let out_of_patience = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        result = &mut serving => return result,
        () = out_of_patience => {}
    }
    tracing::warn!(grace_seconds = grace.as_secs_f64(), "calls are still open: closing their connections");
    cut.cancel();
    tokio::time::timeout(CUT_WAIT, serving).await.unwrap_or_else(|_| {
        tracing::warn!("calls go on although their connections were closed: leaving them behind");
        Ok(())
    })
}

/// A failed accept is logged and waited out here, since tonic would try again at once.
async fn accepted(tcp: io::Result<TcpStream>) -> io::Result<TcpStream> {
    if let Err(error) = &tcp {
        tracing::warn!(%error, "a connection could not be accepted");
        tokio::time::sleep(ACCEPT_RETRY).await;
    }
    tcp
}

/// Makes what is served of an accepted connection. None where the handshake failed: that concerns its client alone.
async fn begin(
    tcp: io::Result<TcpStream>,
    tls: Option<Arc<Tls>>,
    cut: CancellationToken,
) -> Option<io::Result<CuttableConnection>> {
    let tcp = match tcp {
        Ok(tcp) => tcp,
        Err(error) => return Some(Err(error)),
    };
    let address = tcp.peer_addr().ok();
    let (stream, names) = match tls {
        None => (Stream::Plain(tcp), Arc::default()),
        Some(tls) => {
            let shaken = TlsAcceptor::from(Arc::clone(&*tls.get())).accept(tcp);
            let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    tracing::debug!(?address, %error, "a TLS handshake failed");
                    return None;
                }
                Err(_) => {
                    tracing::debug!(?address, "a TLS handshake took too long");
                    return None;
                }
            };
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let names = certificate.map(tls::names).unwrap_or_default();
            (Stream::Tls(Box::new(stream)), names.into())
        }
    };
    let peer = Peer { address, names };
    Some(Ok(CuttableConnection { stream, peer, cut: Box::pin(cut.cancelled_owned()) }))
}

/// Who is at the other end; in the extensions of each request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it calls from.
    pub address: Option<SocketAddr>,
    /// The names in the certificate that it showed, which was verified; empty where it showed none.
    pub names: Arc<[String]>,
}

enum Stream {
    Plain(TcpStream),
    // Large, beside the other.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that fails once it is cut.
struct CuttableConnection {
    stream: Stream,
    peer: Peer,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Calls the same of either kind of stream.
macro_rules! either {
    ($connection:ident, $stream:ident => $call:expr) => {
        match &mut $connection.stream {
            Stream::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Stream::Tls($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for CuttableConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // HTTP/2 always has a read waiting, so this is the one place that has to notice; looking only when there is
        // nothing to read keeps the token's lock out of the busy path.
        match either!(self, stream => stream.poll_read(cx, buf)) {
            Poll::Pending => {
                self.cut.as_mut().poll(cx).map(|()| Err(io::Error::from(io::ErrorKind::ConnectionAborted)))
            }
            ready => ready,
        }
    }
}

impl AsyncWrite for CuttableConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

impl Connected for CuttableConnection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}
