//! `bongsu retention`.

use anyhow::Context as _;
use bongsu_store::{
    DEFAULT_HISTORY_DAYS, DEFAULT_INBOX_DAYS, DEFAULT_RETENTION_DAYS, MOST_HISTORY_DAYS, MOST_RETENTION_DAYS,
    Partition, PartitionState, Purged, RetentionTurn, Step, Store,
};
use serde_json::{Value, json};

use crate::Context;
use crate::error::Failure;
use crate::output::Output;
use crate::table::{Align, Table, number};

/// One for the turn, one to look.
const CONNECTIONS: u32 = 2;

/// Show the days of deliveries, and which of them are due to be dropped; with --apply drop them
///
/// Intakes do it by themselves every few minutes. A day is dropped as a whole, once it is old enough and all its broadcasts are
/// final; nobody who sends waits for it. Counts, dead letters and idempotency keys are kept for --history-days.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where Postgres is: postgres://user:password@host:5432/database (better given in the environment: a command line
    /// can be read by every user of the host)
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    /// Drop what is due now, and delete what is not needed without it
    #[arg(long)]
    apply: bool,

    /// Days for which deliveries are kept; 0: for ever
    #[arg(long, env = "BONGSU_RETENTION_DAYS", value_name = "DAYS", default_value_t = DEFAULT_RETENTION_DAYS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_RETENTION_DAYS)))]
    days: u32,

    /// Days for which broadcasts are kept without their deliveries; 0: for ever
    #[arg(long, env = "BONGSU_HISTORY_DAYS", value_name = "DAYS", default_value_t = DEFAULT_HISTORY_DAYS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_HISTORY_DAYS)))]
    history_days: u32,

    /// Days for which notifications stay in the inboxes of users; 0: as long as broadcasts are kept, which is also the most
    #[arg(long, env = "BONGSU_INBOX_DAYS", value_name = "DAYS", default_value_t = DEFAULT_INBOX_DAYS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_HISTORY_DAYS)))]
    inbox_days: u32,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if args.history_days > 0 && args.history_days < args.days {
        return Err(anyhow::anyhow!(
            "--history-days {} is less than --days {}: broadcasts outlive their deliveries",
            args.history_days,
            args.days
        )
        .into());
    }
    let store =
        Store::new(&args.database_url, CONNECTIONS, "bongsu retention").map_err(anyhow::Error::from)?;
    let done = if args.apply {
        apply(&store, &args, context.output).await
    } else {
        show(&store, args.days, context.output).await
    };
    store.close().await;
    done
}

async fn show(store: &Store, days: u32, output: Output) -> Result<(), Failure> {
    let partitions = store.partitions(days).await.context("the database could not be looked at")?;
    let bytes = store.partition_bytes(&partitions).await.context("the database could not be looked at")?;
    if output.json {
        return partitions.iter().zip(&bytes).try_for_each(|(p, bytes)| output.object(&object(p, *bytes)));
    }
    let mut table = Table::new(&[
        ("PARTITION", Align::Left),
        ("DAY", Align::Left),
        ("ROWS, ABOUT", Align::Right),
        ("MB", Align::Right),
        ("STATE", Align::Left),
    ]);
    let megabytes = |bytes: Option<i64>| bytes.map_or(String::new(), |bytes| number(bytes / 1_000_000));
    let mut rows: Vec<Vec<String>> = partitions
        .iter()
        .zip(&bytes)
        .map(|(p, bytes)| {
            vec![p.name.clone(), p.day.to_string(), number(p.rows), megabytes(*bytes), told(p.state)]
        })
        .collect();
    let all = partitions.iter().map(|p| p.rows).sum();
    let total = megabytes(Some(bytes.iter().flatten().sum()));
    rows.push(vec!["total".to_owned(), String::new(), number(all), total, String::new()]);
    output.data(&table.page(rows))
}

/// For people.
fn told(state: PartitionState) -> String {
    match state {
        PartitionState::Kept => "kept".to_owned(),
        PartitionState::Due => "due".to_owned(),
        PartitionState::Waiting { broadcasts: 1, first } => format!("waits for broadcast {first}"),
        PartitionState::Waiting { broadcasts, first } => {
            format!("waits for {} broadcasts, {first} for one", number(broadcasts))
        }
        PartitionState::HalfWay { ours: true } => "detached half way, due".to_owned(),
        PartitionState::HalfWay { ours: false } => "detached half way by somebody else".to_owned(),
        PartitionState::Detached => "detached, due".to_owned(),
        PartitionState::Foreign => "detached by somebody else: theirs".to_owned(),
    }
}

fn object(partition: &Partition, bytes: Option<i64>) -> Value {
    let (state, waits) = match partition.state {
        PartitionState::Kept => ("kept", None),
        PartitionState::Due => ("due", None),
        PartitionState::Waiting { broadcasts, first } => ("waiting", Some((broadcasts, first))),
        PartitionState::HalfWay { .. } => ("half_way", None),
        PartitionState::Detached => ("detached", None),
        PartitionState::Foreign => ("foreign", None),
    };
    json!({
        "partition": partition.name,
        "day": partition.day.to_string(),
        "rows": partition.rows,
        "bytes": bytes,
        "state": state,
        "open_broadcasts": waits.map_or(0, |(broadcasts, _)| broadcasts),
        "first_open_broadcast": waits.map(|(_, first)| first.to_string()),
    })
}

async fn apply(store: &Store, args: &Args, output: Output) -> Result<(), Failure> {
    if args.days == 0 {
        return Err(anyhow::anyhow!("deliveries are kept for ever (0 days): give --days to drop some").into());
    }
    let turn = store.retention_turn().await.context("the database could not be reached")?;
    let Some(mut turn) = turn else {
        return Err(anyhow::anyhow!(
            "another process is at it just now, an intake perhaps: look again in a moment"
        )
        .into());
    };
    drop_partitions(&mut turn, args.days, output).await?;
    let inbox = purge_inbox(&mut turn, args).await.context("inboxes could not be emptied")?;
    let purged = purge(&mut turn, args).await.context("old rows could not be deleted")?;
    let analyzed = turn.analyze().await.context("the statistics could not be made")?;
    turn.end().await.context("the database")?;
    for held in store.partitions(args.days).await.context("the database could not be looked at")? {
        if matches!(held.state, PartitionState::Waiting { .. }) {
            output
                .note_with(&format!("{} {}", held.name, told(held.state)), json!({ "partition": held.name }));
        }
    }
    let Purged { audiences, dead_letters, broadcasts, failures, device_events, .. } = purged;
    let done = json!({
        "deleted": { "audiences": audiences, "dead_letters": dead_letters, "broadcasts": broadcasts,
                     "failures": failures, "device_events": device_events, "inbox": inbox },
        "analyzed": analyzed,
    });
    output.either(&done, || {
        let count = |rows: u64| number(i64::try_from(rows).unwrap_or(i64::MAX));
        format!(
            "deleted of older days: {} rows of audiences, {} dead letters, {} broadcasts, {} failed attempts, \
             {} events of devices, {} notifications in inboxes\n",
            count(audiences),
            count(dead_letters),
            count(broadcasts),
            count(failures),
            count(device_events),
            count(inbox)
        )
    })
}

async fn drop_partitions(turn: &mut RetentionTurn, days: u32, output: Output) -> Result<(), Failure> {
    loop {
        match turn.step(days).await.context("a partition could not be dropped")? {
            Step::Dropped { partition, took } => {
                let seconds = took.as_secs_f64();
                let object = json!({ "dropped": partition.name, "rows": partition.rows, "seconds": seconds });
                output.either(&object, || {
                    let rows = number(partition.rows);
                    format!("dropped {} with about {rows} deliveries in {seconds:.2} s\n", partition.name)
                })?;
            }
            Step::Finalized(partition) => output.note(&format!(
                "{} is detached, which somebody else had begun: it is theirs and stays",
                partition.name
            )),
            Step::GaveUp { partition, why } => {
                return Err(anyhow::anyhow!(
                    "{} is in use and could not be dropped ({why}): it is as far as it came, and the next time goes on",
                    partition.name
                )
                .into());
            }
            Step::Done => return Ok(()),
        }
    }
}

async fn purge(turn: &mut RetentionTurn, args: &Args) -> bongsu_store::Result<Purged> {
    let mut all = Purged::default();
    loop {
        let purged = turn.purge(args.days, args.history_days).await?;
        all.audiences += purged.audiences;
        all.dead_letters += purged.dead_letters;
        all.broadcasts += purged.broadcasts;
        all.failures += purged.failures;
        all.device_events += purged.device_events;
        if !purged.more {
            return Ok(all);
        }
    }
}

async fn purge_inbox(turn: &mut RetentionTurn, args: &Args) -> bongsu_store::Result<u64> {
    let mut all = 0;
    loop {
        let (rows, more) = turn.purge_inbox(args.inbox_days, args.history_days).await?;
        all += rows;
        if !more {
            return Ok(all);
        }
    }
}
