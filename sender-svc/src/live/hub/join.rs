//! Joining streams: those that wait at the same time together, since after a restart everybody comes at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bongsu_store::Result;
use tokio::time::Instant;

use super::Shared;
use super::connection::Connection;

/// Streams joined together at most.
const TOGETHER: usize = 500;
/// Backlogs read in one statement: that of a client that was away for long may be a thousand events.
const BACKLOGS: usize = 100;
/// Before streams are joined again that could not be.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

pub async fn run(shared: Arc<Shared>) {
    loop {
        let joining = shared.registry().take_joining(TOGETHER);
        if joining.is_empty() {
            shared.join.notified().await;
            continue;
        }
        let failed = join(&shared, joining).await;
        if !failed.is_empty() {
            shared.registry().join_again(failed);
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// Joins these; those that it could not join come back.
async fn join(shared: &Shared, joining: Vec<Arc<Connection>>) -> Vec<Arc<Connection>> {
    if let Err(error) = register(shared, &joining).await {
        tracing::warn!(streams = joining.len(), "streams wait for the database: {error}");
        return joining;
    }
    // Before the backlog is read: a push that waits for a user's acknowledgement asks whether they are here.
    shared.tell_presence().await;
    // Those without a number have left.
    let mut known: Vec<_> = joining.into_iter().filter(|connection| connection.user().is_some()).collect();
    while !known.is_empty() {
        let some: Vec<_> = known.drain(..known.len().min(BACKLOGS)).collect();
        if let Err(error) = begin(shared, &some).await {
            known.extend(some);
            tracing::warn!(streams = known.len(), "what streams begin with could not be read: {error}");
            return known;
        }
    }
    vec![]
}

/// Reads what these streams begin with.
async fn begin(shared: &Shared, joining: &[Arc<Connection>]) -> Result<()> {
    let after: Vec<_> = joining.iter().filter_map(|c| Some((c.user()?, c.caller.after))).collect();
    let backlogs = shared.store.backlogs(&after).await?;
    for (connection, backlog) in joining.iter().zip(backlogs) {
        connection.join(backlog);
    }
    // What came meanwhile found no cursor to read from.
    shared.registry().heard(after.into_iter().map(|(user, _)| user), Instant::now());
    shared.read.notify_one();
    Ok(())
}

/// Finds out the users' numbers, and registers the streams.
async fn register(shared: &Shared, joining: &[Arc<Connection>]) -> Result<()> {
    let names: BTreeSet<&str> =
        joining.iter().filter(|c| c.user().is_none()).map(|c| &*c.caller.user).collect();
    // Another one after a restore, which needs no restart of ours.
    shared.epoch.store(shared.store.inbox_epoch().await?, Ordering::Relaxed);
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let users = shared.store.live_join(&names).await?;
    let mut registry = shared.registry();
    for connection in joining {
        if let Ok(n) = names.binary_search_by(|name| name.as_str().cmp(&connection.caller.user))
            && let Some(user) = users.get(n)
        {
            registry.register(connection, *user);
        }
    }
    Ok(())
}
