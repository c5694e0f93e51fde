//! At most once: noted before the call, under the fence; what nobody can tell ends unconfirmed.

use bongsu_store::{
    Audience, BroadcastId, BroadcastState, DeadLetterFilter, DeadReason, Due, Flush, Guarantee, Store,
    Verdict,
};

use crate::harness::sql;
use crate::stage::*;

async fn at_most_once(store: &Store, key: &str) -> BroadcastId {
    let new = bongsu_store::NewBroadcast {
        guarantee: Guarantee::AtMostOnce,
        ..new_broadcast(key, Audience::Everyone)
    };
    let bongsu_store::Acceptance::New(broadcast) = store.accept(&new).await.unwrap() else { panic!("new") };
    fan_out_all(store).await;
    broadcast.id
}

#[tokio::test]
async fn what_was_noted_and_not_answered_when_its_sender_died_ends_unconfirmed_and_the_rest_is_sent() {
    let (store, provider) = stage(500).await;
    let id = at_most_once(&store, "k").await;
    let victim = Sender::new(&store, provider);
    let batches = victim.claim().await;
    let due = victim.read(&batches).await;
    let begun: Vec<_> = due[..100].iter().map(|d| (batches[0], d.device)).collect();
    let mut lane = store.flush_lane(victim.id);
    assert!(lane.mark_sending(&begun).await.unwrap().iter().all(|may| *may));
    assert!(
        lane.mark_sending(&begun).await.unwrap().iter().all(|may| *may),
        "asked again after a lost answer"
    );
    // Forty were answered before it died.
    let answered = outcomes(&batches, &due[..40], |_| Verdict::Sent);
    assert_eq!(victim.flush(Flush { outcomes: answered, ..Flush::default() }).await.recorded, 40);
    assert_eq!(counts(&store, id).await.pending(), 460);
    expire_leases(&store).await;

    let survivor = Sender::new(&store, provider);
    let taken = survivor.claim().await;
    let left = survivor.read(&taken).await;
    let interrupted = left.iter().filter(|d| matches!(d.due, Due::Interrupted)).count();
    assert_eq!((left.len(), interrupted), (460, 60));
    let verdict = |interrupted: bool| match interrupted {
        true => Verdict::Unconfirmed { code: "interrupted".into(), detail: String::new() },
        false => Verdict::Sent,
    };
    let outcomes: Vec<_> = left
        .iter()
        .map(|d| bongsu_store::Outcome {
            batch: taken[0],
            device: d.device,
            verdict: verdict(matches!(d.due, Due::Interrupted)),
        })
        .collect();
    assert_eq!(survivor.flush(Flush { outcomes, closed: taken, unfit: vec![] }).await.recorded, 460);
    sweep_all(&store).await;
    let counts = counts(&store, id).await;
    assert_eq!((counts.sent, counts.unconfirmed, counts.dead(), counts.pending()), (440, 60, 0, 0));
    assert_eq!(state(&store, id).await, BroadcastState::Completed);
    let filter = DeadLetterFilter { limit: 100, ..Default::default() };
    let letters = store.list_dead_letters(&filter).await.unwrap();
    assert_eq!((letters.len(), letters[0].reason, letters[0].attempts), (60, DeadReason::Unconfirmed, 1));
}

#[tokio::test]
async fn a_sender_that_lost_its_batch_may_note_nothing_and_so_calls_nothing() {
    let (store, provider) = stage(10).await;
    at_most_once(&store, "k").await;
    let (late, owner) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let old = late.claim().await;
    let due = late.read(&old).await;
    expire_leases(&store).await;
    assert_eq!(owner.claim().await.len(), 1);
    let wanted: Vec<_> = due.iter().map(|d| (old[0], d.device)).collect();
    assert!(store.flush_lane(late.id).mark_sending(&wanted).await.unwrap().iter().all(|may| !may));
    assert_eq!(sql(&store, "SELECT count(*) FROM delivery WHERE state = 'sending'").await, 0);
}

#[tokio::test]
async fn a_refused_call_is_tried_again_and_a_late_acceptance_settles_what_is_not_settled_yet() {
    let (store, provider) = stage(2).await;
    let id = at_most_once(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let wanted: Vec<_> = due.iter().map(|d| (batches[0], d.device)).collect();
    store.flush_lane(sender.id).mark_sending(&wanted).await.unwrap();
    let refused = outcomes(&batches, &due[..1], |_| retry(HOUR));
    assert_eq!(sender.flush(Flush { outcomes: refused, ..Flush::default() }).await.recorded, 1);
    assert_eq!(
        sql(&store, "SELECT count(*) FROM delivery WHERE state = 'pending' AND attempts = 1").await,
        1
    );
    expire_leases(&store).await;
    Sender::new(&store, provider).claim().await;
    let accepted = outcomes(&batches, &due[1..], |_| Verdict::Sent);
    let flushed = sender.flush(Flush { outcomes: accepted, ..Flush::default() }).await;
    assert_eq!((flushed.recorded, flushed.fenced), (1, 0));
    assert_eq!(counts(&store, id).await.sent, 1);
}

#[tokio::test]
async fn a_cancelled_broadcast_says_unconfirmed_of_what_a_dead_sender_was_calling() {
    let (store, provider) = stage(20).await;
    let id = at_most_once(&store, "k").await;
    let victim = Sender::new(&store, provider);
    let batches = victim.claim().await;
    let due = victim.read(&batches).await;
    let begun: Vec<_> = due[..5].iter().map(|d| (batches[0], d.device)).collect();
    store.flush_lane(victim.id).mark_sending(&begun).await.unwrap();
    expire_leases(&store).await;
    let _ = store.cancel_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    let counts = counts(&store, id).await;
    assert_eq!((counts.cancelled, counts.unconfirmed, counts.pending()), (15, 5, 0));
    assert_eq!(sql(&store, "SELECT count(*) FROM dead_letter WHERE reason = 'unconfirmed'").await, 5);
}
