//! Claims beside many batches that are none of their business.

use super::database::{Database, Session};
use super::statements::statement;
use super::{GROWTH, SLACK};

/// Pages that a claim looks at with `n` batches beside the work. `state` is one, with when it is due, how many are sent, the
/// owner and the end of the lease; `broadcast` whose it is.
async fn pages_of_a_claim_beside(n: u32, broadcast: &str, state: &str) -> u64 {
    let mut database = Database::new().await;
    database.run(include_str!("work.sql")).await;
    database.run("ANALYZE").await;
    let batches = format!(
        "INSERT INTO batch (broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state,
                            next_attempt_at, sent, lease_owner, lease_expires_at)
         SELECT {broadcast}, 0, 1, 0, 1, 1, 1, 1, b.* FROM generate_series(1, {n}), (VALUES {state}) AS b"
    );
    database.run(&batches).await;
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
    let alone = pages_of_a_claim_beside(0, "at_work()", state).await;
    let beside = pages_of_a_claim_beside(70_000, "at_work()", state).await;
    assert!(beside <= GROWTH * alone + SLACK, "{beside} pages instead of {alone}");
}

#[tokio::test]
#[ignore = "reads all of them in every claim, until the sweep has settled them"]
async fn a_claim_does_not_read_the_ready_batches_of_cancelled_broadcasts() {
    let state = "('ready'::batch_state, NULL::timestamptz, 0, NULL::uuid, NULL::timestamptz)";
    let alone = pages_of_a_claim_beside(0, "ended()", state).await;
    let beside = pages_of_a_claim_beside(200_000, "ended()", state).await;
    assert!(beside <= GROWTH * alone + SLACK, "{beside} pages instead of {alone}");
}
