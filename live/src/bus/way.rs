//! The two ways of a message: by Redis, or by Postgres.

use std::time::Duration;

use bongsu_store::{BusListener, BusSpeaker, Store};
use redis::aio::PubSubStream;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

use crate::error::LiveError;
use crate::link::Link;

/// The longest that Postgres has for a message or for a connection: what is told later than that is found by then.
const POSTGRES_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub(super) enum Way {
    Postgres(Store),
    Redis(Link),
}

impl Way {
    pub(super) fn speaker(&self) -> Speaker {
        match self {
            Self::Postgres(store) => Speaker::Postgres(store.bus_speaker()),
            Self::Redis(link) => Speaker::Redis(link.clone()),
        }
    }

    /// Hears what is said from now on.
    pub(super) async fn listener(&self) -> Result<Listener, LiveError> {
        match self {
            Self::Postgres(store) => Ok(Listener::Postgres(in_time(store.bus_listener()).await?)),
            Self::Redis(link) => Ok(Listener::Redis(link.subscribe(&channel(link)).await?)),
        }
    }
}

pub(super) enum Speaker {
    Postgres(BusSpeaker),
    Redis(Link),
}

impl Speaker {
    /// Says all of them, or perhaps some and then an error.
    pub(super) async fn say(&mut self, messages: &[String]) -> Result<(), LiveError> {
        match self {
            Self::Postgres(speaker) => in_time(speaker.say(messages)).await,
            Self::Redis(link) => {
                let mut pipeline = redis::pipe();
                for message in messages {
                    pipeline.publish(channel(link), message).ignore();
                }
                link.call(async |mut redis| pipeline.query_async(&mut redis).await).await
            }
        }
    }
}

pub(super) enum Listener {
    Postgres(BusListener),
    Redis(PubSubStream),
}

impl Listener {
    /// The next message. After an error some may have been missed, and it hears nothing any more.
    pub(super) async fn next(&mut self) -> Result<String, LiveError> {
        match self {
            Self::Postgres(listener) => Ok(listener.next().await?),
            Self::Redis(stream) => {
                let message = stream.next().await;
                let message =
                    message.ok_or_else(|| LiveError::Unavailable("the subscription ended".to_owned()))?;
                Ok(message.get_payload()?)
            }
        }
    }
}

fn channel(link: &Link) -> String {
    format!("{}:bus", link.prefix())
}

async fn in_time<T>(work: impl Future<Output = bongsu_store::Result<T>>) -> Result<T, LiveError> {
    let late = || LiveError::Unavailable(format!("Postgres did not answer within {POSTGRES_TIMEOUT:?}"));
    Ok(timeout(POSTGRES_TIMEOUT, work).await.map_err(|_| late())??)
}
