//! The queue: claim, read, flush, give back, sweep.

use std::collections::BTreeSet;
use std::time::Duration;

use bongsu_store::{
    Audience, BroadcastState, Controlled, DeadLetterFilter, DeadReason, DeliveryFilter, DeliveryState,
    FanOut, Flush, LeasedBatch, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

#[tokio::test]
async fn senders_that_claim_at_once_share_the_work_and_never_a_batch() {
    let (store, provider) = stage(10_000).await;
    fanned_out(&store, "k").await;
    let claims: Vec<_> = (0..8)
        .map(|_| {
            let sender = Sender::new(&store, provider);
            tokio::spawn(async move { sender.claim_up_to(1_500).await })
        })
        .collect();
    let mut seen = BTreeSet::new();
    for claim in claims {
        for batch in claim.await.unwrap() {
            assert!(seen.insert(batch.id), "claimed twice");
        }
    }
    let rest = Sender::new(&store, provider).claim().await;
    assert_eq!(seen.len() + rest.len(), 20, "and all of it is offered");
}

#[tokio::test]
async fn a_claim_takes_no_more_than_it_asked_for_by_less_than_a_batch() {
    let (store, provider) = stage(10_000).await;
    fanned_out(&store, "k").await;
    let sizes = |batches: Vec<LeasedBatch>| batches.iter().map(|b| b.size).sum::<i32>();
    let sender = Sender::new(&store, provider);
    assert_eq!(sizes(sender.claim_up_to(1).await), 500);
    assert_eq!(sizes(sender.claim_up_to(1_001).await), 1_500);
    assert_eq!(sizes(sender.claim_up_to(1_000).await), 1_000);
}

#[tokio::test]
async fn a_broadcast_completes_when_its_last_delivery_is_settled_and_its_counts_add_up() {
    let (store, provider) = stage(1_000).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let flushed = sender
        .settle(&batches, |d| match d.0 % 5 {
            0 => exhausted(),
            1 => Verdict::Skipped,
            2 => Verdict::Expired,
            3 => Verdict::Cancelled,
            _ => Verdict::Sent,
        })
        .await;
    assert_eq!((flushed.recorded, flushed.fenced, flushed.stale), (1_000, 0, 0));
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    let counts = counts(&store, id).await;
    assert_eq!(
        (counts.total, counts.sent, counts.dead(), counts.expired, counts.skipped, counts.cancelled),
        (1_000, 200, 200, 200, 200, 200)
    );
    assert_eq!(sql(&store, "SELECT count(*) FROM batch").await, 0);
    let letters =
        store.list_dead_letters(&DeadLetterFilter { limit: 1_000, ..Default::default() }).await.unwrap();
    assert_eq!(letters.len(), 200);
    assert_eq!((letters[0].reason, letters[0].code.as_str()), (DeadReason::AttemptsExhausted, "503"));
}

#[tokio::test]
async fn a_broadcast_is_not_complete_while_it_is_fanned_out_or_a_batch_is_open() {
    let (store, provider) = stage(10_001).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    let sender = Sender::new(&store, provider);
    assert!(matches!(store.fan_out_page().await.unwrap(), FanOut::Page { .. }));
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    assert!(store.complete_broadcasts(&[id]).await.unwrap().is_empty(), "still fanning out");
    fan_out_all(&store).await;
    let rest = sender.claim().await;
    assert!(store.complete_broadcasts(&[id]).await.unwrap().is_empty(), "one batch is leased");
    sender.settle_all(&rest, |_| Verdict::Sent).await;
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    assert_eq!(counts(&store, id).await.sent, 10_001);
}

#[tokio::test]
async fn two_flushes_that_close_the_last_two_batches_at_once_complete_the_broadcast() {
    for round in 0..10 {
        let (store, provider) = stage(1_000).await;
        let id = fanned_out(&store, &format!("k{round}")).await;
        let (one, two) = (Sender::new(&store, provider), Sender::new(&store, provider));
        let (first, second) = (one.claim_up_to(1).await, two.claim_up_to(1).await);
        let close = async |sender: &Sender, batches: &[LeasedBatch]| {
            let flushed = sender.settle(batches, |_| Verdict::Sent).await;
            let touched: Vec<_> = flushed.touched.into_iter().collect();
            sender.store.complete_broadcasts(&touched).await.unwrap().len()
        };
        let (a, b) = tokio::join!(close(&one, &first), close(&two, &second));
        assert_eq!(a + b, 1, "exactly one of them completes it");
        assert_eq!(state(&store, id).await, BroadcastState::Completed);
    }
}

#[tokio::test]
async fn a_retry_is_claimed_when_it_is_due_and_not_before() {
    let (store, provider) = stage(10).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let before = sql(&store, clock).await;
    sender.settle_all(&sender.claim().await, |_| retry(Duration::from_secs(30))).await;
    let after = sql(&store, clock).await;
    let retrying = counts(&store, id).await;
    assert_eq!((retrying.pending(), retrying.retrying, retrying.retried), (10, 10, 10));
    assert!(sender.claim().await.is_empty(), "not due");
    let same = "SELECT count(*) FROM delivery d JOIN batch b ON b.attempt = 2 WHERE d.next_attempt_at = b.next_attempt_at";
    assert_eq!(sql(&store, same).await, 10, "delivery and batch say the same");
    let due = sql(
        &store,
        "SELECT (extract(epoch FROM next_attempt_at) * 1000)::bigint FROM batch WHERE attempt = 2",
    )
    .await;
    assert!(
        (before + 30_000..=after + 33_100).contains(&due),
        "never earlier than asked, and a tenth later at most"
    );
    sql(
        &store,
        "UPDATE batch SET next_attempt_at = now() - interval '1 hour' WHERE attempt = 2 RETURNING 1::bigint",
    )
    .await;
    let again = sender.claim().await;
    assert_eq!((again.len(), again[0].attempt, again[0].failures), (1, 2, 1), "due means due, however late");
    sender.settle_all(&again, |_| Verdict::Sent).await;
    store.complete_broadcasts(&[id]).await.unwrap();
    let done = counts(&store, id).await;
    assert_eq!((done.sent, done.retried, done.pending()), (10, 10, 0));
}

#[tokio::test]
async fn slowing_down_does_not_count_as_a_failure() {
    let (store, provider) = stage(1).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let slow = || Verdict::Retry {
        after: Duration::ZERO,
        code: "429".into(),
        detail: String::new(),
        charged: false,
    };
    for attempt in 1..=6 {
        let batches = sender.claim().await;
        assert_eq!((batches[0].attempt, batches[0].failures), (attempt, 0));
        sender.settle_all(&batches, |_| slow()).await;
    }
}

#[tokio::test]
async fn a_flush_whose_answer_was_lost_can_be_written_again() {
    let (store, provider) = stage(10).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let flush = || Flush {
        outcomes: outcomes(&batches, &due, |_| Verdict::Sent),
        closed: batches.clone(),
        unfit: vec![],
    };
    assert_eq!(sender.flush(flush()).await.recorded, 10);
    assert_eq!(sender.flush(flush()).await.recorded, 0);
    assert_eq!(counts(&store, id).await.sent, 10);
}

#[tokio::test]
async fn released_work_is_offered_again_at_once_with_nothing_charged() {
    let (store, provider) = stage(1_000).await;
    fanned_out(&store, "k").await;
    let (leaving, staying) = (Sender::new(&store, provider), Sender::new(&store, provider));
    leaving.settle_all(&leaving.claim_up_to(1).await, |_| retry(Duration::ZERO)).await;
    assert_eq!(leaving.claim().await.len(), 2);
    assert_eq!(store.control_lane(leaving.id).release().await.unwrap(), 2);
    let mut attempts: Vec<_> =
        staying.claim().await.iter().map(|b| (b.attempt, b.failures, b.reclaims)).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [(1, 0, 0), (2, 1, 0)]);
}

#[tokio::test]
async fn a_cancelled_broadcast_is_not_claimed_any_more_and_every_delivery_ends() {
    let (store, provider) = stage(20_000).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    assert!(matches!(store.fan_out_page().await.unwrap(), FanOut::Page { .. }));
    let sender = Sender::new(&store, provider);
    let leased = sender.claim_up_to(1).await;
    assert!(matches!(store.cancel_broadcast(id).await.unwrap(), Controlled::Done(_)));
    assert_eq!(store.fan_out_page().await.unwrap(), FanOut::Idle);
    assert!(sender.claim().await.is_empty());
    sweep_all(&store).await;
    assert_eq!(state(&store, id).await, BroadcastState::Cancelling, "one batch is in its owner's hands");
    // What the provider answered is recorded as answered; a failure is not tried again but swept.
    let flushed = sender
        .settle(&leased, |d| if d.0 % 2 == 0 { Verdict::Sent } else { retry(Duration::from_secs(2)) })
        .await;
    assert_eq!(flushed.recorded, 500);
    sweep_all(&store).await;
    assert_eq!(state(&store, id).await, BroadcastState::Cancelled);
    let counts = counts(&store, id).await;
    assert_eq!((counts.total, counts.sent, counts.cancelled), (10_000, 250, 9_750));
    assert!(matches!(store.cancel_broadcast(id).await.unwrap(), Controlled::Done(_)), "again is harmless");
    assert_eq!(sql(&store, "SELECT count(*) FROM delivery WHERE state = 'pending'").await, 0);
}

#[tokio::test]
async fn an_expired_broadcast_is_not_claimed_and_ends_expired() {
    let (store, provider) = stage(1_500).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim_up_to(1).await, |_| retry(HOUR)).await;
    sql(
        &store,
        "UPDATE broadcast SET created_at = created_at - interval '2 days', expires_at = now() RETURNING id",
    )
    .await;
    assert!(sender.claim().await.is_empty());
    sweep_all(&store).await;
    let counts = counts(&store, id).await;
    assert_eq!(
        (state(&store, id).await, counts.expired, counts.pending()),
        (BroadcastState::Completed, 1_500, 0)
    );
    let filter = DeliveryFilter {
        broadcast: id,
        states: vec![DeliveryState::Expired],
        provider: None,
        after: None,
        limit: 5,
    };
    assert_eq!(store.list_deliveries(&filter).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_broadcast_left_uncompleted_by_a_crash_is_completed_by_the_sweep() {
    let (store, provider) = stage(5).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    assert_eq!(state(&store, id).await, BroadcastState::Delivering);
    sweep_all(&store).await;
    assert_eq!(state(&store, id).await, BroadcastState::Completed);
}

#[tokio::test]
async fn a_small_broadcast_overtakes_a_huge_one_and_equal_ones_take_turns() {
    let (store, provider) = stage(20_000).await;
    let huge = fanned_out(&store, "huge").await;
    let other = fanned_out(&store, "other").await;
    let sender = Sender::new(&store, provider);
    let mine = sender.claim_up_to(10_000).await;
    let of_huge: i32 = mine.iter().filter(|b| b.broadcast == huge).map(|b| b.size).sum();
    assert_eq!(of_huge, 5_000, "equal ones take turns");
    // What the sender publishes with its heartbeat.
    let vtime = mine.iter().map(|b| b.rank).max().unwrap();
    store.control_lane(sender.id).heartbeat(0, &[(provider, vtime)]).await.unwrap();
    let small = accept(&store, "small", Audience::users(vec!["user-5".into()])).await.id;
    let next = sender.claim_up_to(1).await;
    assert_eq!(next[0].broadcast, small, "before {huge} and {other}");
}

#[tokio::test]
async fn a_provider_that_asked_for_a_pause_gets_no_work_until_it_is_over() {
    let (store, provider) = stage(5).await;
    fanned_out(&store, "k").await;
    store.hold_provider(provider, HOUR).await.unwrap();
    store.hold_provider(provider, Duration::ZERO).await.unwrap();
    let sender = Sender::new(&store, provider);
    assert!(sender.claim().await.is_empty());
    sql(&store, "UPDATE provider SET held_until = now() RETURNING 1::bigint").await;
    assert_eq!(sender.claim().await.len(), 1);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_back() {
    let (store, provider) = stage(1_000).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let mut lane = store.claim_lane(sender.id);
    assert_eq!(lane.release_beside(&batches[..1]).await.unwrap(), 1);
    assert_eq!(sender.claim().await.len(), 1);
}
