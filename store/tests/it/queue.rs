//! The queue: claim, read, flush, renew, reclaim, sweep.

use std::collections::BTreeSet;
use std::time::Duration;

use bongsu_store::{
    Audience, BroadcastState, Controlled, DeadLetterFilter, DeadReason, DeliveryFilter, DeliveryState,
    DueDelivery, FanOut, Flush, LeasedBatch, Outcome, Reclaim, Verdict, Want,
};

use crate::harness::{self, sql};
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
    let slow = || Verdict::Retry { after: Duration::ZERO, code: "429".into(), charged: false };
    for attempt in 1..=6 {
        let batches = sender.claim().await;
        assert_eq!((batches[0].attempt, batches[0].failures), (attempt, 0));
        sender.settle_all(&batches, |_| slow()).await;
    }
}

#[tokio::test]
async fn a_batch_reclaimed_in_the_middle_offers_only_what_was_not_recorded() {
    let (store, provider) = stage(500).await;
    let id = fanned_out(&store, "k").await;
    let (first, second) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let batch = first.claim().await;
    let due = first.read(&batch).await;
    // Of 500: 100 sent, 100 to be tried again, the rest in flight when the sender dies.
    let mut answered = outcomes(&batch, &due[..200], |_| Verdict::Sent);
    answered[100..].iter_mut().for_each(|o| o.verdict = retry(HOUR));
    assert_eq!(first.flush(Flush { outcomes: answered, ..Flush::default() }).await.recorded, 200);
    expire_leases(&store).await;
    let again = second.claim().await;
    assert_eq!((again.len(), again[0].id, again[0].reclaims), (1, batch[0].id, 1));
    assert!(again[0].epoch > batch[0].epoch);
    assert_eq!(second.read(&again).await.len(), 300);
    second.settle_all(&again, |_| Verdict::Sent).await;
    let counts = counts(&store, id).await;
    assert_eq!((counts.sent, counts.retrying, counts.total), (400, 100, 500));
}

#[tokio::test]
async fn late_outcome_is_fenced_after_reclaim_but_a_late_sent_still_counts_once() {
    let (store, provider) = stage(2).await;
    let id = fanned_out(&store, "k").await;
    let (stale, owner) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let lost = stale.claim().await;
    let due = stale.read(&lost).await;
    expire_leases(&store).await;
    let held = owner.claim().await;
    let late = |d: &DueDelivery, verdict| Flush {
        outcomes: vec![Outcome { batch: lost[0], device: d.device, verdict }],
        closed: lost.clone(),
        gone: vec![],
    };
    let failure = stale.flush(late(&due[0], exhausted())).await;
    assert_eq!((failure.recorded, failure.fenced), (0, 1));
    let success = stale.flush(late(&due[1], Verdict::Sent)).await;
    assert_eq!((success.recorded, success.fenced), (1, 0));
    // The owner read both before, and answers both.
    let outcomes = outcomes(&held, &due, |_| Verdict::Sent);
    let by_owner = owner.flush(Flush { outcomes, closed: held, gone: vec![] }).await;
    assert_eq!((by_owner.recorded, by_owner.stale), (1, 1));
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    assert_eq!(counts(&store, id).await.sent, 2);
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
        gone: vec![],
    };
    assert_eq!(sender.flush(flush()).await.recorded, 10);
    assert_eq!(sender.flush(flush()).await.recorded, 0);
    assert_eq!(counts(&store, id).await.sent, 10);
}

#[tokio::test]
async fn renewal_keeps_what_is_held_and_tells_what_is_lost() {
    let (store, provider) = stage(1_000).await;
    fanned_out(&store, "k").await;
    let (first, second) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let batches = first.claim().await;
    sql(
        &store,
        "UPDATE batch SET lease_expires_at = now() - interval '1 s' WHERE id = (SELECT min(id) FROM batch) RETURNING 1::bigint",
    )
    .await;
    let taken = second.claim().await;
    assert_eq!(taken.len(), 1);
    let kept = store.control_lane(first.id).renew(&batches, LEASE).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_ne!(kept[0], taken[0].id);
    // An owner whose lease ran out, and whom nobody replaced, keeps its batch.
    expire_leases(&store).await;
    assert_eq!(store.control_lane(second.id).renew(&taken, LEASE).await.unwrap(), [taken[0].id]);
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
async fn only_a_sender_without_lock_and_heartbeat_is_taken_for_dead() {
    let (store, provider) = stage(10).await;
    fanned_out(&store, "k").await;
    let (victim, survivor) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let mut lifeline = store.control_lane(victim.id);
    let mut watcher = store.control_lane(survivor.id);
    lifeline.heartbeat(0, &[]).await.unwrap();
    watcher.heartbeat(0, &[]).await.unwrap();
    let batches = victim.claim().await;
    assert_eq!(watcher.revoke_dead(Duration::from_secs(3_600), now()).await.unwrap(), 0, "heard of lately");
    assert_eq!(watcher.revoke_dead(Duration::ZERO, now()).await.unwrap(), 0, "silent, but its session lives");
    lifeline.close().await;
    harness::until(async || watcher.revoke_dead(Duration::ZERO, now()).await.unwrap() == 1).await;
    // A false alarm: it lives after all, and renews before anybody claimed.
    assert_eq!(store.control_lane(victim.id).renew(&batches, LEASE).await.unwrap().len(), 1);
    assert!(survivor.claim().await.is_empty());
    assert_eq!(watcher.revoke_dead(Duration::ZERO, now()).await.unwrap(), 1);
    assert_eq!(survivor.claim().await.len(), 1);
}

#[tokio::test]
async fn a_heartbeat_from_before_postgres_started_proves_nothing() {
    let (store, provider) = stage(10).await;
    fanned_out(&store, "k").await;
    let (victim, survivor) = (Sender::new(&store, provider), Sender::new(&store, provider));
    store.control_lane(victim.id).heartbeat(0, &[]).await.unwrap();
    victim.claim().await;
    sql(
        &store,
        "UPDATE sender SET heartbeat_at = pg_postmaster_start_time() - interval '1 s' RETURNING 1::bigint",
    )
    .await;
    assert_eq!(store.control_lane(survivor.id).revoke_dead(Duration::ZERO, now()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_claim_that_lay_in_the_queue_of_a_server_which_stood_still_takes_nothing_of_others() {
    let (store, provider) = stage(500).await;
    fanned_out(&store, "k").await;
    let (owner, other) = (Sender::new(&store, provider), Sender::new(&store, provider));
    owner.claim().await;
    // All that ran out ran out while nobody could renew; the claim was sent before that.
    expire_leases(&store).await;
    let sent_before = Reclaim { up: Duration::ZERO, heartbeat_at: now() - Duration::from_secs(30) };
    let want = Want { provider, batches: 1, deliveries: 1_000, floor: i64::MIN };
    let mut lane = store.claim_lane(other.id);
    assert!(lane.claim(&[want], LEASE, Some(sent_before), &[]).await.unwrap().is_empty());
    assert!(lane.claim_probe(provider, LEASE, Some(sent_before), &[]).await.unwrap().is_none());
    assert_eq!(lane.claim(&[want], LEASE, reclaim(), &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_is_called_dead_by_a_look_that_lay_in_the_queue_of_a_server_which_stood_still() {
    let (store, provider) = stage(5).await;
    fanned_out(&store, "k").await;
    let (victim, survivor) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let mut lane = store.control_lane(victim.id);
    lane.heartbeat(0, &[]).await.unwrap();
    victim.claim().await;
    lane.close().await;
    let mut onlooker = store.control_lane(survivor.id);
    let before = now() - Duration::from_secs(30);
    assert_eq!(onlooker.revoke_dead(Duration::ZERO, before).await.unwrap(), 0);
    harness::until(async || onlooker.revoke_dead(Duration::ZERO, now()).await.unwrap() == 1).await;
}

#[tokio::test]
async fn a_token_called_gone_retires_its_device_unless_it_registered_again_meanwhile() {
    let (store, provider) = stage(2).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let again = due.iter().find(|d| d.target().unwrap().token == "token-1").unwrap().device;
    store.register(&registration(provider, 1)).await.unwrap();
    let gone = due
        .iter()
        .map(|d| bongsu_store::Gone {
            device: d.device,
            token: d.target().unwrap().token.clone(),
            registered_at: d.target().unwrap().registered_at,
        })
        .collect();
    let unregistered =
        |_| Verdict::Dead { reason: DeadReason::Unregistered, code: "410".into(), detail: String::new() };
    let outcomes = outcomes(&batches, &due, unregistered);
    assert_eq!(sender.flush(Flush { outcomes, closed: batches, gone }).await.recorded, 2);
    for d in due {
        let device = store.device(d.device).await.unwrap().unwrap();
        assert_eq!(device.retired_at.is_none(), d.device == again);
    }
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

#[tokio::test]
async fn leases_that_ran_out_are_left_alone_while_postgres_was_just_away() {
    let (store, provider) = stage(5).await;
    fanned_out(&store, "k").await;
    Sender::new(&store, provider).claim().await;
    expire_leases(&store).await;
    let other = Sender::new(&store, provider);
    let want = Want { provider, batches: 1, deliveries: 1, floor: i64::MIN };
    assert!(store.claim_lane(other.id).claim(&[want], LEASE, None, &[]).await.unwrap().is_empty());
    assert!(
        store
            .claim_lane(other.id)
            .claim(&[want], LEASE, reclaim().map(|r| Reclaim { up: 100 * 365 * 24 * HOUR, ..r }), &[])
            .await
            .unwrap()
            .is_empty(),
        "just started"
    );
    assert_eq!(store.claim_lane(other.id).claim(&[want], LEASE, reclaim(), &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_sender_renews_its_own_leases_and_never_reclaims_them() {
    let (store, provider) = stage(5).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let held = sender.claim().await;
    expire_leases(&store).await;
    assert!(
        sender.claim_beside(&held).await.is_empty(),
        "a second lease beside the first would call everybody twice"
    );
    assert_eq!(store.control_lane(sender.id).renew(&held, LEASE).await.unwrap().len(), 1);
    // One that it does not know of, since a claim's answer was lost, it takes like anybody's.
    expire_leases(&store).await;
    assert_eq!(sender.claim_beside(&[]).await.len(), 1);
}

#[tokio::test]
async fn a_survivor_takes_over_no_more_than_it_asked_for() {
    let (store, provider) = stage(10_000).await;
    fanned_out(&store, "k").await;
    let (victim, survivor) = (Sender::new(&store, provider), Sender::new(&store, provider));
    assert_eq!(victim.claim().await.len(), 20);
    expire_leases(&store).await;
    let taken: i32 = survivor.claim_up_to(2_000).await.iter().map(|b| b.size).sum();
    assert_eq!(taken, 1_000, "half of it, as for retries");
}

#[tokio::test]
async fn a_sender_whose_session_was_cut_takes_its_lock_again_with_the_next_heartbeat() {
    let (store, provider) = stage(1).await;
    let mut lane = store.control_lane(Sender::new(&store, provider).id);
    lane.heartbeat(0, &[]).await.unwrap();
    let locks = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(sql(&store, locks).await, 1);
    let cut =
        "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
               WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    sql(&store, cut).await;
    harness::until(async || sql(&store, locks).await == 0).await;
    assert!(lane.heartbeat(0, &[]).await.is_err(), "it notices");
    // Something else opens the next session.
    lane.flags(&[]).await.unwrap();
    lane.heartbeat(0, &[]).await.unwrap();
    assert_eq!(sql(&store, locks).await, 1, "else others would take it for dead");
}
