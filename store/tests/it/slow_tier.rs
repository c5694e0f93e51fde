//! The slow tier: what used up its attempts is replayed by itself, round after round, each once.

use std::time::Duration;

use bongsu_store::{
    Acceptance, AudienceSummary, BroadcastId, BroadcastState, DeadLetterMatch, DeadReason, DeviceId,
    NewReplay, ProviderId, Replay, ReplayLetters, Store, Verdict,
};

use crate::harness::{self, sql};
use crate::stage::*;

const NOW: Duration = Duration::ZERO;

/// A broadcast of which every delivery ended so.
async fn ended(
    store: &Store,
    provider: ProviderId,
    key: &str,
    verdict: fn(DeviceId) -> Verdict,
) -> BroadcastId {
    let id = fanned_out(store, key).await;
    settle(store, provider, verdict).await;
    id
}

async fn settle(store: &Store, provider: ProviderId, verdict: fn(DeviceId) -> Verdict) {
    let sender = Sender::new(store, provider);
    sender.settle_all(&sender.claim().await, verdict).await;
    sweep_all(store).await;
}

async fn rounds(store: &Store, provider: ProviderId, rounds: u32) -> Vec<BroadcastId> {
    store.make_slow_rounds(provider, NOW, rounds).await.unwrap().made
}

async fn key(store: &Store, id: BroadcastId) -> String {
    store.broadcast(id).await.unwrap().unwrap().idempotency_key
}

#[tokio::test]
async fn each_round_takes_up_what_died_in_the_one_before_and_after_the_last_there_is_none() {
    let (store, provider) = stage(30).await;
    let id = ended(&store, provider, "k", |d| match d.0 % 3 {
        0 => Verdict::Sent,
        1 => Verdict::Dead { reason: DeadReason::Rejected, code: "400".into(), detail: String::new() },
        _ => exhausted(),
    })
    .await;
    let expires_at = store.broadcast(id).await.unwrap().unwrap().expires_at;
    let mut before = id;
    for nth in 1..=2 {
        let made = rounds(&store, provider, 2).await;
        assert_eq!(made.len(), 1);
        assert_eq!(rounds(&store, provider, 2).await, [], "it is made once");
        let round = store.broadcast(made[0]).await.unwrap().unwrap();
        assert_eq!(round.audience, AudienceSummary::DeadLetters(before));
        assert_eq!(round.idempotency_key, format!("slow:{id}:{nth}:{}", provider.0));
        assert_eq!(round.expires_at, expires_at, "no longer worth sending than the original");
        fan_out_all(&store).await;
        assert_eq!(counts(&store, round.id).await.total, 10, "only what used up its attempts");
        let sender = Sender::new(&store, provider);
        let claimed = sender.claim().await;
        assert_eq!(store.claim_lane(sender.id).work(&[round.id]).await.unwrap()[0].origin, id);
        sender.settle_all(&claimed, |_| exhausted()).await;
        sweep_all(&store).await;
        before = round.id;
    }
    assert_eq!(rounds(&store, provider, 2).await, []);
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn however_many_senders_look_at_the_same_time_each_round_is_made_once() {
    let [store, other] = harness::two_stores().await;
    let provider = furnish(&store, 2).await;
    let mut ids = vec![];
    for n in 0..30 {
        ids.push(ended(&store, provider, &n.to_string(), |_| exhausted()).await);
    }
    let looking = (0..8).map(|n| {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        async move { rounds(&store, provider, 3).await }
    });
    let mut made = tokio::task::JoinSet::from_iter(looking).join_all().await.concat();
    made.sort_unstable();
    assert_eq!(made.len(), 30);
    let distinct = "SELECT count(DISTINCT replay_of) FROM broadcast WHERE slow_round = 1";
    assert_eq!(sql(&store, distinct).await, 30);
}

#[tokio::test]
async fn a_round_waits_its_time_and_a_step_looks_at_a_bounded_number_of_broadcasts() {
    let (store, provider) = stage(1).await;
    for n in 0..105 {
        let _ = ended(&store, provider, &n.to_string(), |_| exhausted()).await;
    }
    assert_eq!(store.make_slow_rounds(provider, HOUR, 3).await.unwrap().made, []);
    let first = store.make_slow_rounds(provider, NOW, 3).await.unwrap();
    let second = store.make_slow_rounds(provider, NOW, 3).await.unwrap();
    assert_eq!((first.made.len(), first.more, second.made.len(), second.more), (100, true, 5, false));
}

#[tokio::test]
async fn what_a_person_replayed_or_cancelled_and_what_has_expired_is_left_to_people() {
    let (store, provider) = stage(4).await;
    let replayed = ended(&store, provider, "replayed", |_| exhausted()).await;
    let by_hand = NewReplay {
        client_id: "test".into(),
        replay_id: "by hand".into(),
        broadcast: replayed,
        letters: ReplayLetters::Matching(DeadLetterMatch::default()),
        ttl: HOUR,
        max_rate_per_second: None,
    };
    let Replay::Accepted(Acceptance::New(by_hand)) = store.replay(&by_hand).await.unwrap() else {
        panic!("new")
    };
    fan_out_all(&store).await;
    // Not called, so a person may replay them once more; the slow tier does not.
    let _ = store.cancel_broadcast(by_hand.id).await.unwrap();
    sweep_all(&store).await;
    let round = rounds(&store, provider, 3).await;
    assert_eq!(key(&store, round[0]).await, format!("slow:{replayed}:1:{}", provider.0));
    fan_out_all(&store).await;
    assert_eq!((round.len(), counts(&store, round[0]).await.total), (1, 0));

    let expired = ended(&store, provider, "expired", |_| exhausted()).await;
    sql(
        &store,
        "UPDATE broadcast SET created_at = now() - interval '2 hours', expires_at = now() WHERE idempotency_key = 'expired' RETURNING id",
    )
    .await;
    let half = fanned_out(&store, "cancelled").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let outcomes = outcomes(&batches, &due[..1], |_| exhausted());
    let _ = sender.flush(bongsu_store::Flush { outcomes, closed: batches, unfit: vec![] }).await;
    let _ = store.cancel_broadcast(half).await.unwrap();
    sweep_all(&store).await;
    assert_eq!(state(&store, half).await, BroadcastState::Cancelled);
    assert_eq!(rounds(&store, provider, 3).await, [], "neither {half} nor {expired}");
}

#[tokio::test]
async fn a_round_calls_no_device_that_was_retired_meanwhile_nor_what_died_at_another_provider() {
    let (store, provider) = stage(4).await;
    let id = ended(&store, provider, "k", |_| exhausted()).await;
    let other = store.register_provider("other", bongsu_store::ProviderKind::Webhook).await.unwrap().unwrap();
    assert_eq!(rounds(&store, other, 3).await, []);
    sql(
        &store,
        "UPDATE device SET retired_at = now(), retire_reason = 'requested' WHERE id = 1 RETURNING id",
    )
    .await;
    let made = rounds(&store, provider, 3).await;
    fan_out_all(&store).await;
    assert_eq!((made.len(), counts(&store, made[0]).await.total), (1, 3), "a round of {id}");
}
