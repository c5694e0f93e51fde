//! The inbox as a list, and what of it was read.

use std::collections::BTreeMap;

use sqlx::types::Json;

use super::{Content, Event, UserNo};
use crate::broadcast::Message;
use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::BroadcastId;

/// Events that a page looks at, at most: those of broadcasts that are over are left out, and may be very many in a row.
const PAGE_LOOKS_AT: i64 = 1_000;
/// Of these, after the first look, so many at a time.
const LOOK: i64 = 200;
/// What was not read is counted up to here.
pub const MOST_UNREAD: i32 = 1_000;
/// Events that a statement marks as read at most.
const MARKED_AT_ONCE: i64 = 1_000;

/// A page of an inbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxPage {
    /// Newest first.
    pub notifications: Vec<(Event, Content)>,
    /// The next page begins before this number; `None` on the last one. A page that is short, or empty, may have one all the same.
    pub next: Option<i64>,
}

impl Store {
    /// The newest `limit` events of a user before a number, those of broadcasts that were cancelled, have expired or are gone left
    /// out.
    pub async fn list_inbox(
        &self,
        user: UserNo,
        before: Option<i64>,
        unread_only: bool,
        limit: i64,
    ) -> Result<InboxPage> {
        let mut page = InboxPage::default();
        let mut reached = before.unwrap_or(i64::MAX);
        // One more than the page has says whether there is another.
        let mut look = limit + 1;
        let mut looked_at = 0;
        bounded("an inbox", async {
            while looked_at < PAGE_LOOKS_AT {
                let looks = sqlx::query_file!("queries/inbox_list.sql", user.0, reached, unread_only, look);
                let rows = looks.fetch_all(&self.pool).await?;
                let found = i64::try_from(rows.len()).unwrap_or(i64::MAX);
                looked_at += found;
                for row in rows {
                    let of_content =
                        row.notification.zip(row.title).zip(row.body).zip(row.data).zip(row.expires_at);
                    let Some(((((notification, title), body), Json(data)), expires_at)) = of_content else {
                        reached = row.seq;
                        continue;
                    };
                    if i64::try_from(page.notifications.len()).is_ok_and(|n| n >= limit) {
                        page.next = Some(reached);
                        return Ok(page);
                    }
                    reached = row.seq;
                    let event = Event {
                        user,
                        seq: row.seq,
                        broadcast: row.broadcast,
                        created_at: row.created_at,
                        acknowledged: row.acknowledged,
                        read: row.read,
                    };
                    let message = Message { title, body, data };
                    page.notifications
                        .push((event, Content { notification, message, expires_at, over: false }));
                }
                if found < look {
                    return Ok(page);
                }
                look = LOOK;
            }
            page.next = Some(reached);
            Ok(page)
        })
        .await
    }

    /// How many events a user has not read: of those that a list shows, among the newest [`MOST_UNREAD`].
    pub async fn unread(&self, user: UserNo) -> Result<i32> {
        bounded("counting what was not read", async {
            let most = i64::from(MOST_UNREAD);
            let count = sqlx::query_file_scalar!("queries/inbox_unread.sql", user.0, most)
                .fetch_one(&self.pool)
                .await?;
            Ok(i32::try_from(count).unwrap_or(MOST_UNREAD))
        })
        .await
    }

    /// Says that the user has looked at what these broadcasts said to them; others' are left alone. Returns how many were new.
    pub async fn mark_read(&self, user: UserNo, ids: &[BroadcastId]) -> Result<u64> {
        let mut ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        bounded("marking as read", async {
            let marked = sqlx::query_file!("queries/inbox_mark_read.sql", user.0, &ids).execute(&self.pool);
            Ok(marked.await?.rows_affected())
        })
        .await
    }

    /// The same of all events up to this number, in steps: where a later one fails, those before it count, and asking again goes on.
    pub async fn mark_read_up_to(&self, user: UserNo, seq: i64) -> Result<u64> {
        let (mut marked, mut reached) = (0, 0);
        loop {
            let step = bounded("marking as read", async {
                Ok(sqlx::query_file!(
                    "queries/inbox_mark_read_up_to.sql",
                    user.0,
                    reached,
                    seq,
                    MARKED_AT_ONCE
                )
                .fetch_one(&self.pool)
                .await?)
            })
            .await?;
            marked += step.count.unsigned_abs();
            if step.count < MARKED_AT_ONCE {
                return Ok(marked);
            }
            reached = step.last;
        }
    }
}
