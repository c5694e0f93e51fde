//! A parked provider: nobody claims, one probe at a time over all senders.

use std::time::Duration;

use bongsu_store::Verdict;

use crate::harness::sql;
use crate::stage::*;

const PATIENCE: Duration = Duration::from_secs(12);

async fn probe_is_due(store: &bongsu_store::Store) {
    sql(store, "UPDATE provider SET probe_at = now() RETURNING 1::bigint").await;
}

#[tokio::test]
async fn a_parked_provider_gets_no_work_but_one_probe_at_a_time_and_all_of_it_once_it_works_again() {
    let (store, provider) = stage(1_500).await;
    let id = fanned_out(&store, "k").await;
    let (one, two) = (Sender::new(&store, provider), Sender::new(&store, provider));
    assert!(store.park_provider(provider, "503", "busy").await.unwrap());
    assert!(!store.park_provider(provider, "500", "").await.unwrap(), "by whoever noticed it first");
    assert!(one.claim().await.is_empty());
    assert!(store.take_probe(provider, PATIENCE).await.unwrap().is_none(), "not due yet");
    probe_is_due(&store).await;
    let probe = store.take_probe(provider, PATIENCE).await.unwrap().unwrap();
    assert!(store.take_probe(provider, PATIENCE).await.unwrap().is_none(), "somebody makes one");
    let probed =
        store.claim_lane(one.id).claim_probe(provider, LEASE, reclaim(), &[]).await.unwrap().unwrap();
    assert_eq!((probed.attempt, probed.size), (1, 500));
    let parked = store.status(id).await.unwrap().unwrap().providers[0].parked.clone().unwrap();
    assert_eq!(parked.code, "503");
    let signals = store.control_lane(two.id).signals(&[provider]).await.unwrap()[0];
    assert!(signals.parked && !signals.probe_due && signals.resumed_ago.is_none());
    store.probe_failed(probe, "500", "still\0busy", Duration::ZERO).await.unwrap();
    store.probe_failed(probe, "500", "", Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(sql(&store, "SELECT extract(epoch FROM probe_at - now())::bigint FROM provider").await, 3_600);
    assert!(store.unpark_provider(probe).await.unwrap());
    assert!(!store.unpark_provider(probe).await.unwrap());
    assert_eq!(two.claim().await.len(), 2);
    let signals = store.control_lane(two.id).signals(&[provider]).await.unwrap()[0];
    assert!(!signals.parked && signals.resumed_ago.is_some());
    assert!(store.status(id).await.unwrap().unwrap().providers[0].parked.is_none());
}

#[tokio::test]
async fn an_answer_that_comes_after_its_outage_changes_nothing_of_the_next_one() {
    let (store, provider) = stage(1).await;
    store.park_provider(provider, "503", "first").await.unwrap();
    probe_is_due(&store).await;
    let late = store.take_probe(provider, PATIENCE).await.unwrap().unwrap();
    probe_is_due(&store).await;
    let other = store.take_probe(provider, PATIENCE).await.unwrap().unwrap();
    assert!(store.unpark_provider(other).await.unwrap());
    store.park_provider(provider, "503", "second").await.unwrap();
    assert!(!store.unpark_provider(late).await.unwrap());
    store.probe_failed(late, "500", "late", Duration::ZERO).await.unwrap();
    store.postpone_probe(late).await.unwrap();
    let said = "SELECT count(*) FROM provider WHERE parked_detail = 'second' AND probes_failed = 0 \
                AND probe_at > now() + interval '500 ms'";
    assert_eq!(sql(&store, said).await, 1);
}

#[tokio::test]
async fn a_provider_that_is_parked_by_hand_is_never_probed_and_only_a_hand_takes_it_up_again() {
    let (store, provider) = stage(1_500).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    store.park_provider(provider, "503", "busy").await.unwrap();
    probe_is_due(&store).await;
    let late = store.take_probe(provider, PATIENCE).await.unwrap().unwrap();
    assert!(!store.park_by_hand("nobody", "maintenance").await.unwrap());
    let parked = async || store.list_providers().await.unwrap().swap_remove(0);
    let mut since = parked().await.parked_since;
    for reason in ["maintenance", "until Monday"] {
        assert!(store.park_by_hand("push", reason).await.unwrap());
        let now = parked().await;
        assert!(now.by_hand && now.parked_code.as_deref() == Some("by_hand"), "{now:?}");
        assert_eq!(now.parked_detail.as_deref(), Some(reason));
        assert_ne!((reason, now.parked_since), ("maintenance", since), "it begins anew");
        assert!(reason == "maintenance" || now.parked_since == since, "and stays so since then");
        since = now.parked_since;
    }
    // The probe that was under way, the failures of calls that were, and a mass of tokens called gone change nothing.
    assert!(!store.unpark_provider(late).await.unwrap());
    store.probe_failed(late, "500", "late", Duration::ZERO).await.unwrap();
    store.postpone_probe(late).await.unwrap();
    assert!(!store.park_provider(provider, "503", "busy").await.unwrap());
    assert!(!store.doubt_provider(provider, "so many").await.unwrap());
    assert!(store.take_probe(provider, PATIENCE).await.unwrap().is_none());
    let signals = store.control_lane(sender.id).signals(&[provider]).await.unwrap()[0];
    assert!(signals.parked && !signals.probe_due, "{signals:?}");
    assert!(sender.claim().await.is_empty());
    assert_eq!((parked().await.parked_since, parked().await.by_hand), (since, true));
    let found = store.conditions(0).await.unwrap();
    assert!(
        found.iter().any(|f| f.check == "parked_by_hand" && f.detail.ends_with("until Monday")),
        "{found:?}"
    );
    assert!(found.iter().all(|f| f.check != "parked"), "it is not said to fail: {found:?}");

    assert_eq!(store.unpark_by_hand("push").await.unwrap(), Some(true));
    assert!(!parked().await.by_hand);
    assert_eq!(sender.claim().await.len(), 3);
    // The next outage is one like any other.
    assert!(store.park_provider(provider, "503", "busy").await.unwrap());
    assert!(!parked().await.by_hand);
    probe_is_due(&store).await;
    assert!(store.take_probe(provider, PATIENCE).await.unwrap().is_some());
}

#[tokio::test]
async fn a_provider_that_is_doubted_stays_so_while_it_is_parked_by_hand() {
    let (store, provider) = stage(1).await;
    store.doubt_provider(provider, "so many").await.unwrap();
    store.park_by_hand("push", "whose key is this?").await.unwrap();
    let signals = store.control_lane(Sender::new(&store, provider).id).signals(&[provider]).await.unwrap()[0];
    assert!(
        signals.parked && signals.doubted,
        "what its answers say of tokens still counts for nothing: {signals:?}"
    );
    let found = store.conditions(0).await.unwrap();
    assert!(found.iter().all(|f| f.check != "doubted"), "{found:?}");
    store.unpark_by_hand("push").await.unwrap();
    let signals = store.control_lane(Sender::new(&store, provider).id).signals(&[provider]).await.unwrap()[0];
    assert!(!signals.parked && !signals.doubted, "{signals:?}");
}

#[tokio::test]
async fn a_probe_takes_fresh_work_before_a_retry_and_what_a_dead_sender_held_where_there_is_nothing_else() {
    let (store, provider) = stage(1_000).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim_up_to(1).await, |_| retry(Duration::ZERO)).await;
    store.park_provider(provider, "503", "").await.unwrap();
    let probe =
        async || store.claim_lane(sender.id).claim_probe(provider, LEASE, reclaim(), &[]).await.unwrap();
    let (fresh, due) = (probe().await.unwrap(), probe().await.unwrap());
    assert_eq!((fresh.attempt, due.attempt), (1, 2));
    assert!(probe().await.is_none());
    expire_leases(&store).await;
    assert_eq!(
        probe().await.unwrap().reclaims,
        1,
        "else a killed sender's work would park a provider for ever"
    );
}

#[tokio::test]
async fn a_failed_attempt_that_is_not_charged_leaves_the_count_of_failures_as_it_was() {
    let (store, provider) = stage(1).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let uncharged = |_| Verdict::Retry {
        after: Duration::ZERO,
        code: "503".into(),
        detail: String::new(),
        charged: false,
    };
    for attempt in 1..=10 {
        let batches = sender.claim().await;
        assert_eq!((batches[0].attempt, batches[0].failures), (attempt, 0));
        sender.settle_all(&batches, uncharged).await;
    }
}
