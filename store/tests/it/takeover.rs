//! Whose work it is: leases, renewal, fences, and taking over from senders that died or stood still.

use std::time::Duration;

use bongsu_store::{DueDelivery, Flush, Outcome, Reclaim, Verdict, Want};

use crate::harness::{self, sql};
use crate::stage::*;

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
async fn a_batch_that_ended_three_senders_goes_on_in_batches_of_one_and_its_books_balance() {
    let (store, provider) = stage(20).await;
    let id = fanned_out(&store, "k").await;
    for reclaims in 0..3 {
        let held = Sender::new(&store, provider).claim().await;
        assert_eq!((held[0].reclaims, held[0].is_suspect()), (reclaims, false));
        expire_leases(&store).await;
    }
    let sender = Sender::new(&store, provider);
    let held = sender.claim().await;
    assert_eq!((held.len(), held[0].is_suspect()), (1, true));
    sender.settle_all(&held, |_| Verdict::Alone).await;
    let single = sender.claim().await;
    assert_eq!(single.len(), 20);
    assert!(single.iter().all(|b| (b.size, b.attempt, b.failures, b.is_suspect()) == (1, 2, 0, false)));
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    sender.settle_all(&single, |_| Verdict::Sent).await;
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    assert_eq!(counts(&store, id).await.sent, 20);
}

#[tokio::test]
async fn what_goes_on_ending_senders_is_taken_up_later_each_time_and_within_a_minute() {
    let (store, provider) = stage(1).await;
    fanned_out(&store, "k").await;
    let taken_after = async |seconds: i32| {
        sqlx::query(
            "UPDATE batch SET lease_expires_at = now() - $1 * interval '1 second' WHERE state = 'leased'",
        )
        .bind(seconds)
        .execute(store.test_pool())
        .await
        .unwrap();
        Sender::new(&store, provider).claim().await.len() == 1
    };
    assert!(taken_after(0).await, "as fresh work");
    for _ in 0..3 {
        assert!(taken_after(0).await);
    }
    for (too_soon, due) in [(3, 8), (8, 16), (16, 32), (30, 60), (30, 60)] {
        assert!(!taken_after(too_soon).await, "after {too_soon} s");
        assert!(taken_after(due).await, "after {due} s");
    }
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
        unfit: vec![],
    };
    let failure = stale.flush(late(&due[0], exhausted())).await;
    assert_eq!((failure.recorded, failure.fenced), (0, 1));
    let success = stale.flush(late(&due[1], Verdict::Sent)).await;
    assert_eq!((success.recorded, success.fenced), (1, 0));
    // The owner read both before, and answers both.
    let outcomes = outcomes(&held, &due, |_| Verdict::Sent);
    let by_owner = owner.flush(Flush { outcomes, closed: held, unfit: vec![] }).await;
    assert_eq!((by_owner.recorded, by_owner.stale), (1, 1));
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    assert_eq!(counts(&store, id).await.sent, 2);
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
    let want = Want { provider, batches: 1, deliveries: 1_000, floor: i64::MIN, beside: None };
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
async fn leases_that_ran_out_are_left_alone_while_postgres_was_just_away() {
    let (store, provider) = stage(5).await;
    fanned_out(&store, "k").await;
    Sender::new(&store, provider).claim().await;
    expire_leases(&store).await;
    let other = Sender::new(&store, provider);
    let want = Want { provider, batches: 1, deliveries: 1, floor: i64::MIN, beside: None };
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
