//! Making events, within the transaction of who makes deliveries; and reading them.

use std::collections::{BTreeMap, HashMap};

use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Content, Event, UserNo};
use crate::broadcast::Message;
use crate::connect::{Store, bounded};
use crate::counts::LiveCounts;
use crate::error::Result;
use crate::ids::BroadcastId;

/// Users who have a new event: whoever keeps their connections is to be told once it is committed.
pub type Told = Vec<UserNo>;

/// Puts an event of each of these broadcasts into the inbox of its user, who has none of it yet, and returns of which broadcast
/// who got one. They are locked until the end of the transaction, in order, so that two of these wait for each other and never both.
pub(crate) async fn make(
    connection: &mut PgConnection,
    pairs: &[(BroadcastId, &str)],
) -> Result<Vec<(BroadcastId, UserNo)>> {
    if pairs.is_empty() {
        return Ok(vec![]);
    }
    let mut by_user: BTreeMap<&str, Vec<BroadcastId>> = BTreeMap::new();
    let mut by_broadcast: BTreeMap<BroadcastId, i64> = BTreeMap::new();
    for (broadcast, user) in pairs {
        by_user.entry(user).or_default().push(*broadcast);
        *by_broadcast.entry(*broadcast).or_default() += 1;
    }
    let (names, counts): (Vec<&str>, Vec<i64>) =
        by_user.iter().map(|(user, of)| (*user, i64::try_from(of.len()).unwrap_or(i64::MAX))).unzip();
    let numbered = sqlx::query_file!("queries/live_number.sql", &names as _, &counts)
        .fetch_all(&mut *connection)
        .await?;
    let (mut made, mut users, mut seqs, mut broadcasts) = (vec![], vec![], vec![], vec![]);
    for row in &numbered {
        let of = by_user.get(row.user_id.as_str()).map(Vec::as_slice).unwrap_or_default();
        let first = row.last_seq - i64::try_from(of.len()).unwrap_or(i64::MAX) + 1;
        for (broadcast, seq) in of.iter().zip(first..) {
            users.push(row.id.0);
            seqs.push(seq);
            broadcasts.push(broadcast.0);
            made.push((*broadcast, row.id));
        }
    }
    let (counted, counts): (Vec<i64>, Vec<i64>) = by_broadcast.into_iter().map(|(id, n)| (id.0, n)).unzip();
    sqlx::query_file!("queries/live_insert.sql", &users, &seqs, &broadcasts, &counted, &counts)
        .execute(connection)
        .await?;
    Ok(made)
}

/// As [`make`], for one broadcast, of whose users some may have an event already.
pub(crate) async fn make_unseen(
    connection: &mut PgConnection,
    broadcast: BroadcastId,
    users: &[String],
) -> Result<Told> {
    let unseen = sqlx::query_file_scalar!("queries/live_unseen.sql", broadcast.0, users)
        .fetch_all(&mut *connection)
        .await?;
    let pairs: Vec<_> = unseen.iter().map(|user| (broadcast, user.as_str())).collect();
    Ok(make(connection, &pairs).await?.into_iter().map(|(_, user)| user).collect())
}

impl Store {
    /// The first `limit` events of each of these users after the given number, in order of the request and then of number.
    pub async fn inbox_after(&self, users: &[(UserNo, i64)], limit: i64) -> Result<Vec<Event>> {
        let (users, after): (Vec<i64>, Vec<i64>) = users.iter().map(|(user, after)| (user.0, *after)).unzip();
        bounded("inbox", async {
            Ok(sqlx::query_file_as!(Event, "queries/live_after.sql", &users, &after, limit)
                .fetch_all(&self.pool)
                .await?)
        })
        .await
    }

    /// What these broadcasts say; those that are not there any more have no entry.
    pub async fn live_contents(&self, ids: &[BroadcastId]) -> Result<HashMap<BroadcastId, Content>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = bounded("notifications", async {
            Ok(sqlx::query_file!("queries/live_contents.sql", &ids).fetch_all(&self.pool).await?)
        })
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let Json(data) = row.data;
                let message = Message { title: row.title, body: row.body, data };
                let content = Content {
                    notification: row.notification,
                    message,
                    expires_at: row.expires_at,
                    over: row.over,
                };
                (row.id, content)
            })
            .collect())
    }

    /// How many events these broadcasts have; those without any have no entry.
    pub(crate) async fn live_counts(&self, ids: &[BroadcastId]) -> Result<HashMap<BroadcastId, LiveCounts>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query_file!("queries/live_counts.sql", &ids).fetch_all(&self.pool).await?;
        Ok(rows
            .into_iter()
            .map(|row| (row.broadcast, LiveCounts { events: row.events, acknowledged: row.acknowledged }))
            .collect())
    }
}
