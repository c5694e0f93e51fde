//! Events and their ids.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use time::OffsetDateTime;

use crate::broadcast::Message;
use crate::ids::BroadcastId;

/// A user of the live channel, by the number of their row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct UserNo(pub i64);

/// Which of a user's events: what a client gives back to go on after it. It says nothing of whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// Another one after the database was restored from a backup.
    pub epoch: i64,
    /// From 1, without holes.
    pub seq: i64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.seq)
    }
}

impl FromStr for EventId {
    type Err = NoEventId;

    fn from_str(text: &str) -> Result<Self, NoEventId> {
        // Digits alone: what a number may look like beside them is not what we wrote.
        let number = |digits: &str| {
            let canonical = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            canonical.then(|| digits.parse().ok()).flatten().ok_or(NoEventId)
        };
        let (epoch, seq) = text.split_once('-').ok_or(NoEventId)?;
        Ok(Self { epoch: number(epoch)?, seq: number(seq)? })
    }
}

/// The text is not one that an [`EventId`] was ever written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no event id")]
pub struct NoEventId;

/// That a broadcast is for a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub user: UserNo,
    pub seq: i64,
    pub broadcast: BroadcastId,
    pub created_at: OffsetDateTime,
    pub acknowledged: bool,
    pub read: bool,
}

/// What a broadcast says, for all its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// What clients know the notification by: the first broadcast in a chain of replays.
    pub notification: BroadcastId,
    pub message: Message,
    pub expires_at: OffsetDateTime,
    /// It was cancelled, or has expired by the database's clock: not to be shown any more.
    pub over: bool,
}

impl Content {
    /// What is handed to the app as it is.
    pub fn data(&self) -> &BTreeMap<String, String> {
        &self.message.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_is_read_as_it_was_written_and_nothing_else_is() {
        let id = EventId { epoch: 1_764_000_000_000, seq: 42 };
        assert_eq!(id.to_string(), "1764000000000-42");
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in
            ["", "42", "-42", "1-", "1--2", "+1-2", "1-+2", " 1-2", "1-2-3", "x-1", "9223372036854775808-1"]
        {
            assert_eq!(text.parse::<EventId>(), Err(NoEventId), "{text:?}");
        }
    }
}
