//! Many broadcasts to the same users at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bongsu_store::{Acceptance, Audience, Routing, Store, UserNo};

use super::*;
use crate::harness::{self, sql};

const USERS: usize = 30;

/// Reads inboxes until told to stop: whoever sees an event sees all with smaller numbers.
async fn watch(store: Store, stop: Arc<AtomicBool>) -> usize {
    let mut looks = 0;
    while !stop.load(Ordering::Relaxed) {
        let users: Vec<(UserNo, i64)> = (1..=USERS as i64).map(|no| (UserNo(no), 0)).collect();
        let events = store.inbox_after(&users, 1_000).await.unwrap();
        let mut last = BTreeMap::new();
        for event in events {
            let before = last.insert(event.user, event.seq).unwrap_or(0);
            assert_eq!(event.seq, before + 1, "an event came before one with a smaller number");
        }
        looks += 1;
    }
    looks
}

/// Fans out until nothing is left, also where somebody else has the last page in hand.
async fn fan_out_to_the_end(store: &Store) {
    let open = "SELECT count(*) FROM broadcast WHERE state IN ('accepted', 'fanning_out')";
    harness::until(async || {
        fan_out_all(store).await;
        sql(store, open).await == 0
    })
    .await;
}

#[tokio::test]
async fn numbers_have_no_holes_and_come_in_the_order_of_commits_while_twenty_broadcasts_go_to_the_same_users()
{
    let stores = harness::two_stores().await;
    furnish(&stores[0], USERS).await;
    let users: Vec<String> = (0..USERS).map(|n| format!("user-{n}")).collect();
    let _ = stores[0].accept(&routed("known", Audience::users(users.clone()), Routing::Live)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(stores[0].clone(), Arc::clone(&stop)));
    let broadcasts = (0..20).map(|n| {
        let (store, users) = (stores[n % 2].clone(), users.clone());
        tokio::spawn(async move {
            let audience = if n % 3 == 0 { Audience::Everyone } else { Audience::users(users) };
            let accepted =
                store.accept(&routed(&n.to_string(), audience, LIVE[n % LIVE.len()])).await.unwrap();
            assert!(matches!(accepted, Acceptance::New(_)), "{accepted:?}");
            fan_out_all(&store).await;
        })
    });
    for broadcast in broadcasts.collect::<Vec<_>>() {
        broadcast.await.unwrap();
    }
    fan_out_to_the_end(&stores[0]).await;
    stop.store(true, Ordering::Relaxed);
    assert!(watcher.await.unwrap() > 0);
    has_no_holes(&stores[0]).await;
    assert!(inboxes(&stores[0]).await.values().all(|inbox| inbox.len() == 21));
}

#[tokio::test]
async fn hundreds_of_notices_to_the_same_few_users_at_a_time_are_all_accepted() {
    let stores = harness::two_stores().await;
    furnish(&stores[0], 4).await;
    // Overlapping, so that groups want the same rows from different sides.
    let lists = [
        vec!["user-0"],
        vec!["user-0", "user-1"],
        vec!["user-3", "user-0"],
        vec!["user-1", "user-2", "user-3"],
    ];
    let notices = (0..400).map(|n| {
        let store = stores[n % 2].clone();
        let users = lists[n % lists.len()].iter().map(|user| user.to_string()).collect();
        let routing = [Routing::Live, Routing::LiveThenPush, Routing::LiveAndPush, Routing::Push][n / 4 % 4];
        tokio::spawn(async move {
            match store.accept(&routed(&n.to_string(), Audience::users(users), routing)).await.unwrap() {
                Acceptance::New(broadcast) => broadcast.told.len(),
                other => panic!("{other:?}"),
            }
        })
    });
    let mut told = 0;
    for notice in notices.collect::<Vec<_>>() {
        told += notice.await.unwrap();
    }
    has_no_holes(&stores[0]).await;
    let lengths: Vec<usize> = inboxes(&stores[0]).await.values().map(Vec::len).collect();
    // Three of four routings make events, of each list.
    assert_eq!(lengths, [225, 150, 75, 150]);
    assert_eq!(told, 600);
}
