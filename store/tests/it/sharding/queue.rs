//! Broadcasts over the shards: fanned out, claimed, settled, taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bongsu_store::{
    Acceptance, Audience, BroadcastState, Controlled, DeadLetterFilter, DeadLetterMatch, DeviceId, NewReplay,
    ProviderId, ProviderKind, Replay, ReplayLetters, SenderId, Shard, Store, Verdict, Want,
};

use super::{SHARDS, live, reached};
use crate::harness::{self, sql};
use crate::stage::*;

#[tokio::test]
async fn every_kind_of_audience_reaches_each_of_its_devices_once() {
    let (store, provider) = stage_on(SHARDS, 1_500).await;
    let second = store.register_provider("second", ProviderKind::Webhook).await.unwrap().unwrap();
    let others: Vec<_> = (0..500).map(|n| registration(second, n)).collect();
    store.import(&others).await.unwrap();
    let all = live(&store).await;
    store.subscribe("news", &all[..900]).await.unwrap();
    store.subscribe("sport", &all[600..1_200]).await.unwrap();
    let users = |n: usize| (0..n).map(|n| format!("user-{n}")).collect::<Vec<_>>();
    let audiences = [
        ("everyone", Audience::Everyone, 2_000),
        ("topics", Audience::topics(vec!["news".into(), "sport".into()]), 1_200),
        ("few users", Audience::users(users(300)), 600),
        ("many users", Audience::users(users(1_500)), 2_000),
        ("few devices", Audience::devices(all[1_400..1_800].to_vec()), 400),
        ("many devices", Audience::devices(all[..1_800].to_vec()), 1_800),
        ("a user", Audience::users(users(1)), 2),
    ];
    let mut accepted = vec![];
    for (key, audience, expected) in audiences {
        accepted.push((key, accept(&store, key, audience).await.id, expected));
    }
    fan_out_all(&store).await;
    for (key, id, expected) in accepted {
        let devices = reached(&store, id).await;
        let distinct: BTreeSet<_> = devices.iter().collect();
        assert_eq!((devices.len(), distinct.len()), (expected, expected), "{key}");
        assert_eq!(counts(&store, id).await.total, i64::try_from(expected).unwrap(), "{key}");
    }
    let mixed =
        "SELECT count(*) FROM delivery d JOIN device v ON v.id = d.device_id WHERE v.shard <> d.shard";
    assert_eq!(sql(&store, mixed).await, 0);
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    let sender = Sender::new(&store, provider);
    assert!(!sender.claim().await.is_empty());
}

/// From which shards, in this order, claims for one batch each take it.
async fn claims_of_one_batch(store: &Store, provider: ProviderId, claims: usize, floor: i64) -> Vec<Shard> {
    let mut lane = store.claim_lane(SenderId::random());
    let mut shards = vec![];
    for _ in 0..claims {
        let want = Want { provider, batches: 1, deliveries: 1, floor, beside: None };
        shards.extend(lane.claim(&[want], LEASE, None, &[]).await.unwrap().iter().map(|batch| batch.shard));
    }
    shards
}

#[tokio::test]
async fn claims_reach_every_shard_in_turn_and_a_large_one_all_at_once() {
    let (store, provider) = stage_on(SHARDS, 9_000).await;
    let id = fanned_out(&store, "k").await;
    let shards = claims_of_one_batch(&store, provider, 8, i64::MIN).await;
    for turn in shards.chunks(4) {
        assert_eq!(turn.iter().collect::<BTreeSet<_>>().len(), 4, "{shards:?}");
    }
    let sender = Sender::new(&store, provider);
    let some = sender.claim_up_to(2_000).await;
    assert_eq!(some.iter().map(|batch| batch.shard).collect::<BTreeSet<_>>().len(), 4);
    let size: i32 = some.iter().map(|batch| batch.size).sum();
    assert!((2_000..2_500).contains(&size), "{size}: less than a batch too many");
    let rest = sender.claim().await;
    expire_leases(&store).await;
    let again = sender.claim_beside(&[some, rest].concat()).await;
    assert_eq!(again.len(), 8, "what the others held");
    assert_eq!(counts(&store, id).await.total, 9_000);
}

#[tokio::test]
async fn a_shard_that_is_behind_is_not_overtaken_by_the_floor() {
    let (store, provider) = stage_on(SHARDS, 9_000).await;
    fanned_out(&store, "k").await;
    // Whoever was ahead has moved the virtual time beyond all that there is.
    sql(&store, "UPDATE provider SET vtime = 100000000 RETURNING 1::bigint").await;
    let shards = claims_of_one_batch(&store, provider, 4, 100_000_000).await;
    assert_eq!(shards.iter().collect::<BTreeSet<_>>().len(), 4, "{shards:?}");
}

#[tokio::test]
async fn ranks_of_the_shards_lie_side_by_side() {
    let (store, _) = stage_on(SHARDS, 8_000).await;
    fanned_out(&store, "k").await;
    // Normal priority has a weight of its own; each shard has a quarter of the broadcast's time.
    let spread = "SELECT (max(last) * 100 / min(last))::bigint FROM (SELECT max(rank) AS last FROM batch GROUP BY shard) AS s";
    let spread = sql(&store, spread).await;
    assert!(spread < 120, "the longest is {spread} % of the shortest");
}

fn dead_or_sent(device: DeviceId) -> Verdict {
    if device.0 % 3 == 0 { exhausted() } else { Verdict::Sent }
}

#[tokio::test]
async fn retries_dead_letters_and_replays_work_in_every_shard() {
    let (store, provider) = stage_on(SHARDS, 600).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| retry(Duration::ZERO)).await;
    assert_eq!((counts(&store, id).await.retrying, store.broken_invariants().await.unwrap()), (600, vec![]));
    let due = sender.claim().await;
    assert!(due.iter().all(|batch| batch.attempt == 2));
    let flushed = sender.settle(&due, dead_or_sent).await;
    assert_eq!((flushed.recorded, flushed.touched), (600, BTreeSet::from([id])));
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    let done = counts(&store, id).await;
    assert_eq!((done.sent, done.dead(), done.retried), (400, 200, 600));

    // In pages, each letter once.
    let mut letters = BTreeMap::new();
    let mut filter = DeadLetterFilter { limit: 30, ..Default::default() };
    loop {
        let page = store.list_dead_letters(&filter).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after = Some((last.broadcast, last.shard, last.provider_id, last.device));
        for letter in page {
            assert!(letters.insert(letter.device, letter.user_id).is_none(), "listed twice");
        }
    }
    assert!(letters.len() == 200 && letters.values().all(Option::is_some));

    let new = NewReplay {
        client_id: "test".into(),
        replay_id: "again".into(),
        broadcast: id,
        letters: ReplayLetters::Matching(DeadLetterMatch::default()),
        ttl: HOUR,
        max_rate_per_second: None,
    };
    assert_eq!(store.count_replay(&new).await.unwrap().matching, 200);
    let Replay::Accepted(Acceptance::New(replay)) = store.replay(&new).await.unwrap() else { panic!("new") };
    fan_out_all(&store).await;
    assert_eq!(store.count_replay(&new).await.unwrap().matching, 0);
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    assert_eq!(
        (state(&store, replay.id).await, counts(&store, replay.id).await.sent),
        (BroadcastState::Completed, 200)
    );
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn pausing_cancelling_and_expiring_reach_every_shard() {
    let (store, provider) = stage_on(SHARDS, 3_000).await;
    let [paused, cancelled, expired] = [
        fanned_out(&store, "paused").await,
        fanned_out(&store, "cancelled").await,
        fanned_out(&store, "expired").await,
    ];
    assert!(matches!(store.pause_broadcast(paused).await.unwrap(), Controlled::Done(_)));
    assert!(matches!(store.cancel_broadcast(cancelled).await.unwrap(), Controlled::Done(_)));
    sqlx::query("UPDATE broadcast SET created_at = now() - interval '2 h', expires_at = now() - interval '1 h' WHERE id = $1")
        .bind(expired.0)
        .execute(store.test_pool())
        .await
        .unwrap();
    let sender = Sender::new(&store, provider);
    assert!(sender.claim().await.is_empty());
    sweep_all(&store).await;
    assert_eq!(sql(&store, "SELECT count(DISTINCT shard) FROM batch WHERE state = 'held'").await, 4);
    assert_eq!(
        (counts(&store, cancelled).await.cancelled, counts(&store, expired).await.expired),
        (3_000, 3_000)
    );
    assert!(matches!(store.resume_broadcast(paused).await.unwrap(), Controlled::Done(_)));
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    for (id, ended) in [
        (paused, BroadcastState::Completed),
        (cancelled, BroadcastState::Cancelled),
        (expired, BroadcastState::Completed),
    ] {
        assert_eq!(state(&store, id).await, ended);
    }
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn the_work_of_a_dead_sender_is_taken_over_in_every_shard_and_a_live_one_keeps_its_own() {
    let (store, provider) = stage_on(SHARDS, 4_000).await;
    let id = fanned_out(&store, "k").await;
    let (dead, taker) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let mut control = store.control_lane(dead.id);
    control.heartbeat(0, &[]).await.unwrap();
    let lost = dead.claim().await;
    let listed = store.senders().await.unwrap();
    assert_eq!(listed[0].batches, i64::try_from(lost.len()).unwrap());
    assert_eq!(control.renew(&lost, LEASE).await.unwrap().len(), lost.len());
    control.close().await;
    sql(&store, "UPDATE sender SET heartbeat_at = now() - interval '2 s' RETURNING 1::bigint").await;
    let mut control = store.control_lane(taker.id);
    let beat = control.heartbeat(0, &[]).await.unwrap().at;
    let since_start = "SELECT count(*) FROM sender WHERE heartbeat_at > pg_postmaster_start_time()";
    if sql(&store, since_start).await == 2 {
        harness::until(async || {
            control.revoke_dead(Duration::from_secs(1), beat).await.unwrap() == lost.len()
        })
        .await;
    } else {
        // The server is younger than that: leases run out instead.
        expire_leases(&store).await;
    }
    let taken = taker.claim().await;
    assert_eq!(taken.len(), lost.len());
    assert_eq!(dead.settle(&lost, |_| retry(Duration::ZERO)).await.recorded, 0, "fenced");
    let (some, rest) = taken.split_at(taken.len() / 2);
    taker.settle_all(some, |_| Verdict::Sent).await;
    assert_eq!(control.release().await.unwrap(), rest.len() as u64);
    taker.settle_all(&taker.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    assert_eq!((state(&store, id).await, counts(&store, id).await.sent), (BroadcastState::Completed, 4_000));
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}
