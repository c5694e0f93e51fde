//! Retention: dropping days of deliveries that are old enough, and then what is no longer needed without them.
//!
//! Every intake looks after it; one at a time does it. Whatever it cannot finish, the next round goes on with.

use std::time::Duration;

use bongsu_store::{RetentionTurn, Step, Store};
use rand::Rng as _;
use tokio_util::sync::CancellationToken;

use crate::metrics;
use crate::outage::Outage;

/// How often it is looked whether anything is due.
const INTERVAL: Duration = Duration::from_secs(300);
/// Between two steps of deleting rows: calls come first.
const BREATH: Duration = Duration::from_millis(20);

/// What is kept for how long, in days; 0: for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub deliveries: u32,
    pub history: u32,
    pub inbox: u32,
}

/// Runs until `shutdown`, which may come at any moment.
pub(crate) async fn run(store: Store, keep: Retention, shutdown: CancellationToken) {
    let mut outage = Outage::new("retention");
    let rounds = async {
        loop {
            let pause = match round(&store, keep).await {
                Ok(()) => {
                    outage.over();
                    // By chance, so that intakes which were started together take turns.
                    rand::rng().random_range(INTERVAL / 2..=INTERVAL)
                }
                Err(error) => outage.failed(&error),
            };
            tokio::time::sleep(pause).await;
        }
    };
    // What is under way ends with its connection, and whoever comes next goes on from there.
    let _: Option<()> = shutdown.run_until_cancelled(rounds).await;
}

async fn round(store: &Store, keep: Retention) -> bongsu_store::Result<()> {
    let Some(mut turn) = store.retention_turn().await? else { return Ok(()) };
    // First: a broadcast stays as long as it is in an inbox.
    purge_inbox(&mut turn, keep).await?;
    if keep.deliveries > 0 {
        drop_partitions(&mut turn, keep.deliveries).await?;
        purge(&mut turn, keep).await?;
    }
    if turn.analyze().await? {
        tracing::info!("the statistics of delivery are made anew");
    }
    turn.end().await
}

async fn drop_partitions(turn: &mut RetentionTurn, days: u32) -> bongsu_store::Result<()> {
    loop {
        match turn.step(days).await? {
            Step::Dropped { partition, took } => {
                metrics::partition_dropped(took);
                tracing::info!(
                    partition = partition.name,
                    rows = partition.rows,
                    took_ms = took.as_millis() as u64,
                    "partition dropped, {days} days are kept"
                );
            }
            Step::Finalized(partition) => {
                tracing::info!(
                    partition = partition.name,
                    "partition detached, which somebody had begun; it stays"
                );
            }
            Step::GaveUp { partition, why } => {
                metrics::background_error("retention");
                tracing::warn!(
                    partition = partition.name,
                    why,
                    "partition is in use and could not be dropped; it is tried again later"
                );
                return Ok(());
            }
            Step::Done => return Ok(()),
        }
    }
}

async fn purge(turn: &mut RetentionTurn, keep: Retention) -> bongsu_store::Result<()> {
    let (mut audiences, mut dead_letters, mut broadcasts) = (0, 0, 0);
    let (mut failures, mut device_events) = (0, 0);
    loop {
        let purged = turn.purge(keep.deliveries, keep.history).await?;
        metrics::purged(&purged);
        audiences += purged.audiences;
        dead_letters += purged.dead_letters;
        broadcasts += purged.broadcasts;
        failures += purged.failures;
        device_events += purged.device_events;
        if !purged.more {
            break;
        }
        tokio::time::sleep(BREATH).await;
    }
    if audiences + dead_letters + broadcasts + failures + device_events > 0 {
        tracing::info!(
            audiences,
            dead_letters,
            broadcasts,
            failures,
            device_events,
            "deleted what is older than it is kept"
        );
    }
    Ok(())
}

async fn purge_inbox(turn: &mut RetentionTurn, keep: Retention) -> bongsu_store::Result<()> {
    let mut purged = 0;
    loop {
        let (rows, more) = turn.purge_inbox(keep.inbox, keep.history).await?;
        metrics::inbox_purged(rows);
        purged += rows;
        if !more {
            break;
        }
        tokio::time::sleep(BREATH).await;
    }
    if purged > 0 {
        tracing::info!(notifications = purged, "deleted what is in inboxes for longer than it is kept");
    }
    Ok(())
}
