//! Messages between processes by NOTIFY, where they do not go through Redis. What they mean is not known here.

use sqlx::postgres::PgListener;

use crate::connect::{Lane, Store, bounded};
use crate::error::{Result, StoreError};

/// Where all listen. Postgres keeps those of other databases apart.
const CHANNEL: &str = "bongsu_live";

impl Store {
    /// Says messages on a connection of its own, which opens when it is first needed.
    pub fn bus_speaker(&self) -> BusSpeaker {
        // A message is of no use after a crash, so nobody waits for the disk.
        BusSpeaker(self.fleeting_lane())
    }

    /// Hears what is said from now on, on a connection of its own.
    pub async fn bus_listener(&self) -> Result<BusListener> {
        bounded("listening", async {
            let mut listener = PgListener::connect_with(&self.single()).await?;
            // It would hide that something was missed.
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok(BusListener(listener))
        })
        .await
    }
}

/// Says messages to all that listen.
#[derive(Debug)]
pub struct BusSpeaker(Lane);

impl BusSpeaker {
    /// Each of less than 8,000 bytes: Postgres takes no longer ones.
    pub async fn say(&mut self, messages: &[String]) -> Result<()> {
        self.0
            .run("telling", async |connection| {
                sqlx::query_file!("queries/bus_say.sql", CHANNEL, messages).execute(connection).await?;
                Ok(())
            })
            .await
    }
}

/// Hears messages.
pub struct BusListener(PgListener);

impl BusListener {
    /// The next message. After an error some may have been missed, and it hears nothing any more.
    pub async fn next(&mut self) -> Result<String> {
        match self.0.try_recv().await? {
            Some(message) => Ok(message.payload().to_owned()),
            None => Err(StoreError::Unavailable("the listening connection ended".into())),
        }
    }
}

impl std::fmt::Debug for BusListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BusListener").finish_non_exhaustive()
    }
}
