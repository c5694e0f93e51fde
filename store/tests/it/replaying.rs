//! Replay: a broadcast of its own to dead letters, once each.

use std::time::Duration;

use bongsu_store::{
    Acceptance, AudienceSummary, BroadcastId, BroadcastState, DeadLetterFilter, DeadLetterMatch, DeadReason,
    DeviceId, NewReplay, Replay, ReplayCount, ReplayLetters, Store, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

fn of(broadcast: BroadcastId, replay_id: &str) -> NewReplay {
    NewReplay {
        client_id: "test".into(),
        replay_id: replay_id.into(),
        broadcast,
        letters: ReplayLetters::Matching(DeadLetterMatch::default()),
        ttl: Duration::from_secs(60),
        max_rate_per_second: None,
    }
}

fn matching(mut new: NewReplay, say: impl FnOnce(&mut DeadLetterMatch)) -> NewReplay {
    let mut these = DeadLetterMatch::default();
    say(&mut these);
    new.letters = ReplayLetters::Matching(these);
    new
}

async fn would_take(store: &Store, new: &NewReplay) -> i64 {
    store.count_replay(new).await.unwrap().matching
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
    let new = matching(of(id, "again"), |m| m.reasons = vec![DeadReason::AttemptsExhausted]);
    assert_eq!(would_take(&store, &new).await, 100);
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
    assert_eq!(would_take(&store, &new).await, 0);
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
    let reused = matching(of(id, "same"), |m| m.code = Some("503".into()));
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
    assert_eq!(would_take(&store, &of(id, "third")).await, 0, "it is still at it");
    let _ = store.cancel_broadcast(child).await.unwrap();
    sweep_all(&store).await;
    assert_eq!(would_take(&store, &of(id, "third")).await, 350);
    let third = accepted(&store, &of(id, "third")).await.id;
    fan_out_all(&store).await;
    assert_eq!(counts(&store, third).await.total, 350);
}

#[tokio::test]
async fn named_devices_are_replayed_and_no_others_wherever_they_are() {
    for shards in [1, 4] {
        let (store, provider) = stage_on(shards, 300).await;
        let id = failed(&store, provider, "k").await;
        let named: Vec<_> = (1..=30).map(DeviceId).chain([DeviceId(1_000_000)]).collect();
        let new = NewReplay { letters: ReplayLetters::Devices(named), ..of(id, "again") };
        let expected = ReplayCount { matching: 20, unknown: 11, ..Default::default() };
        assert_eq!(
            store.count_replay(&new).await.unwrap(),
            expected,
            "a third was sent, and one does not exist"
        );
        let child = accepted(&store, &new).await;
        assert_eq!(child.audience, AudienceSummary::DeadLetters(id));
        fan_out_all(&store).await;
        assert_eq!(counts(&store, child.id).await.total, 20);
        let others =
            "SELECT count(*) FROM delivery WHERE state = 'pending' AND (device_id > 30 OR device_id % 3 = 0)";
        assert_eq!(sql(&store, others).await, 0);
        let expected = ReplayCount { taken_up: 20, unknown: 11, ..Default::default() };
        assert_eq!(store.count_replay(&new).await.unwrap(), expected);
        let sender = Sender::new(&store, provider);
        sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
        sweep_all(&store).await;
        assert_eq!(state(&store, child.id).await, BroadcastState::Completed);
        assert_eq!(store.broken_invariants().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_count_says_what_is_left_out_and_why_and_the_replay_does_just_that() {
    let (store, provider) = stage(300).await;
    let id = failed(&store, provider, "k").await;
    let change = |text| sql(&store, text);
    change(
        "UPDATE device SET retired_at = now(), retire_reason = 'requested' WHERE id IN (1, 2) RETURNING id",
    )
    .await;
    change(
        "UPDATE device SET quarantined_at = now(), quarantine_code = '403', quarantine_detail = '', quarantined_by = 1
         WHERE id = 4 RETURNING id",
    )
    .await;
    change("UPDATE device SET enabled = false WHERE id = 5 RETURNING id").await;
    change("UPDATE dead_letter SET reason = 'unconfirmed' WHERE device_id IN (7, 8) RETURNING device_id")
        .await;
    let taken =
        NewReplay { letters: ReplayLetters::Devices(vec![DeviceId(10), DeviceId(11)]), ..of(id, "some") };
    assert_eq!(accepted(&store, &taken).await.audience, AudienceSummary::DeadLetters(id));
    fan_out_all(&store).await;
    let expected = ReplayCount {
        matching: 192,
        taken_up: 2,
        unconfirmed: 2,
        retired: 3,
        without_consent: 1,
        ..Default::default()
    };
    assert_eq!(store.count_replay(&of(id, "again")).await.unwrap(), expected);
    let named = (1..=300).filter(|n| n % 3 != 0).map(DeviceId).collect();
    let by_name = NewReplay { letters: ReplayLetters::Devices(named), ..of(id, "by name") };
    assert_eq!(store.count_replay(&by_name).await.unwrap(), expected, "named or matched, it is the same");
    let asked_for = matching(of(id, "x"), |m| m.reasons = vec![DeadReason::Unconfirmed]);
    assert_eq!(would_take(&store, &asked_for).await, 2);
    let child = accepted(&store, &by_name).await.id;
    fan_out_all(&store).await;
    assert_eq!(counts(&store, child).await.total, 192);
}

#[tokio::test]
async fn only_what_died_in_the_time_that_was_named_is_replayed() {
    let (store, provider) = stage(30).await;
    let id = failed(&store, provider, "k").await;
    sql(
        &store,
        "UPDATE dead_letter SET created_at = timestamptz '2025-06-01' + device_id * interval '1 minute' RETURNING device_id",
    )
    .await;
    let minute = |n| Some(time::macros::datetime!(2025-06-01 0:00 UTC) + time::Duration::minutes(n));
    let new = matching(of(id, "again"), |m| (m.from, m.to) = (minute(10), minute(20)));
    assert_eq!(would_take(&store, &new).await, 7);
    let child = accepted(&store, &new).await.id;
    fan_out_all(&store).await;
    let within = "SELECT count(*) FROM delivery WHERE state = 'pending' AND device_id BETWEEN 10 AND 19";
    assert_eq!((counts(&store, child).await.total, sql(&store, within).await), (7, 7));
}

#[tokio::test]
async fn an_intake_of_the_version_before_leaves_alone_what_it_does_not_understand() {
    let (store, provider) = stage(30).await;
    let id = failed(&store, provider, "k").await;
    let named = NewReplay { letters: ReplayLetters::Devices(vec![DeviceId(1)]), ..of(id, "named") };
    let child = accepted(&store, &named).await.id;
    // As its last statement wrote it: the shard as such.
    let page = sqlx::query(
        "UPDATE broadcast SET state = 'fanning_out', fan_out_provider = 1, fan_out_shard = 0 WHERE id = $1",
    );
    let refused = page.bind(child.0).execute(store.test_pool()).await.unwrap_err();
    assert!(refused.to_string().contains("broadcast_replay_narrow"), "{refused}");
    fan_out_all(&store).await;
    let all = accepted(&store, &of(id, "all")).await.id;
    fan_out_all(&store).await;
    assert_eq!((counts(&store, child).await.total, counts(&store, all).await.total), (1, 19));
}

#[tokio::test]
async fn a_replay_has_the_rate_that_it_was_asked_for_with_and_a_round_that_of_its_original() {
    let (store, provider) = stage(30).await;
    let id = failed(&store, provider, "k").await;
    let rate = "SELECT max(max_rate_per_second)::bigint FROM broadcast WHERE replay_of IS NOT NULL";
    let slow = NewReplay { max_rate_per_second: Some(50), ..of(id, "slow") };
    let child = accepted(&store, &slow).await.id;
    assert_eq!(sql(&store, rate).await, 50);
    assert!(matches!(
        store.replay(&of(id, "slow")).await.unwrap(),
        Replay::Accepted(Acceptance::KeyReused(_))
    ));
    let none = "SELECT count(*) FROM broadcast WHERE replay_of IS NOT NULL AND max_rate_per_second IS NULL";
    let _ = accepted(&store, &of(id, "fast")).await;
    assert_eq!(sql(&store, none).await, 1);
    sql(&store, "UPDATE broadcast SET max_rate_per_second = 70 WHERE replay_of IS NULL RETURNING id").await;
    let made = store.make_slow_rounds(provider, Duration::ZERO, 1).await.unwrap().made;
    assert_eq!((made.len(), sql(&store, rate).await), (1, 70), "{child}");
}
