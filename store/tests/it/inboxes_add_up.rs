//! `bongsu doctor` finds counts of events that are not those of the inboxes.

use bongsu_store::{Acceptance, Audience, NewBroadcast, Routing, Store, Verdict, testing};

use crate::harness::sql;
use crate::stage::*;

/// What is broken, without the remedies.
async fn broken(store: &Store) -> Vec<(&'static str, String)> {
    let findings = store.broken_invariants().await.unwrap();
    findings.into_iter().map(|f| (f.check, f.detail)).collect()
}

#[tokio::test]
async fn an_event_that_was_lost_or_counted_twice_is_found_and_what_retention_took_is_not() {
    let (store, provider) = stage(5).await;
    let new = NewBroadcast { routing: Routing::LiveAndPush, ..new_broadcast("k", Audience::Everyone) };
    let Acceptance::New(broadcast) = store.accept(&new).await.unwrap() else { panic!("it is not new") };
    fan_out_all(&store).await;
    let users = testing::make_events(&store, broadcast.id).await;
    store.acknowledge(&[(users["user-0"], broadcast.id), (users["user-1"], broadcast.id)]).await.unwrap();
    assert_eq!(broken(&store).await, []);

    let count = async |acknowledged: i64| {
        sqlx::query("UPDATE broadcast_live SET acknowledged = $1")
            .bind(acknowledged)
            .execute(store.test_pool())
            .await
            .unwrap();
    };
    count(1).await;
    let detail =
        "counts 5 events, of which 1 are acknowledged, and inboxes have 5, of which 2 are".to_owned();
    assert_eq!(broken(&store).await, [("inboxes", detail)]);
    count(2).await;

    sql(
        &store,
        "WITH gone AS (DELETE FROM inbox WHERE acked_at IS NOT NULL RETURNING 1) SELECT count(*) FROM gone",
    )
    .await;
    let detail =
        "counts 5 events, of which 2 are acknowledged, and inboxes have 3, of which 0 are".to_owned();
    assert_eq!(broken(&store).await, [("inboxes", detail)], "while the broadcast is open, nothing is taken");
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    assert_eq!(store.complete_broadcasts(&[broadcast.id]).await.unwrap(), [broadcast.id]);
    assert_eq!(broken(&store).await, []);

    sql(&store, "UPDATE inbox_user SET last_seq = 0 WHERE user_id = 'user-3' RETURNING 1::bigint").await;
    let detail = "has event 1, and the last one that was numbered is 0".to_owned();
    assert_eq!(broken(&store).await, [("inboxes", detail)]);
}
