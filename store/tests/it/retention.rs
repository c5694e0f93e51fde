//! Old days leave, and nobody who works on delivery waits for it.

use bongsu_store::{Partition, PartitionState, Step, Store, Verdict};
use sqlx::{Connection, Executor, PgConnection};

use crate::harness::{sql, until};
use crate::stage::*;

/// Kept for so long, of a history of five days, the third, fourth and fifth day before today are past.
const DAYS: u32 = 2;
const HISTORY: u32 = 5;

/// A store with one device and some settled deliveries on each of the days before.
async fn stage_with_history() -> (Store, bongsu_store::ProviderId) {
    let (store, provider) = stage(1).await;
    store.add_history(100, HISTORY).await.unwrap();
    (store, provider)
}

async fn names(store: &Store, state: fn(&PartitionState) -> bool) -> Vec<String> {
    let partitions = store.partitions(DAYS).await.unwrap();
    partitions.into_iter().filter(|p| state(&p.state)).map(|p| p.name).collect()
}

async fn due(store: &Store) -> Vec<String> {
    names(store, |state| *state == PartitionState::Due).await
}

async fn half_way(store: &Store) -> Vec<String> {
    names(store, |state| matches!(state, PartitionState::HalfWay { .. })).await
}

/// Takes the turn and goes on until nothing is due; the names of what was dropped.
async fn apply(store: &Store) -> Vec<String> {
    let mut turn = store.retention_turn().await.unwrap().expect("nobody else has the turn");
    let mut dropped = vec![];
    loop {
        match turn.step(DAYS).await.unwrap() {
            Step::Dropped { partition, .. } => dropped.push(partition.name),
            Step::Done => break,
            other => panic!("{other:?}"),
        }
    }
    turn.end().await.unwrap();
    dropped
}

async fn step(store: &Store) -> Step {
    let mut turn = store.retention_turn().await.unwrap().expect("nobody else has the turn");
    let step = turn.step(DAYS).await.unwrap();
    turn.end().await.unwrap();
    step
}

/// A session whose transactions and waits last as long as the test wants.
async fn session(store: &Store) -> PgConnection {
    let mut session = store.test_pool().acquire().await.unwrap().detach();
    for setting in ["lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"] {
        session.execute(sqlx::AssertSqlSafe(format!("SET {setting} = 0"))).await.unwrap();
    }
    session
}

/// A transaction that has read everything, as a long report does.
async fn reader(store: &Store) -> PgConnection {
    let mut reader = session(store).await;
    reader.execute("BEGIN; SELECT count(*) FROM delivery").await.unwrap();
    reader
}

/// One broadcast from acceptance to its end, through every statement of the hot path.
async fn send(store: &Store, provider: bongsu_store::ProviderId, key: &str) {
    let id = fanned_out(store, key).await;
    let sender = Sender::new(store, provider);
    let batches = sender.claim().await;
    sender.settle_all(&batches, |_| Verdict::Sent).await;
    sweep_all(store).await;
    assert_eq!(counts(store, id).await.sent, 1);
}

async fn waits_for_a_lock(store: &Store, pid: i32) -> bool {
    let waits = sqlx::query_scalar("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1");
    waits.bind(pid).fetch_one(store.test_pool()).await.unwrap_or(Some(false)).unwrap_or(false)
}

async fn pid(session: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(session).await.unwrap()
}

#[tokio::test]
async fn only_days_beyond_the_retention_go_the_oldest_first_and_the_books_still_balance() {
    let (store, provider) = stage_with_history().await;
    let old = due(&store).await;
    assert_eq!(old.len(), 3, "{old:?}");
    let before = store.partitions(DAYS).await.unwrap();
    assert!(before.iter().all(|p| p.rows == 20 || p.state == PartitionState::Kept), "{before:?}");
    assert_eq!(apply(&store).await, old);
    let left = store.partitions(DAYS).await.unwrap();
    assert_eq!(left.len(), before.len() - 3);
    assert!(left.iter().all(|p| p.state == PartitionState::Kept), "{left:?}");
    assert_eq!(sql(&store, "SELECT count(*) FROM delivery").await, 40);
    assert_eq!(sql(&store, "SELECT sum(sent)::bigint FROM broadcast_tally").await, 100, "progress is kept");
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    send(&store, provider, "after").await;
    assert!(apply(&store).await.is_empty(), "nothing is left to do");
}

#[tokio::test]
async fn an_open_broadcast_holds_its_day_and_is_named_until_it_is_final() {
    let (store, _) = stage_with_history().await;
    let open = sql(
        &store,
        "UPDATE broadcast SET state = 'delivering', settled_at = NULL WHERE id = (SELECT min(id) FROM broadcast) RETURNING id",
    )
    .await;
    let held = store.partitions(DAYS).await.unwrap().swap_remove(0);
    let PartitionState::Waiting { broadcasts: 1, first } = held.state else { panic!("{held:?}") };
    assert_eq!(first.0, open);
    assert_eq!(apply(&store).await.len(), 2, "the others do not wait for it");
    let settle =
        "UPDATE broadcast SET state = 'completed', settled_at = now() WHERE settled_at IS NULL RETURNING id";
    sql(&store, settle).await;
    assert_eq!(apply(&store).await, [held.name]);
}

#[tokio::test]
async fn a_long_transaction_makes_it_give_up_half_way_and_the_next_turn_goes_on_while_sending_does() {
    let (store, provider) = stage_with_history().await;
    let oldest = due(&store).await.swap_remove(0);
    let mut reader = reader(&store).await;
    for _ in 0..2 {
        let Step::GaveUp { partition, why } = step(&store).await else { panic!("it is in use") };
        assert_eq!((&partition.name, partition.state), (&oldest, PartitionState::HalfWay { ours: true }));
        assert!(why.contains("lock timeout"), "{why}");
    }
    send(&store, provider, "meanwhile").await;
    store.ensure_partitions().await.unwrap();
    reader.execute("ROLLBACK").await.unwrap();
    assert_eq!(apply(&store).await.len(), 3);
}

#[tokio::test]
async fn a_detach_whose_process_was_killed_is_brought_to_its_end() {
    let (store, _) = stage_with_history().await;
    let oldest = due(&store).await.swap_remove(0);
    let mut reader = reader(&store).await;
    let mut turn = store.retention_turn().await.unwrap().unwrap();
    let killed = tokio::spawn(async move { while turn.step(DAYS).await.is_ok() {} });
    until(async || half_way(&store).await.contains(&oldest)).await;
    let kill =
        "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(sql(&store, kill).await, 1);
    killed.await.unwrap();
    reader.execute("ROLLBACK").await.unwrap();
    let mut turn = None;
    until(async || {
        turn = store.retention_turn().await.unwrap();
        turn.is_some()
    })
    .await;
    let step = turn.unwrap().step(DAYS).await.unwrap();
    assert!(matches!(&step, Step::Dropped { partition, .. } if partition.name == oldest), "{step:?}");
}

#[tokio::test]
async fn what_was_detached_before_a_kill_is_dropped_and_what_somebody_else_detached_is_theirs() {
    let (store, _) = stage_with_history().await;
    let [ours, theirs, _] = due(&store).await.try_into().unwrap();
    let mut session = session(&store).await;
    for statement in [
        format!("COMMENT ON TABLE {ours} IS 'bongsu: past its retention'"),
        format!("ALTER TABLE delivery DETACH PARTITION {ours}"),
        format!("ALTER TABLE delivery DETACH PARTITION {theirs}"),
    ] {
        session.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
    }
    assert_eq!(names(&store, |state| *state == PartitionState::Detached).await, std::slice::from_ref(&ours));
    let dropped = apply(&store).await;
    assert!(dropped.contains(&ours) && dropped.len() == 2, "{dropped:?}");
    assert_eq!(names(&store, |state| *state == PartitionState::Foreign).await, [theirs]);
}

#[tokio::test]
async fn what_somebody_else_left_half_way_is_detached_for_them_and_stays() {
    let (store, _) = stage_with_history().await;
    let theirs = due(&store).await.swap_remove(1);
    let mut reader = reader(&store).await;
    let mut session = session(&store).await;
    session.execute("SET lock_timeout = 50").await.unwrap();
    let detach = sqlx::AssertSqlSafe(format!("ALTER TABLE delivery DETACH PARTITION {theirs} CONCURRENTLY"));
    session.execute(detach).await.expect_err("the reader is in its way");
    reader.execute("ROLLBACK").await.unwrap();
    let step = step(&store).await;
    assert!(matches!(&step, Step::Finalized(Partition { name, .. }) if *name == theirs), "{step:?}");
    assert_eq!(apply(&store).await.len(), 2);
    assert_eq!(names(&store, |state| *state == PartitionState::Foreign).await, [theirs]);
}

#[tokio::test]
async fn one_process_at_a_time_has_the_turn() {
    let (store, _) = stage_with_history().await;
    let first = store.retention_turn().await.unwrap().unwrap();
    assert!(store.retention_turn().await.unwrap().is_none());
    first.end().await.unwrap();
    assert!(matches!(step(&store).await, Step::Dropped { .. }));
}

#[tokio::test]
async fn nobody_waits_behind_a_detach_that_waits_for_a_lock() {
    let (store, provider) = stage_with_history().await;
    let oldest = due(&store).await.swap_remove(0);
    // Somebody reads the partition by its name, which both halves of a detach and the drop have to wait for …
    let mut reader = session(&store).await;
    let read = sqlx::AssertSqlSafe(format!("BEGIN; SELECT count(*) FROM {oldest}"));
    reader.execute(read).await.unwrap();
    for (n, how) in ["CONCURRENTLY", "FINALIZE"].into_iter().enumerate() {
        // … and here they do without end.
        let mut detaching = session(&store).await;
        let pid = pid(&mut detaching).await;
        let detach = format!("ALTER TABLE delivery DETACH PARTITION {oldest} {how}");
        let detaching = tokio::spawn(async move { detaching.execute(sqlx::AssertSqlSafe(detach)).await });
        until(async || waits_for_a_lock(&store, pid).await).await;
        assert_eq!(half_way(&store).await, std::slice::from_ref(&oldest));
        send(&store, provider, how).await;
        assert_eq!(
            sql(&store, "SELECT count(*) FROM delivery").await,
            81 + n as i64,
            "without the oldest day"
        );
        assert!(waits_for_a_lock(&store, pid).await, "it waited all the time");
        let kill = sqlx::query_scalar::<_, bool>("SELECT pg_terminate_backend($1)").bind(pid);
        assert!(kill.fetch_one(store.test_pool()).await.unwrap());
        detaching.await.unwrap().expect_err("it was killed");
    }
    reader.close().await.unwrap();
}

#[tokio::test]
async fn the_statistics_of_all_deliveries_are_made_once_there_are_some_and_not_again_at_once() {
    let (store, _) = stage(1).await;
    let known = "SELECT reltuples::bigint FROM pg_class WHERE relname = 'delivery'";
    let mut turn = store.retention_turn().await.unwrap().unwrap();
    assert!(!turn.analyze().await.unwrap(), "nothing is known best by nothing");
    sql(&store, "SELECT ensure_delivery_partition('2026-01-01')::int::bigint").await;
    let insert = "WITH made AS (INSERT INTO delivery (broadcast_id, shard, provider_id, device_id)
                  SELECT broadcast_id_at('2026-01-01 12:00Z'), 0, 1, n FROM generate_series(1, 1000) AS n RETURNING 1)
                  SELECT count(*) FROM made";
    assert_eq!(sql(&store, insert).await, 1_000);
    // What a session has done is known to all about a second later.
    until(async || turn.analyze().await.unwrap()).await;
    assert_eq!(sql(&store, known).await, 1_000);
    assert!(!turn.analyze().await.unwrap());
}

#[tokio::test]
async fn deliveries_that_were_dropped_are_told_apart_from_those_that_never_were() {
    let (store, _) = stage_with_history().await;
    let oldest = bongsu_store::BroadcastId(sql(&store, "SELECT min(id) FROM broadcast").await);
    let youngest = bongsu_store::BroadcastId(sql(&store, "SELECT max(id) FROM broadcast").await);
    let nobody = accept(&store, "nobody", bongsu_store::Audience::Users(vec!["nobody".into()])).await.id;
    assert!(!store.deliveries_dropped(oldest).await.unwrap());
    assert_eq!(apply(&store).await.len(), 3);
    assert!(store.deliveries_dropped(oldest).await.unwrap());
    assert!(!store.deliveries_dropped(youngest).await.unwrap());
    assert!(!store.deliveries_dropped(nobody).await.unwrap());
}

/// Purges until nothing is left to do; rows of audiences, dead letters and broadcasts that went.
async fn purge(store: &Store, history_days: u32) -> (u64, u64, u64) {
    let mut turn = store.retention_turn().await.unwrap().expect("nobody else has the turn");
    let mut all = (0, 0, 0);
    loop {
        let purged = turn.purge(DAYS, history_days).await.unwrap();
        all = (all.0 + purged.audiences, all.1 + purged.dead_letters, all.2 + purged.broadcasts);
        if !purged.more {
            turn.end().await.unwrap();
            return all;
        }
    }
}

#[tokio::test]
async fn broadcasts_outlive_their_deliveries_and_go_with_their_dead_letters_once_nothing_refers_to_them() {
    let (store, _) = stage_with_history().await;
    for statement in [
        // The oldest has an audience by name and dead letters, one of which the youngest, a replay, took up.
        "WITH made AS (INSERT INTO broadcast_audience (broadcast_id, ordinal, user_ids) SELECT min(id), 1, '{a}' FROM broadcast
         RETURNING 1) SELECT count(*) FROM made",
        "WITH made AS (INSERT INTO dead_letter (broadcast_id, shard, provider_id, device_id, attempts, reason, code, detail,
         replayed_by) SELECT min(id), 0, 1, n, 1, 'rejected', '400', '', CASE n WHEN 1 THEN max(id) END
         FROM broadcast, generate_series(1, 1500) AS n GROUP BY n RETURNING 1) SELECT count(*) FROM made",
        "UPDATE broadcast SET audience = 'dead_letters', replay_of = (SELECT min(id) FROM broadcast), origin_id = 1
         WHERE id = (SELECT max(id) FROM broadcast) RETURNING id",
    ] {
        sql(&store, statement).await;
    }
    assert_eq!(purge(&store, 1).await, (0, 0, 0), "there are deliveries");
    assert_eq!(apply(&store).await.len(), 3);
    assert_eq!(purge(&store, 0).await, (1, 0, 0), "for ever");
    assert_eq!(purge(&store, 90).await, (0, 0, 0), "they are too young");
    assert_eq!(
        purge(&store, 2).await,
        (0, 1_500, 2),
        "the oldest has a replay that is kept, the others nothing"
    );
    assert_eq!(sql(&store, "SELECT count(*) FROM broadcast").await, 3);
    let delete = "WITH gone AS (DELETE FROM broadcast WHERE replay_of IS NOT NULL RETURNING 1) SELECT count(*) FROM gone";
    assert_eq!(sql(&store, delete).await, 1);
    assert_eq!(purge(&store, 2).await, (0, 0, 1));
}

#[tokio::test]
async fn dead_letters_that_a_replay_is_taking_up_stay_until_it_is_final() {
    let (store, _) = stage_with_history().await;
    for statement in [
        "WITH made AS (INSERT INTO dead_letter (broadcast_id, shard, provider_id, device_id, attempts, reason, code, detail)
         SELECT min(id), 0, 1, 1, 1, 'rejected', '400', '' FROM broadcast RETURNING 1) SELECT count(*) FROM made",
        "UPDATE broadcast SET audience = 'dead_letters', replay_of = (SELECT min(id) FROM broadcast), origin_id = 1,
         state = 'fanning_out', settled_at = NULL WHERE id = (SELECT max(id) FROM broadcast) RETURNING id",
    ] {
        sql(&store, statement).await;
    }
    assert_eq!(apply(&store).await.len(), 3);
    assert_eq!(purge(&store, 2).await, (0, 0, 2));
    sql(
        &store,
        "UPDATE broadcast SET state = 'completed', settled_at = now() WHERE settled_at IS NULL RETURNING id",
    )
    .await;
    assert_eq!(purge(&store, 2).await, (0, 1, 0), "and the broadcast stays while its replay does");
}

#[tokio::test]
async fn the_doctor_names_what_should_have_gone_and_why_it_has_not() {
    let (store, _) = stage_with_history().await;
    let oldest = due(&store).await.swap_remove(0);
    let found = async |days| -> Vec<_> {
        let found = store.conditions(days).await.unwrap().into_iter();
        found.filter(|f| f.check == "retention").map(|f| (f.subject, f.detail)).collect()
    };
    assert_eq!(found(0).await, []);
    assert_eq!(found(3).await, [], "two days late is not yet overdue");
    let subject = format!("partition {oldest}");
    let late = found(2).await;
    assert!(late.len() == 1 && late[0].0 == subject && late[0].1.contains("nobody has"), "{late:?}");
    sql(
        &store,
        "UPDATE broadcast SET state = 'delivering', settled_at = NULL WHERE id = (SELECT min(id) FROM broadcast) RETURNING id",
    )
    .await;
    assert!(found(2).await[0].1.contains("1 broadcasts of the day are open"));
    let settle =
        "UPDATE broadcast SET state = 'completed', settled_at = now() WHERE settled_at IS NULL RETURNING id";
    sql(&store, settle).await;
    let mut reader = reader(&store).await;
    assert!(matches!(step(&store).await, Step::GaveUp { .. }));
    assert_eq!(found(0).await, [(subject, "is detached half way".to_owned())]);
    reader.execute("ROLLBACK").await.unwrap();
}
