//! `bongsu migrate`.

use std::time::Duration;

use anyhow::Context as _;
use bongsu_ops::telemetry::{self, LogFormat, TelemetryArgs};
use bongsu_ops::trace::TraceArgs;
use bongsu_store::{MAX_SHARDS, SetShards, Store};
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
    /// Spread devices over so many shards, from the first one on; once there are devices, the number stays. A new
    /// database has one, which is right on a single Postgres. Stop processes of versions that know no shards first
    /// (docs/scaling.md)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..=i64::from(MAX_SHARDS)))]
    shards: Option<i16>,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    // The store logs what it waits for.
    let format = if context.output.json { LogFormat::Json } else { LogFormat::Text };
    telemetry::init(
        &TelemetryArgs { log_format: format, log: "warn".to_owned(), trace: TraceArgs::default() },
        "bongsu migrate",
    )?;
    let store = connect(&args.database_url).await?;
    let applied = apply(&store).await?;
    let set = match args.shards {
        Some(shards) => Some((shards, set_shards(&store, shards).await?)),
        None => None,
    };
    store.close().await;
    let mut answer = json!({ "applied": applied });
    if let Some((shards, _)) = set {
        answer["shards"] = json!(shards);
    }
    context.output.either(&answer, || {
        let applied = match applied {
            0 => "the schema is up to date: nothing to apply\n".to_owned(),
            1 => "applied 1 migration\n".to_owned(),
            n => format!("applied {n} migrations\n"),
        };
        let shards = match set {
            None => String::new(),
            Some((shards, true)) => format!("devices will be spread over {}\n", counted(shards)),
            Some((shards, false)) => {
                format!("devices are spread over {}: nothing to change\n", counted(shards))
            }
        };
        applied + &shards
    })
}

/// Waits for the database, applies what is missing, and returns how many migrations that were.
pub async fn migrate(database_url: &str) -> anyhow::Result<usize> {
    let store = connect(database_url).await?;
    let applied = apply(&store).await?;
    store.close().await;
    Ok(applied)
}

async fn connect(database_url: &str) -> anyhow::Result<Store> {
    let store = Store::new(database_url, CONNECTIONS, "bongsu migrate")?;
    store
        .wait_until_ready(PATIENCE)
        .await
        .context("the database did not answer: is it running, is the URL right?")?;
    Ok(store)
}

async fn apply(store: &Store) -> anyhow::Result<usize> {
    store.migrate().await.context("the schema could not be brought up to date")
}

/// Whether this changed the number.
async fn set_shards(store: &Store, shards: i16) -> Result<bool, Failure> {
    match store.set_shards(shards).await.context("the number of shards could not be set")? {
        SetShards::Set => Ok(true),
        SetShards::Unchanged => Ok(false),
        SetShards::Devices { shards: there } => Err(Failure::Refused {
            message: format!(
                "there are devices in this database, spread over {}: that cannot be changed to {shards} any more. Leave out \
                 --shards to go on with it; for another number, migrate an empty database with --shards {shards} and register \
                 the devices there",
                counted(there)
            ),
        }),
        // The arguments are checked before.
        SetShards::OutOfRange => Err(anyhow::anyhow!("shards: from 1 to {MAX_SHARDS}").into()),
    }
}

fn counted(shards: i16) -> String {
    match shards {
        1 => "1 shard".to_owned(),
        n => format!("{n} shards"),
    }
}
