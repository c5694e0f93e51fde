//! Accepting connections and speaking HTTP on them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::answer::Answer;
use crate::control::control;
use crate::push::push;
use crate::sim::{OpenConnection, Sim};

/// Calls one HTTP/2 connection carries at a time. What a caller has in flight beyond that needs more connections.
const MAX_STREAMS_PER_CONNECTION: u32 = 250;

/// Streams a caller may give up before they were looked at. Beyond it the connection is taken for an attack and ends;
/// a sender whose time-out strikes resets all it has at once, so all must fit.
const MAX_PENDING_RESETS: usize = MAX_STREAMS_PER_CONNECTION as usize;

/// Further connections wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 20_000;

/// After a failed accept (no file descriptor left, mostly): without it the loop would spin until one is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves pushes and control on `listener` until `shutdown`, then closes every connection, answered or not, and
/// returns. `config.listen` is for whoever binds the listener. Fails only if the behaviour is impossible.
pub async fn run(config: Config, listener: TcpListener, shutdown: CancellationToken) -> anyhow::Result<()> {
    config.behaviour.check()?;
    let sim = Arc::new(Sim::new(config.behaviour));
    let http = http();
    let mut connections = JoinSet::new();
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "the push provider simulator listens");
    }
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(http.clone(), stream, Arc::clone(&sim)));
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

fn http() -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http2()
        .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS);
    http
}

async fn serve(http: auto::Builder<TokioExecutor>, stream: TcpStream, sim: Arc<Sim>) {
    let _open = OpenConnection::new(Arc::clone(&sim));
    // Answers are small and alone in their packet; waiting to fill one would add the peer's delayed-ack time.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection");
    }
    let service = service_fn(move |request| {
        let sim = Arc::clone(&sim);
        async move { Ok::<_, Infallible>(route(&sim, request).await) }
    });
    // Callers that die in the middle are what this is for; nothing to report.
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection ended early");
    }
}

async fn route(sim: &Arc<Sim>, request: Request<Incoming>) -> Answer {
    if request.method() == Method::POST && request.uri().path() == "/push" {
        push(sim, request).await
    } else {
        // Boxed, so that the rare calls do not enlarge the task of every push.
        Box::pin(control(sim, request)).await
    }
}
