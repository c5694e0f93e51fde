//! Marking as read.

use bongsu_ops::api::Violations;
use bongsu_store::{BroadcastId, EventId, StoreError};
use tonic::Status;

use super::super::auth::User;
use super::Inbox;
use crate::rpc::status;

/// Notifications that one call marks by their ids at most.
const MOST_IDS: usize = 1_000;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    These(Vec<BroadcastId>),
    UpTo(EventId),
}

impl Read {
    /// As it was asked for; `id` reads one of the ids.
    pub fn parse<T>(
        notification_ids: &[T],
        up_to_event_id: &str,
        id: impl Fn(&T) -> Option<i64>,
    ) -> Result<Self, Violations> {
        let one_of = |problem: &str| Violations::one("notification_ids", problem);
        match (notification_ids, up_to_event_id) {
            ([], "") => Err(one_of("is empty; give 1 to 1,000, or up_to_event_id")),
            ([], event) => event.parse().map(Self::UpTo).map_err(|_| {
                Violations::one(
                    "up_to_event_id",
                    "is no event id; give the event_id of a notification as it was",
                )
            }),
            (_, event) if !event.is_empty() => Err(one_of("is given with up_to_event_id; give one of them")),
            (ids, _) if ids.len() > MOST_IDS => {
                Err(one_of(&format!("has {} ids; give {MOST_IDS} at most at a time", ids.len())))
            }
            (ids, _) => these(ids, id),
        }
    }
}

fn these<T>(given: &[T], id: impl Fn(&T) -> Option<i64>) -> Result<Read, Violations> {
    let mut problems = Violations::default();
    let mut ids = Vec::with_capacity(given.len());
    for (n, given) in given.iter().enumerate() {
        match id(given).filter(|id| *id > 0) {
            Some(id) => ids.push(BroadcastId(id)),
            None => problems.add(
                format_args!("notification_ids[{n}]"),
                "is no id of a notification; give a notification_id as it was",
            ),
        }
    }
    if problems.is_empty() { Ok(Read::These(ids)) } else { Err(problems) }
}

impl Inbox {
    /// Returns how many are not read now.
    pub async fn mark(&self, user: &User, read: Result<Read, Violations>) -> Result<i32, Status> {
        let failed = |e: StoreError| status::from_store(&e, "MarkRead");
        let read = read.map_err(|problems| status::invalid(&problems))?;
        if let Read::UpTo(event) = read
            && event.epoch != self.store.inbox_epoch().await.map_err(failed)?
        {
            let problem = "is of a time before the database was restored; list, and give an event_id of now";
            return Err(status::invalid(&Violations::one("up_to_event_id", problem)));
        }
        let number = self.number(user).await.map_err(failed)?;
        let marked = match read {
            Read::These(ids) => self.store.mark_read(number, &ids).await,
            Read::UpTo(event) => self.store.mark_read_up_to(number, event.seq).await,
        };
        marked.map_err(failed)?;
        self.store.unread(number).await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(ids: &[&str], event: &str) -> Result<Read, String> {
        Read::parse(ids, event, |id| id.parse().ok()).map_err(|problems| problems.summary())
    }

    #[test]
    fn what_was_read_is_named_one_way_or_the_other() {
        assert_eq!(parse(&["7", "8"], ""), Ok(Read::These(vec![BroadcastId(7), BroadcastId(8)])));
        assert_eq!(parse(&[], "3-9"), Ok(Read::UpTo(EventId { epoch: 3, seq: 9 })));
        for (ids, event, field) in [
            (&[][..], "", "notification_ids: "),
            (&["7"], "3-9", "notification_ids: "),
            (&[], "9", "up_to_event_id: "),
            (&["7", "-8"], "", "notification_ids[1]: "),
            (&["seven", "0"], "", "notification_ids[0]: "),
            (&["1"; MOST_IDS + 1], "", "notification_ids: "),
        ] {
            let problem = parse(ids, event).expect_err(field);
            assert!(problem.starts_with(field), "{problem}");
        }
        parse(&["1"; MOST_IDS], "").expect("as many as one may give");
    }
}
