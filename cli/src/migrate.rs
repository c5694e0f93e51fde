//! `bongsu migrate`.

use std::time::Duration;

use anyhow::Context as _;
use bongsu_ops::telemetry::{self, LogFormat, TelemetryArgs};
use bongsu_store::Store;
use serde_json::json;

use crate::Context;
use crate::error::Failure;

/// How long to wait for a Postgres that is just starting.
const PATIENCE: Duration = Duration::from_secs(30);
/// The migrator holds one connection for its lock.
const CONNECTIONS: u32 = 2;

/// Bring the schema of the database up to date
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where Postgres is: postgres://user:password@host:5432/database (better given in the environment: a command line
    /// can be read by every user of the host)
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    // The store logs what it waits for.
    let format = if context.output.json { LogFormat::Json } else { LogFormat::Text };
    telemetry::init(&TelemetryArgs { log_format: format, log: "warn".to_owned() }, "bongsu migrate")?;
    let applied = migrate(&args.database_url).await?;
    context.output.either(&json!({ "applied": applied }), || match applied {
        0 => "the schema is up to date: nothing to apply\n".to_owned(),
        1 => "applied 1 migration\n".to_owned(),
        n => format!("applied {n} migrations\n"),
    })
}

/// Waits for the database, applies what is missing, and returns how many migrations that were.
pub async fn migrate(database_url: &str) -> anyhow::Result<usize> {
    let store = Store::new(database_url, CONNECTIONS, "bongsu migrate")?;
    store
        .wait_until_ready(PATIENCE)
        .await
        .context("the database did not answer: is it running, is the URL right?")?;
    let applied = store.migrate().await.context("the schema could not be brought up to date")?;
    store.close().await;
    Ok(applied)
}
