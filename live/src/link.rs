//! The connection to Redis that calls share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tokio::time::{Instant, timeout};

use crate::LiveArgs;
use crate::backoff::pause;
use crate::error::LiveError;

/// The longest that a caller waits for an answer, with the time for a connection where there is none.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Redis, by one connection that all calls share. It opens when it is needed, and after any failure anew; a server that failed is
/// left alone for a moment, in which calls fail at once: whoever asks must not wait for each answer that does not come. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    client: Client,
    prefix: Arc<str>,
    state: Arc<Mutex<State>>,
    /// Held by whoever connects.
    connecting: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<MultiplexedConnection>,
    /// Which connection it is. An error of one before says nothing of it.
    generation: u64,
    /// In a row.
    failures: u32,
    /// Nobody asks before then; and why.
    left_alone: Option<(Instant, LiveError)>,
}

impl Link {
    /// None where there is no Redis.
    pub(crate) fn new(args: &LiveArgs) -> Option<Self> {
        let client = args.redis.as_ref()?.client();
        let prefix = args.redis_prefix.as_str().into();
        Some(Self { client, prefix, state: Arc::default(), connecting: Arc::default() })
    }

    /// What our keys and channels begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Asks within [`CALL_TIMEOUT`].
    pub(crate) async fn call<T, F>(
        &self,
        ask: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, LiveError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        if let Some((until, error)) = &self.state().left_alone
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        // The one that is to blame where nothing else turns up until the time is over.
        let mut generation = self.state().generation;
        let answer = timeout(CALL_TIMEOUT, async {
            let connection = self.connection(&mut generation).await?;
            Ok(ask(connection).await?)
        });
        match answer.await.unwrap_or_else(|_| Err(timed_out())) {
            Ok(value) => {
                self.works(generation);
                Ok(value)
            }
            Err(error) => {
                self.failed(generation, &error);
                Err(error)
            }
        }
    }

    /// Hears what is said in a channel from now on, on a connection of its own.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<PubSubStream, LiveError> {
        let subscribed = timeout(CALL_TIMEOUT, async {
            let (mut sink, stream) = self.client.get_async_pubsub().await?.split();
            sink.subscribe(channel).await?;
            Ok(stream)
        });
        subscribed.await.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn connection(&self, generation: &mut u64) -> RedisResult<MultiplexedConnection> {
        let _guard = self.connecting.lock().await;
        {
            let state = self.state();
            *generation = state.generation;
            if let Some(open) = &state.open {
                return Ok(open.clone());
            }
        }
        // The time-outs are ours.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let opened = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut state = self.state();
        state.generation += 1;
        *generation = state.generation;
        state.open = Some(opened.clone());
        Ok(opened)
    }

    fn works(&self, generation: u64) {
        let mut state = self.state();
        if state.generation == generation {
            state.failures = 0;
            state.left_alone = None;
        }
    }

    fn failed(&self, generation: u64, error: &LiveError) {
        let mut state = self.state();
        if state.generation != generation {
            return;
        }
        state.open = None;
        state.generation += 1;
        state.failures = state.failures.saturating_add(1);
        state.left_alone = Some((Instant::now() + pause(state.failures, rand::random()), error.clone()));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn timed_out() -> LiveError {
    LiveError::Unavailable(format!("no answer within {CALL_TIMEOUT:?}"))
}
