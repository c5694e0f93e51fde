//! The live channel: events, numbered by user.

mod control;
mod crowd;
mod making;
mod retention;

use std::collections::BTreeMap;

use bongsu_store::{Audience, BroadcastId, NewBroadcast, Routing, Store};

use crate::stage::*;

/// The routings that make events.
pub const LIVE: [Routing; 3] = [Routing::Live, Routing::LiveThenPush, Routing::LiveAndPush];

pub fn routed(key: &str, audience: Audience, routing: Routing) -> NewBroadcast {
    let ack_timeout = (routing == Routing::LiveThenPush).then_some(bongsu_store::DEFAULT_ACK_TIMEOUT);
    NewBroadcast { routing, ack_timeout, ..new_broadcast(key, audience) }
}

/// The inbox of each user who has a number: numbers and broadcasts, in order.
pub async fn inboxes(store: &Store) -> BTreeMap<String, Vec<(i64, BroadcastId)>> {
    let rows: Vec<(String, Option<i64>, Option<i64>)> = sqlx::query_as(
        "SELECT u.user_id, i.seq, i.broadcast_id FROM inbox_user u LEFT JOIN inbox i ON i.user_no = u.id ORDER BY i.seq",
    )
    .fetch_all(store.test_pool())
    .await
    .unwrap();
    let mut inboxes: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (user, seq, broadcast) in rows {
        let inbox = inboxes.entry(user).or_default();
        inbox.extend(seq.zip(broadcast.map(BroadcastId)));
    }
    inboxes
}

/// Who has an event of this broadcast; fails where anybody has two.
pub async fn users_of(store: &Store, id: BroadcastId) -> Vec<String> {
    let mut users = vec![];
    for (user, inbox) in inboxes(store).await {
        let events = inbox.iter().filter(|(_, broadcast)| *broadcast == id).count();
        assert!(events <= 1, "{user} has {events} events of one broadcast");
        users.extend((events == 1).then_some(user));
    }
    users
}

/// Fails unless the numbers of each user are 1, 2, 3 …
pub async fn has_no_holes(store: &Store) {
    for (user, inbox) in inboxes(store).await {
        let numbers: Vec<i64> = inbox.iter().map(|(seq, _)| *seq).collect();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as i64), "{user}: {numbers:?}");
    }
}
