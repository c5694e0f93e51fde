//! What a scrape of metrics is told of the queue and of the database.

use std::time::Duration;

use bongsu_store::{Audience, DeadReason, Gauges, ProviderWork, Store, Verdict};

use crate::harness::{sql, until};
use crate::stage::*;

async fn gauges(store: &Store) -> Gauges {
    let mut lane = store.gauge_lane();
    let gauges = lane.read().await.unwrap();
    lane.close().await;
    gauges
}

async fn push(store: &Store) -> ProviderWork {
    let gauges = gauges(store).await;
    gauges.work.into_iter().find(|work| work.provider == "push").unwrap()
}

fn open(gauges: &Gauges, state: &str) -> i64 {
    gauges.broadcasts.iter().find(|of| of.state == state).unwrap().broadcasts
}

#[tokio::test]
async fn deliveries_and_batches_of_open_broadcasts_are_counted_by_state_and_final_ones_leave() {
    let (store, provider) = stage(1_200).await;
    let id = fanned_out(&store, "k").await;
    let fresh = push(&store).await;
    assert_eq!((fresh.pending, fresh.ready, fresh.sent), (1_200, 3, 0));

    let sender = Sender::new(&store, provider);
    let batches = sender.claim_up_to(500).await;
    let leased = push(&store).await;
    assert_eq!((leased.pending, leased.ready, leased.leased), (1_200, 2, 1));
    let verdict = |device: bongsu_store::DeviceId| match device.0 % 5 {
        0 => Verdict::Dead { reason: DeadReason::Rejected, code: "400".into(), detail: String::new() },
        1 => retry(HOUR),
        _ => Verdict::Sent,
    };
    let flushed = sender.settle(&batches, verdict).await;
    assert_eq!(flushed.dead.get(&(provider, DeadReason::Rejected)), Some(&100));
    let settled = push(&store).await;
    assert_eq!((settled.pending, settled.sent, settled.dead_rejected), (800, 300, 100));
    assert_eq!((settled.ready, settled.leased, settled.waiting), (2, 0, 1));

    sql(&store, "UPDATE batch SET next_attempt_at = now() - interval '90 s' WHERE state = 'waiting' RETURNING 1::bigint").await;
    let overdue = push(&store).await;
    assert!((90.0..120.0).contains(&overdue.retry_seconds), "{overdue:?}");
    while let batches = sender.claim().await
        && !batches.is_empty()
    {
        sender.settle_all(&batches, |_| Verdict::Sent).await;
    }
    store.complete_broadcasts(&[id]).await.unwrap();
    let done = push(&store).await;
    assert_eq!(
        (done.pending, done.sent, done.dead_rejected, done.ready, done.retry_seconds),
        (0, 0, 0, 0, 0.0)
    );
}

#[tokio::test]
async fn work_that_nobody_takes_grows_old_and_what_is_paused_does_not() {
    let (store, provider) = stage(10).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    let accepted = gauges(&store).await;
    assert_eq!((open(&accepted, "accepted"), open(&accepted, "delivering")), (1, 0));
    sql(&store, "UPDATE broadcast SET created_at = now() - interval '50 s' RETURNING 1::bigint").await;
    let waiting = gauges(&store).await;
    let longest = waiting.broadcasts.iter().map(|of| of.fan_out_seconds).fold(0.0, f64::max);
    assert!((50.0..80.0).contains(&longest), "{waiting:?}");

    fan_out_all(&store).await;
    sql(&store, "UPDATE broadcast SET fan_out_page_at = now() - interval '70 s' RETURNING 1::bigint").await;
    let due = gauges(&store).await;
    assert_eq!((open(&due, "accepted"), open(&due, "delivering")), (0, 1));
    assert!(due.broadcasts.iter().all(|of| of.fan_out_seconds == 0.0), "{due:?}");
    assert!((70.0..100.0).contains(&due.work[0].fresh_seconds), "{due:?}");
    let _ = store.pause_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    let paused = push(&store).await;
    assert_eq!((paused.held, paused.ready, paused.fresh_seconds), (1, 0, 0.0));

    let _ = store.resume_broadcast(id).await.unwrap();
    let sender = Sender::new(&store, provider);
    sender.claim().await;
    expire_leases(&store).await;
    let lost = push(&store).await;
    assert!((10.0..40.0).contains(&lost.lease_seconds), "{lost:?}");
}

#[tokio::test]
async fn providers_that_are_left_alone_say_for_how_long() {
    let (store, provider) = stage(0).await;
    store.hold_provider(provider, Duration::from_secs(60)).await.unwrap();
    store.park_provider(provider, "503", "busy").await.unwrap();
    sql(&store, "UPDATE provider SET parked_since = now() - interval '30 s' RETURNING 1::bigint").await;
    store.pace_provider(provider, Some(250)).await.unwrap();
    let gauges = gauges(&store).await;
    let push = &gauges.providers[0];
    assert!((30.0..60.0).contains(&push.parked_seconds), "{push:?}");
    assert!((40.0..=60.0).contains(&push.held_seconds), "{push:?}");
    assert_eq!((push.doubted, push.rate_per_second), (false, Some(250)));
}

#[tokio::test]
async fn an_old_snapshot_missing_days_and_dead_rows_show() {
    let (store, _) = stage(0).await;
    store.ensure_partitions().await.unwrap();
    let before = gauges(&store).await.database;
    assert_eq!((before.live_senders, before.missing_partitions), (0, 0));
    assert!(before.bytes > 1_000_000 && before.partitions >= 3, "{before:?}");
    let snapshot = store.hold_snapshot().await.unwrap();
    for _ in 0..5 {
        sql(&store, "UPDATE provider SET vtime = vtime + 1 RETURNING 1::bigint").await;
    }
    let held = gauges(&store).await.database;
    assert!(held.oldest_snapshot_age >= 5, "{held:?}");
    assert!(held.oldest_transaction_seconds > 0.0, "{held:?}");
    snapshot.end().await.unwrap();
    until(async || {
        let tables = gauges(&store).await.tables;
        tables.iter().any(|of| of.table == "provider" && of.dead >= 5)
    })
    .await;
}

#[tokio::test]
async fn a_database_that_goes_away_is_an_error_within_seconds_and_comes_back() {
    let (store, _) = stage(0).await;
    let mut lane = store.gauge_lane();
    lane.read().await.unwrap();
    sql(&store, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'test' AND pid <> pg_backend_pid() AND datname = current_database()").await;
    assert!(lane.read().await.unwrap_err().is_unavailable());
    lane.read().await.unwrap();
}

#[tokio::test]
async fn the_span_that_asked_reaches_fan_out_and_senders_from_audiences_long_and_short() {
    const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (store, provider) = stage(3).await;
    let traced = |key, audience| bongsu_store::NewBroadcast {
        trace_context: Some(CONTEXT.into()),
        ..new_broadcast(key, audience)
    };
    let _ = store.accept(&traced("long", Audience::Everyone)).await.unwrap();
    let bongsu_store::FanOut::Page { trace_context, .. } = store.fan_out_page().await.unwrap() else {
        panic!("a page")
    };
    assert_eq!(trace_context.as_deref(), Some(CONTEXT));
    fan_out_all(&store).await;
    let _ = store.accept(&traced("short", Audience::users(vec!["user-1".into()]))).await.unwrap();
    let _ = accept(&store, "untraced", Audience::users(vec!["user-1".into()])).await;
    let sender = Sender::new(&store, provider);
    let mut broadcasts: Vec<_> = sender.claim().await.iter().map(|batch| batch.broadcast).collect();
    broadcasts.sort_unstable();
    assert_eq!(broadcasts.len(), 3);
    let works = store.claim_lane(sender.id).work(&broadcasts).await.unwrap();
    let context = |id| works.iter().find(|work| work.id == id).unwrap().trace_context.as_deref();
    let contexts: Vec<_> = broadcasts.into_iter().map(context).collect();
    assert_eq!(contexts, [Some(CONTEXT), Some(CONTEXT), None]);
}
