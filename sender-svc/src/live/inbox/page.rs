//! A page of the list.

use bongsu_ops::api::{PageFilter, Violations, page_size};
use bongsu_store::{Content, Event, EventId, StoreError};
use tonic::Status;

use super::super::auth::User;
use super::Inbox;
use crate::rpc::status;

/// Notifications of a page where the caller gives no size, and at most.
const PAGE: (i64, i64) = (20, 100);

/// Which page is asked for.
#[derive(Debug, Default)]
pub struct Wanted {
    pub page_size: i32,
    pub page_token: String,
    pub unread_only: bool,
}

/// What is on it.
pub struct Page {
    /// Newest first.
    pub notifications: Vec<(EventId, Event, Content)>,
    pub next_page_token: String,
    pub unread_count: i32,
}

impl Inbox {
    /// `problems` has what is wrong with the request already.
    pub async fn list(&self, user: &User, wanted: Wanted, mut problems: Violations) -> Result<Page, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ListInbox");
        let limit = page_size(wanted.page_size, PAGE.0, PAGE.1, &mut problems);
        // With the user, so that nobody takes a place in somebody else's list for one in theirs.
        let filter =
            PageFilter::new("ListInbox", [user.id.as_str(), if wanted.unread_only { "unread" } else { "" }]);
        let before = filter.parse::<1>(&wanted.page_token).unwrap_or_else(|problem| {
            problems.add("page_token", problem);
            None
        });
        if !problems.is_empty() {
            return Err(status::invalid(&problems));
        }
        let number = self.number(user).await.map_err(failed)?;
        let before = before.map(|[seq]| seq);
        let page = self.store.list_inbox(number, before, wanted.unread_only, limit).await.map_err(failed)?;
        let unread_count = self.store.unread(number).await.map_err(failed)?;
        let epoch = self.store.inbox_epoch().await.map_err(failed)?;
        let with_id =
            |(event, content): (Event, Content)| (EventId { epoch, seq: event.seq }, event, content);
        Ok(Page {
            notifications: page.notifications.into_iter().map(with_id).collect(),
            next_page_token: page.next.map_or_else(String::new, |seq| filter.token([seq])),
            unread_count,
        })
    }
}
