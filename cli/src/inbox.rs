//! `bongsu inbox`.

use std::time::Duration;

use anyhow::Context as _;
use bongsu_store::Store;
use serde_json::json;

use crate::Context;
use crate::error::Failure;

/// How long to wait for a Postgres that is just starting, as it may after it was restored.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECTIONS: u32 = 1;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    NewEpoch(Args),
}

/// After a backup was restored: have no client of the live channel take a new notification for one that it has
///
/// Numbers of notifications went back with the backup, and are given again. So every event id from before becomes unknown: a client
/// that comes back with one is told of a gap, and lists what there is. Run it before senders start; doing it again is harmless.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where Postgres is: postgres://user:password@host:5432/database (better given in the environment: a command line
    /// can be read by every user of the host)
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,
}

pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    let Command::NewEpoch(Args { database_url }) = command;
    let store = Store::new(&database_url, CONNECTIONS, "bongsu inbox").map_err(anyhow::Error::from)?;
    let epochs = new_epoch(&store).await;
    store.close().await;
    let (old, new) = epochs?;
    let answer = json!({ "old_epoch": old.to_string(), "new_epoch": new.to_string() });
    context.output.either(&answer, || format!("event ids began with {old}, and begin with {new} now\n"))
}

async fn new_epoch(store: &Store) -> anyhow::Result<(i64, i64)> {
    store
        .wait_until_ready(PATIENCE)
        .await
        .context("the database did not answer: is it running, is the URL right?")?;
    store.new_inbox_epoch().await.context("the epoch could not be changed")
}
