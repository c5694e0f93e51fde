//! Serving until told to stop, and stopping in bounded time.
//!
//! tonic's graceful shutdown waits for open streams for ever, and dropping its future leaves their connections
//! running in tasks of their own. So every connection is wrapped in one that can be cut: then its streams end, and
//! tonic's own wait with them.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Body as HttpBody, Bytes, StdError};
use tonic::service::Routes;
use tonic::transport::server::{Connected, Router, TcpConnectInfo, TcpIncoming};
use tower::{Layer, Service};

/// How long a TCP connection is silent before the kernel checks on its peer; finds the dead ones among those whose
/// HTTP/2 handshake never came.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// The wait after a failed accept (out of file descriptors, say), where trying at once would only burn a core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long connections that were cut may take to notice.
const CUT_WAIT: Duration = Duration::from_secs(1);

/// Serves `router` on `listener` until `shutdown` is cancelled; then accepts no more, tells clients to go away, waits
/// up to `grace` for the calls in flight, and cuts the connections of those that are still open. Dropping the future
/// cuts them at once.
///
/// # Errors
///
/// Those of tonic's own serving.
pub async fn serve<L, ResBody>(
    router: Router<L>,
    listener: TcpListener,
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
        .then(move |accepted| prepare(accepted, accepting.clone()));

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

/// Wraps an accepted connection. A failed accept is logged and waited out here, since tonic would try again at once.
async fn prepare(accepted: io::Result<TcpStream>, cut: CancellationToken) -> io::Result<CuttableConnection> {
    match accepted {
        Ok(tcp) => Ok(CuttableConnection { tcp, cut: Box::pin(cut.cancelled_owned()) }),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_RETRY).await;
            Err(error)
        }
    }
}

/// A TCP connection that fails once it is cut.
struct CuttableConnection {
    tcp: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AsyncRead for CuttableConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // HTTP/2 always has a read waiting, so this is the one place that has to notice; looking only when there is
        // nothing to read keeps the token's lock out of the busy path.
        match Pin::new(&mut self.tcp).poll_read(cx, buf) {
            Poll::Pending => {
                self.cut.as_mut().poll(cx).map(|()| Err(io::Error::from(io::ErrorKind::ConnectionAborted)))
            }
            ready => ready,
        }
    }
}

impl AsyncWrite for CuttableConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

impl Connected for CuttableConnection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.tcp.connect_info()
    }
}
