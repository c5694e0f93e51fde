//! A provider's rate limit: slots are given away once, one after the other, and never afterwards.

use std::time::Duration;

use bongsu_store::{Audience, PACED_AHEAD, PACED_SHARE, Reserved};
use tokio::task::JoinSet;

use crate::harness::sql;
use crate::stage::*;

/// From the first slot to the end of the last, by the database's clock, in seconds.
fn span(reserved: &Reserved) -> (f64, f64) {
    let begins = reserved.at + reserved.begins_in.as_secs_f64();
    (begins, begins + reserved.step().as_secs_f64() * f64::from(reserved.slots))
}

#[tokio::test]
async fn senders_that_reserve_at_once_get_slots_that_follow_each_other_and_none_far_ahead() {
    let (store, provider) = stage(0).await;
    assert_eq!(store.pace_provider(provider, Some(1_000)).await.unwrap(), Some(None));
    let mut reserving = JoinSet::new();
    for _ in 0..8 {
        let mut lane = store.pace_lane();
        reserving.spawn(async move {
            let mut all = vec![];
            for _ in 0..10 {
                all.push(lane.reserve(provider, 20).await.unwrap());
            }
            all
        });
    }
    let all = reserving.join_all().await.concat();
    let mut spans: Vec<_> = all.iter().filter(|r| r.slots > 0).map(span).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(spans.len() > 1, "{all:?}");
    for pair in spans.windows(2) {
        assert!(pair[1].0 > pair[0].1 - 0.000_01, "two senders have the same slots: {pair:?}");
    }
    let step = 1.0 / (1_000.0 * PACED_SHARE);
    for reserved in &all {
        // Not by the clock's seconds, which are too many to tell microseconds.
        let ahead =
            reserved.begins_in.as_secs_f64() + reserved.step().as_secs_f64() * f64::from(reserved.slots);
        assert!(reserved.slots == 0 || ahead <= PACED_AHEAD.as_secs_f64() + step + 0.000_01, "{reserved:?}");
        assert!(reserved.slots <= 20);
    }
}

#[tokio::test]
async fn what_was_let_pass_is_not_given_away_later() {
    let (store, provider) = stage(0).await;
    store.pace_provider(provider, Some(1_000)).await.unwrap();
    let long_ago = "UPDATE provider_pace SET paced_until = now() - interval '1 hour' RETURNING 1::bigint";
    sql(&store, long_ago).await;
    let reserved = store.pace_lane().reserve(provider, 1_000_000).await.unwrap();
    assert!(reserved.begins_in > Duration::ZERO);
    let most = PACED_AHEAD.as_secs_f64() * 1_000.0 * PACED_SHARE;
    assert!(f64::from(reserved.slots) <= most, "{reserved:?}");
}

#[tokio::test]
async fn a_rate_of_one_gives_one_slot_a_second() {
    let (store, provider) = stage(0).await;
    store.pace_provider(provider, Some(1)).await.unwrap();
    let mut lane = store.pace_lane();
    assert_eq!(lane.reserve(provider, 10).await.unwrap().slots, 1);
    let next = lane.reserve(provider, 10).await.unwrap();
    assert_eq!(next.slots, 0, "the next one is further ahead than anything is given away");
    assert!(next.begins_in > Duration::from_millis(800));
}

#[tokio::test]
async fn the_rate_is_that_of_whoever_set_it_last_and_all_hear_of_it() {
    let (store, provider) = stage(0).await;
    assert_eq!(store.pace_provider(provider, None).await.unwrap(), None, "there was none");
    let mut lane = store.pace_lane();
    assert_eq!(lane.reserve(provider, 10).await.unwrap().per_second, None);
    assert_eq!(store.pace_provider(provider, Some(500)).await.unwrap(), Some(None));
    assert_eq!(store.pace_provider(provider, Some(500)).await.unwrap(), None, "as before");
    assert_eq!(store.pace_provider(provider, Some(400)).await.unwrap(), Some(Some(500)));
    let sender = Sender::new(&store, provider);
    let signals = store.control_lane(sender.id).signals(&[provider]).await.unwrap()[0];
    assert_eq!(signals.per_second, Some(400));
    assert_eq!(lane.reserve(provider, 10).await.unwrap().per_second, Some(400));
    assert_eq!(store.pace_provider(provider, None).await.unwrap(), Some(Some(400)));
    let none = lane.reserve(provider, 10).await.unwrap();
    assert_eq!((none.per_second, none.slots), (None, 0));
}

#[tokio::test]
async fn whoever_has_work_in_hand_gets_only_what_goes_before_it() {
    let (store, provider) = stage(1_500).await;
    fanned_out(&store, "large").await;
    let sender = Sender::new(&store, provider);
    let mine = sender.claim_up_to(1).await[0];
    assert!(sender.claim_before(mine.rank).await.is_empty(), "the rest of it has time");
    let urgent =
        accept(&store, "urgent", Audience::users((0..3).map(|n| format!("user-{n}")).collect())).await.id;
    let before = sender.claim_before(mine.rank).await;
    assert_eq!(before.iter().map(|batch| (batch.broadcast, batch.size)).collect::<Vec<_>>(), [(urgent, 3)]);
}
