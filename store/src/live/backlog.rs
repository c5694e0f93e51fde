//! What a client missed: where a stream begins.

use std::collections::HashMap;

use super::{Event, EventId, UserNo};
use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::BroadcastId;

/// Events that a stream begins with at most.
pub const BACKLOG_EVENTS: i64 = 1_000;
/// Connections that one statement reads for at most: each may bring [`BACKLOG_EVENTS`].
const CONNECTIONS_AT_ONCE: usize = 100;

/// What a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Nothing: what nobody acknowledged among the newest events is new to it.
    Start,
    /// It gave something that is no event id.
    Unknown,
    /// Everything up to this event.
    Event(EventId),
}

/// Why not all that came after what a client has follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// What it has is no event of this epoch and user. What nobody acknowledged follows, as at the start.
    UnknownEventId,
    /// Some are not kept any more; the others follow.
    Pruned,
    /// The newest [`BACKLOG_EVENTS`] follow.
    TooMany,
}

/// Where a stream begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    pub gap: Option<GapReason>,
    /// What comes first, in order. Those whose broadcast is over are among them.
    pub events: Vec<Event>,
    /// The number of the user's last event then: what has a greater one comes after these, none is in between.
    pub reached: i64,
    /// What the ids of these events begin with.
    pub epoch: i64,
}

impl Store {
    /// Where each of these streams begins, in their order: that of a user who connects several times, too. Whoever has very many
    /// asks for some at a time: each may bring [`BACKLOG_EVENTS`].
    pub async fn backlogs(&self, connections: &[(UserNo, After)]) -> Result<Vec<Backlog>> {
        let mut backlogs = Vec::with_capacity(connections.len());
        for some in connections.chunks(CONNECTIONS_AT_ONCE) {
            backlogs.extend(self.some_backlogs(some).await?);
        }
        Ok(backlogs)
    }

    async fn some_backlogs(&self, connections: &[(UserNo, After)]) -> Result<Vec<Backlog>> {
        let users: Vec<i64> = connections.iter().map(|(user, _)| user.0).collect();
        let (epochs, seqs): (Vec<i64>, Vec<i64>) = connections.iter().map(|(_, after)| after.parts()).unzip();
        let rows = bounded("backlogs", async {
            Ok(sqlx::query_file!("queries/inbox_backlog.sql", &users, &epochs, &seqs, BACKLOG_EVENTS)
                .fetch_all(&self.pool)
                .await?)
        })
        .await?;
        let mut read: HashMap<i64, (Backlog, bool)> = HashMap::with_capacity(connections.len());
        for row in rows {
            let fresh =
                || (Backlog { reached: row.last_seq, epoch: row.epoch, ..Backlog::default() }, row.known);
            let (backlog, _) = read.entry(row.n).or_insert_with(fresh);
            let user =
                usize::try_from(row.n - 1).ok().and_then(|i| connections.get(i)).map(|(user, _)| *user);
            if let (Some(user), Some(seq), Some(broadcast), Some(created_at)) =
                (user, row.seq, row.broadcast, row.created_at)
            {
                let (acknowledged, read) = (row.acknowledged, row.read);
                backlog.events.push(Event { user, seq, broadcast, created_at, acknowledged, read });
            }
        }
        Ok((1..)
            .zip(connections)
            .map(|(n, (_, after))| {
                let (mut backlog, known) = read.remove(&n).unwrap_or_default();
                backlog.gap = after.gap(known, &backlog);
                backlog
            })
            .collect())
    }
}

impl After {
    /// Epoch and number, of an epoch that never is where there is none.
    fn parts(self) -> (i64, i64) {
        match self {
            Self::Start | Self::Unknown => (-1, 0),
            Self::Event(EventId { epoch, seq }) => (epoch, seq),
        }
    }

    /// Numbers have no holes: so what is not among the events, or more than may follow, is known by their count.
    fn gap(self, known: bool, backlog: &Backlog) -> Option<GapReason> {
        let kept = i64::try_from(backlog.events.len()).unwrap_or(i64::MAX);
        match self {
            Self::Start => None,
            Self::Event(EventId { seq, .. }) if known => match backlog.reached - seq {
                missed if missed == kept => None,
                _ if kept == BACKLOG_EVENTS => Some(GapReason::TooMany),
                _ => Some(GapReason::Pruned),
            },
            Self::Unknown | Self::Event(_) => Some(GapReason::UnknownEventId),
        }
    }
}
