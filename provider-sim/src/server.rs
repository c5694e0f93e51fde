//! Accepting connections and speaking HTTP on them.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::answer::Answer;
use crate::behaviour::MAX_STREAMS;
use crate::control::control;
use crate::protocol::Protocol;
use crate::push::push;
use crate::sim::{OpenConnection, Sim};
use crate::tls::Identity;

/// Streams a caller may give up before they were looked at. Beyond it the connection is taken for an attack and ends;
/// a sender whose time-out strikes resets all it has at once, so all must fit.
const MAX_PENDING_RESETS: usize = MAX_STREAMS as usize;

/// After a failed accept (no file descriptor left, mostly): without it the loop would spin until one is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves pushes and control on `listener` until `shutdown`, then closes every connection, answered or not, and
/// returns. `config.listen` is for whoever binds the listener. Fails only if the behaviour is impossible.
pub async fn run(config: Config, listener: TcpListener, shutdown: CancellationToken) -> anyhow::Result<()> {
    config.behaviour.check()?;
    let sim = Arc::new(Sim::new(config.behaviour, config.webhook_secret)?);
    let mut connections = JoinSet::new();
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "the push provider simulator listens");
    }
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                // Counted here and not in its task, so that no two take the last place. Without a place it is dropped, and
                // so closed, before anything is read: whether it would carry pushes or control, nobody knows.
                Ok((stream, _)) => {
                    if let Some(open) = OpenConnection::new(Arc::clone(&sim)) {
                        connections.spawn(serve(stream, Arc::clone(&sim), open));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task failed");
                }
            }
        }
    }
    // A connection's end also ends the tasks of its HTTP/2 streams, which are not in this set.
    connections.shutdown().await;
    Ok(())
}

fn http(max_streams: u32) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http2().max_concurrent_streams(max_streams).max_pending_accept_reset_streams(MAX_PENDING_RESETS);
    http
}

async fn serve(stream: TcpStream, sim: Arc<Sim>, _open: OpenConnection) {
    // Answers are small and alone in their packet; waiting to fill one would add the peer's delayed-ack time.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    match Identity::is_wanted(&stream).await {
        Ok(false) => speak(stream, sim).await,
        // Whoever does not believe our certificate goes away in the middle.
        Ok(true) => {
            let http1 = sim.lock().behaviour.http1;
            match sim.identity.shake_hands(stream, http1).await {
                Ok(stream) => speak(stream, sim).await,
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            }
        }
        Err(error) => tracing::debug!(%error, "a connection ended before its first byte"),
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, sim: Arc<Sim>) {
    let http = http(sim.lock().behaviour.max_streams);
    let farewell = Arc::new(Farewell::default());
    let service = service_fn(|request| {
        let (sim, farewell) = (Arc::clone(&sim), Arc::clone(&farewell));
        async move { Ok::<_, Infallible>(route(&sim, &farewell, request).await) }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = farewell.due.notified() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Callers that die in the middle are what this is for; nothing to report.
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}

/// When a connection is told to go away.
#[derive(Debug, Default)]
struct Farewell {
    pushes: AtomicU32,
    due: Notify,
}

impl Farewell {
    fn count_push(&self, goaway_after: u32) {
        let pushes = self.pushes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if goaway_after > 0 && pushes >= goaway_after {
            self.due.notify_one();
        }
    }
}

async fn route(sim: &Arc<Sim>, farewell: &Farewell, request: Request<Incoming>) -> Answer {
    if let Some(protocol) = Protocol::of(request.method(), request.uri().path()) {
        farewell.count_push(sim.lock().behaviour.goaway_after);
        push(sim, protocol, request).await
    } else {
        // Boxed, so that the rare calls do not enlarge the task of every push.
        Box::pin(control(sim, request)).await
    }
}
