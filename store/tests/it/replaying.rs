//! Replay: a broadcast of its own to dead letters, once each.

use std::time::Duration;

use bongsu_store::{
    Acceptance, AudienceSummary, BroadcastId, BroadcastState, DeadLetterFilter, DeadReason, NewReplay,
    Replay, Store, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

fn of(broadcast: BroadcastId, replay_id: &str) -> NewReplay {
    NewReplay {
        client_id: "test".into(),
        replay_id: replay_id.into(),
        broadcast,
        reasons: vec![],
        code: None,
        provider: None,
        ttl: Duration::from_secs(60),
        max_rate_per_second: None,
    }
}

async fn accepted(store: &Store, new: &NewReplay) -> bongsu_store::Broadcast {
    match store.replay(new).await.unwrap() {
        Replay::Accepted(Acceptance::New(broadcast)) => *broadcast,
        other => panic!("not new: {other:?}"),
    }
}

/// A broadcast of which every third delivery was sent, every third was rejected, and the rest exhausted its attempts.
async fn failed(store: &Store, provider: bongsu_store::ProviderId, key: &str) -> BroadcastId {
    let id = fanned_out(store, key).await;
    let sender = Sender::new(store, provider);
    let rejected =
        || Verdict::Dead { reason: DeadReason::Rejected, code: "400".into(), detail: "too long".into() };
    sender
        .settle_all(&sender.claim().await, |d| match d.0 % 3 {
            0 => Verdict::Sent,
            1 => rejected(),
            _ => exhausted(),
        })
        .await;
    sweep_all(store).await;
    id
}

#[tokio::test]
async fn a_replay_sends_the_dead_letters_it_matches_and_nothing_that_was_sent() {
    let (store, provider) = stage(300).await;
    let id = failed(&store, provider, "k").await;
    let new = NewReplay { reasons: vec![DeadReason::AttemptsExhausted], ..of(id, "again") };
    assert_eq!(store.count_replay(&new).await.unwrap(), 100);
    let child = accepted(&store, &new).await;
    assert_eq!(child.audience, AudienceSummary::DeadLetters(id));
    assert_eq!(child.message, store.broadcast(id).await.unwrap().unwrap().message);
    fan_out_all(&store).await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let work = store.claim_lane(sender.id).work(&[child.id]).await.unwrap();
    assert_eq!(work[0].origin, id, "towards provider and device it is the same notification");
    sender.settle_all(&batches, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    let counts = counts(&store, child.id).await;
    assert_eq!(
        (state(&store, child.id).await, counts.total, counts.sent),
        (BroadcastState::Completed, 100, 100)
    );
    let filter = DeadLetterFilter { broadcast: Some(id), limit: 300, ..Default::default() };
    let letters = store.list_dead_letters(&filter).await.unwrap();
    for letter in &letters {
        let expected = (letter.reason == DeadReason::AttemptsExhausted).then_some(child.id);
        assert_eq!(letter.replayed_by, expected);
    }
    assert_eq!(letters.len(), 200, "they stay, with what became of them");
    assert_eq!(store.count_replay(&new).await.unwrap(), 0);
}

#[tokio::test]
async fn the_same_replay_id_replays_once_and_two_replays_never_share_a_dead_letter() {
    let (store, provider) = stage(300).await;
    let id = failed(&store, provider, "k").await;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        asked.spawn(async move { store.replay(&of(id, "same")).await.unwrap() });
    }
    let mut ids = std::collections::BTreeSet::new();
    for answer in asked.join_all().await {
        match answer {
            Replay::Accepted(Acceptance::New(b) | Acceptance::Replayed(b)) => ids.insert(b.id),
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(ids.len(), 1);
    let other = accepted(&store, &of(id, "other")).await;
    let (one, two) = tokio::join!(store.fan_out_page(), store.fan_out_page());
    let _ = (one.unwrap(), two.unwrap());
    fan_out_all(&store).await;
    let first = *ids.first().unwrap();
    assert_eq!(counts(&store, first).await.total + counts(&store, other.id).await.total, 200);
    let twice = "SELECT count(*) FROM (SELECT device_id FROM delivery WHERE state = 'pending' GROUP BY 1 HAVING count(*) > 1) AS x";
    assert_eq!(sql(&store, twice).await, 0);
    let reused = NewReplay { code: Some("503".into()), ..of(id, "same") };
    assert!(matches!(store.replay(&reused).await.unwrap(), Replay::Accepted(Acceptance::KeyReused(_))));
    let unknown = of(BroadcastId(1), "unknown");
    assert!(matches!(store.replay(&unknown).await.unwrap(), Replay::NotFound));
}

#[tokio::test]
async fn devices_that_are_retired_or_without_consent_keep_their_dead_letters_and_an_empty_replay_completes() {
    let (store, provider) = stage(3).await;
    let id = failed(&store, provider, "k").await;
    sql(
        &store,
        "UPDATE device SET retired_at = now(), retire_reason = 'requested' WHERE id % 3 = 1 RETURNING id",
    )
    .await;
    sql(&store, "UPDATE device SET enabled = false WHERE id % 3 = 2 RETURNING id").await;
    let child = accepted(&store, &of(id, "again")).await.id;
    fan_out_all(&store).await;
    assert_eq!(
        (state(&store, child).await, counts(&store, child).await.total),
        (BroadcastState::Completed, 0)
    );
    assert_eq!(sql(&store, "SELECT count(*) FROM dead_letter WHERE replayed_by IS NULL").await, 2);
}

#[tokio::test]
async fn a_replay_of_a_replay_keeps_the_first_ones_name_towards_devices() {
    let (store, provider) = stage(3).await;
    let id = failed(&store, provider, "k").await;
    let child = accepted(&store, &of(id, "again")).await.id;
    fan_out_all(&store).await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| exhausted()).await;
    sweep_all(&store).await;
    let grandchild = accepted(&store, &of(child, "and again")).await.id;
    fan_out_all(&store).await;
    assert_eq!(counts(&store, grandchild).await.total, 2);
    assert_eq!(store.claim_lane(sender.id).work(&[grandchild]).await.unwrap()[0].origin, id);
}

#[tokio::test]
async fn what_a_replay_did_not_come_to_call_can_be_replayed_again_and_what_it_sent_cannot() {
    let (store, provider) = stage(600).await;
    let id = failed(&store, provider, "k").await;
    let child = accepted(&store, &of(id, "again")).await.id;
    fan_out_all(&store).await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let outcomes = outcomes(&batches, &due[..50], |_| Verdict::Sent);
    let flush = bongsu_store::Flush { outcomes, closed: batches, unfit: vec![] };
    assert_eq!(sender.flush(flush).await.recorded, 50);
    assert_eq!(store.count_replay(&of(id, "third")).await.unwrap(), 0, "it is still at it");
    let _ = store.cancel_broadcast(child).await.unwrap();
    sweep_all(&store).await;
    assert_eq!(store.count_replay(&of(id, "third")).await.unwrap(), 350);
    let third = accepted(&store, &of(id, "third")).await.id;
    fan_out_all(&store).await;
    assert_eq!(counts(&store, third).await.total, 350);
}
