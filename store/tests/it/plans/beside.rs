//! Claims beside many batches that are none of their business.

use super::database::{Database, Session};
use super::statements::{Statement, statement};
use super::{GROWTH, SLACK};
use crate::harness::{self, sql};

/// The work with `n` batches beside it. `state` is one, with when it is due, how many are sent, the owner and the end of the
/// lease; `broadcast` whose it is.
async fn database_beside(n: u32, broadcast: &str, state: &str) -> Database {
    let mut database = Database::new().await;
    database.run(include_str!("work.sql")).await;
    database.run("ANALYZE").await;
    let batches = format!(
        "INSERT INTO batch (broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state,
                            next_attempt_at, sent, lease_owner, lease_expires_at)
         SELECT {broadcast}, 0, 1, 0, 1, 1, 1, 1, b.* FROM generate_series(1, {n}), (VALUES {state}) AS b"
    );
    database.run(&batches).await;
    database
}

async fn pages_of_a_claim(database: &Database) -> u64 {
    let mut session = Session::open(&database.store).await;
    let plan = session.explain(statement("batch_claim")).await.unwrap();
    assert_eq!(plan.rows, statement("batch_claim").rows);
    plan.buffers
}

#[tokio::test]
async fn a_claim_does_not_read_what_is_not_due_or_done_or_in_other_hands() {
    let state = "('waiting'::batch_state, timestamptz '2100-01-01', 0, NULL::uuid, NULL::timestamptz),
                 ('done', NULL, 1, NULL, NULL),
                 ('leased', NULL, 0, somebody(), '2100-01-01')";
    let alone = pages_of_a_claim(&database_beside(0, "at_work()", state).await).await;
    let beside = pages_of_a_claim(&database_beside(70_000, "at_work()", state).await).await;
    assert!(beside <= GROWTH * alone + SLACK, "{beside} pages instead of {alone}");
}

#[tokio::test]
async fn a_claim_does_not_read_the_batches_of_a_cancelled_broadcast_for_long() {
    let state = "('ready'::batch_state, NULL::timestamptz, 0, NULL::uuid, NULL::timestamptz)";
    let mut database = database_beside(0, "ended()", state).await;
    let alone = pages_of_a_claim(&database).await;
    let more = "WITH d AS (INSERT INTO delivery (broadcast_id, shard, provider_id, device_id)
                           SELECT ended(), 0, 1, n FROM generate_series(20001, 25000) AS n
                           RETURNING device_id AS n)
                INSERT INTO batch (broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state)
                SELECT ended(), 0, 1, 0, 1, 1, n, n, 'ready' FROM d";
    database.run(more).await;
    let mut sweep = database.store.sweep_lane();
    // A thousand a step are taken out of the queue, long before all are settled.
    for _ in 0..6 {
        assert!(sweep.sweep().await.unwrap().more);
    }
    let open = "SELECT count(*) FROM batch WHERE broadcast_id = ended() AND state = 'held'";
    assert!(sql(&database.store, open).await > 4_000, "not settled yet");
    // Claims still meet the dead index entries until no snapshot needs them, and clear them away then.
    harness::until(async || pages_of_a_claim(&database).await <= GROWTH * alone + SLACK).await;
}

#[tokio::test]
async fn a_sweep_does_not_read_what_has_ended_while_somebody_holds_an_old_snapshot() {
    let mut database = Database::new().await;
    database.run(include_str!("work.sql")).await;
    let pages = async |database: &Database| {
        let mut session = Session::open(&database.store).await;
        session.explain(statement("sweep_open")).await.unwrap().buffers
    };
    let alone = pages(&database).await;
    let snapshot = database.store.hold_snapshot().await.unwrap();
    // Earlier than what the sweep has looked at.
    let short = "INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, expires_at)
                 SELECT n, 'test', 'short-' || n, '', '', '', '{}', 'normal', 'everyone', 'delivering', '2100-01-01'
                 FROM generate_series(1, 10000) AS n";
    database.run(short).await;
    database
        .run("UPDATE broadcast SET state = 'completed', settled_at = now() WHERE idempotency_key LIKE 'short-%'")
        .await;
    let beside = pages(&database).await;
    snapshot.end().await.unwrap();
    assert!(beside <= GROWTH * alone + SLACK, "{beside} pages instead of {alone}");
}

#[tokio::test]
async fn a_claim_does_not_read_what_was_claimed_before_while_somebody_holds_an_old_snapshot() {
    let mut database = Database::new().await;
    database.run(include_str!("work.sql")).await;
    // From rank 7 on, and of that rank after batch 200,000; retries that fell due within two seconds; not at leases that ran out.
    let usual = Statement {
        parameters: "0, '{1}', '{3}', '{100000}', '{7}', me(), 20, NULL, '{}', NULL, '{9223372036854775807}', '{t}', '{200000}', '{2}'",
        ..*statement("batch_claim")
    };
    let batches = |first: i32, last: i32| {
        format!(
            "INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state)
             OVERRIDING SYSTEM VALUE
             SELECT n, at_work(), 0, 1, 7, 1, 1, 1, 1, 'ready' FROM generate_series({first}, {last}) AS n"
        )
    };
    database.run(&batches(300_001, 300_100)).await;
    let look = async |database: &Database| {
        let plan = Session::open(&database.store).await.explain(&usual).await.unwrap();
        (plan.rows, plan.buffers)
    };
    let (rows, alone) = look(&database).await;
    let snapshot = database.store.hold_snapshot().await.unwrap();
    database.run(&batches(100_001, 110_000)).await;
    for step in [
        "UPDATE batch SET state = 'waiting', attempt = 2, next_attempt_at = now() - interval '3 minutes' WHERE id BETWEEN 100001 AND 110000",
        "UPDATE batch SET state = 'leased', next_attempt_at = NULL, lease_owner = me(), lease_expires_at = now() - interval '1 minute' WHERE id BETWEEN 100001 AND 110000",
        "UPDATE batch SET state = 'done', sent = 1, lease_owner = NULL, lease_expires_at = NULL WHERE id BETWEEN 100001 AND 110000",
    ] {
        database.run(step).await;
    }
    let beside = look(&database).await;
    snapshot.end().await.unwrap();
    assert_eq!(beside.0, rows);
    assert!(beside.1 <= GROWTH * alone + SLACK, "{} pages instead of {alone}", beside.1);
}
