//! What is paused, cancelled, expired or scheduled.

use std::time::Duration;

use bongsu_store::{Audience, BroadcastState, Controlled, Expiry, FanOut, Routing, Store};

use super::*;
use crate::harness::{self, sql};

/// Devices of as many users: three pages.
const DEVICES: usize = 4_500;

async fn accepted(store: &Store, new: &NewBroadcast) -> BroadcastId {
    let bongsu_store::Acceptance::New(broadcast) = store.accept(new).await.unwrap() else { panic!("new") };
    broadcast.id
}

/// Makes one page, and returns how many were told.
async fn page(store: &Store) -> usize {
    let FanOut::Page { told, .. } = store.fan_out_page().await.unwrap() else { panic!("a page") };
    told.len()
}

async fn pause(store: &Store, id: BroadcastId) {
    assert!(matches!(store.pause_broadcast(id).await.unwrap(), Controlled::Done(_)));
}

async fn expire(store: &Store) {
    sql(
        store,
        "UPDATE broadcast SET created_at = now() - interval '1 hour', expires_at = now() RETURNING id",
    )
    .await;
}

#[tokio::test]
async fn a_paused_one_makes_no_event_until_it_is_resumed_and_then_all_of_them() {
    let (store, _) = stage(DEVICES).await;
    for routing in LIVE {
        let id = accepted(&store, &routed(&format!("{routing:?}"), Audience::Everyone, routing)).await;
        pause(&store, id).await;
        assert_eq!(store.fan_out_page().await.unwrap(), FanOut::Idle);
        let _ = store.resume_broadcast(id).await.unwrap();
        let first = page(&store).await;
        assert!((1..DEVICES).contains(&first), "{first} events in the first page");
        pause(&store, id).await;
        assert_eq!(store.fan_out_page().await.unwrap(), FanOut::Idle, "half-way, too");
        assert_eq!(users_of(&store, id).await.len(), first);
        let _ = store.resume_broadcast(id).await.unwrap();
        fan_out_all(&store).await;
        assert_eq!(users_of(&store, id).await.len(), DEVICES);
    }
    has_no_holes(&store).await;
}

#[tokio::test]
async fn a_paused_push_is_fanned_out_as_ever_and_keeps_nobody_waiting() {
    let (store, _) = stage(3).await;
    let live = accepted(&store, &routed("live", Audience::Everyone, Routing::Live)).await;
    let push = accepted(&store, &routed("push", Audience::Everyone, Routing::Push)).await;
    pause(&store, live).await;
    pause(&store, push).await;
    fan_out_all(&store).await;
    assert_eq!((counts(&store, push).await.total, users_of(&store, live).await.len()), (3, 0));
}

#[tokio::test]
async fn one_that_expires_before_or_during_its_fan_out_makes_no_more_events_and_ends() {
    let (store, _) = stage(DEVICES).await;
    for routing in LIVE {
        for (when, pages) in [("before", 0), ("during", 1)] {
            let id =
                accepted(&store, &routed(&format!("{routing:?} {when}"), Audience::Everyone, routing)).await;
            let mut made = 0;
            for _ in 0..pages {
                made += page(&store).await;
            }
            // Nobody may resume it any more.
            pause(&store, id).await;
            expire(&store).await;
            fan_out_all(&store).await;
            sweep_all(&store).await;
            assert_eq!(users_of(&store, id).await.len(), made, "{routing:?}, {when}");
            assert_eq!(state(&store, id).await, BroadcastState::Completed, "{routing:?}, {when}");
            let counts = counts(&store, id).await;
            assert_eq!(counts.expired as usize, if routing.pushes() { DEVICES } else { 0 });
            assert_eq!(counts.total, counts.expired);
        }
    }
    has_no_holes(&store).await;
}

#[tokio::test]
async fn one_that_is_cancelled_during_its_fan_out_makes_no_more_events_and_ends() {
    let (store, _) = stage(DEVICES).await;
    for routing in LIVE {
        let id = accepted(&store, &routed(&format!("{routing:?}"), Audience::Everyone, routing)).await;
        let made = page(&store).await;
        let _ = store.cancel_broadcast(id).await.unwrap();
        fan_out_all(&store).await;
        sweep_all(&store).await;
        assert_eq!(users_of(&store, id).await.len(), made);
        assert_eq!(state(&store, id).await, BroadcastState::Cancelled);
        assert!(store.live_contents(&[id]).await.unwrap()[&id].over, "what was made is not shown");
    }
}

#[tokio::test]
async fn a_scheduled_one_makes_its_events_when_it_starts_and_none_where_it_expired_before() {
    let (store, _) = stage(3).await;
    let later = |key: &str| NewBroadcast {
        schedule: Some(now() + time::Duration::HOUR),
        expiry: Expiry::After(Duration::from_secs(60)),
        ..routed(key, Audience::users(vec!["user-1".into(), "nobody".into()]), Routing::LiveThenPush)
    };
    let (starts, lapses) =
        (accepted(&store, &later("starts")).await, accepted(&store, &later("lapses")).await);
    assert_eq!(store.fan_out_page().await.unwrap(), FanOut::Idle);
    sql(&store, "UPDATE broadcast SET scheduled_at = now() - interval '2 minutes' RETURNING id").await;
    sqlx::query(
        "UPDATE broadcast SET created_at = now() - interval '1 hour', expires_at = now() WHERE id = $1",
    )
    .bind(lapses.0)
    .execute(store.test_pool())
    .await
    .unwrap();
    assert_eq!(store.start_due().await.unwrap().len(), 2);
    fan_out_all(&store).await;
    assert_eq!(users_of(&store, starts).await, ["nobody", "user-1"]);
    assert_eq!(counts(&store, starts).await.total, 1);
    assert_eq!(
        (users_of(&store, lapses).await.len(), state(&store, lapses).await),
        (0, BroadcastState::Completed)
    );
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_of_a_page_repeats_and_loses_no_event() {
    let [dies, lives] = harness::two_stores().await;
    furnish(&dies, DEVICES).await;
    let first = accepted(&dies, &routed("first", Audience::Everyone, Routing::LiveAndPush)).await;
    fan_out_all(&dies).await;
    let id = accepted(&dies, &routed("second", Audience::Everyone, Routing::LiveAndPush)).await;
    let made = page(&dies).await;

    // It gets as far as this user of the second page, and no further.
    let mut tx = lives.test_pool().begin().await.unwrap();
    let stop = "SELECT 1 FROM inbox_user WHERE user_id = 'user-3000' FOR UPDATE";
    sqlx::query(stop).execute(&mut *tx).await.unwrap();
    let task = tokio::spawn({
        let dies = dies.clone();
        async move { dies.fan_out_page().await }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO inbox_user%'";
    harness::until(async || sql(&lives, waiting).await == 1).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    drop(dies);
    assert_eq!(users_of(&lives, id).await.len(), made, "nothing of that page is there");
    tx.rollback().await.unwrap();

    harness::until(async || {
        let _ = lives.fan_out_page().await.unwrap();
        state(&lives, id).await == BroadcastState::Delivering
    })
    .await;
    for id in [first, id] {
        assert_eq!(users_of(&lives, id).await.len(), DEVICES);
        assert_eq!(counts(&lives, id).await.total as usize, DEVICES);
    }
    has_no_holes(&lives).await;
}
