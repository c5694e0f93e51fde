//! Plans that cannot flip: what a statement of the hot path reads depends on the work at hand, and neither on the history
//! beside it, nor on the age of the statistics, nor on how often the session has run it.

mod plan;
mod statements;
mod survey;

use std::time::Duration;

use bongsu_store::{DeviceId, ProviderId, Store, Verdict};

use self::statements::{On, STATEMENTS, Statement, all, statement};
use self::survey::{Database, EMPTY, HUGE, SMALL, Seen, Session, survey};
use crate::harness::{self, sql};
use crate::stage::*;

/// How many times more pages a statement may look at with a huge history than with a small one, whose indexes are lower by
/// a level or two.
const GROWTH: u64 = 2;
/// … and so many more in any case.
const SLACK: u64 = 100;

#[tokio::test]
async fn once_the_tables_are_analysed_every_lane_reads_its_work_and_nothing_else() {
    survey().await.never_flips(&all(On::Lane), Seen::fresh);
}

#[tokio::test]
async fn once_large_tables_are_analysed_completion_and_status_read_their_broadcasts_and_nothing_else() {
    survey().await.never_flips(&all(On::Pool), |seen| seen.fresh() && seen.large());
}

#[tokio::test]
async fn reads_and_the_search_for_ended_broadcasts_never_flip_unless_analysed_when_empty() {
    let names = ["batch_read_range", "batch_read_listed", "sweep_ended"];
    survey().await.never_flips(&names, |seen| seen.full() && seen.scenario != EMPTY);
}

#[tokio::test]
async fn the_claim_never_flips() {
    survey().await.never_flips(&["batch_claim"], Seen::full);
}

#[tokio::test]
async fn the_read_never_flips() {
    survey().await.never_flips(&["batch_read_range", "batch_read_listed"], Seen::full);
}

#[tokio::test]
async fn keeping_and_revoking_leases_never_flips() {
    survey().await.never_flips(&["lease_renew", "sender_revoke_dead"], Seen::full);
}

#[tokio::test]
async fn the_flush_never_flips() {
    survey().await.never_flips(&["flush_lock", "flush_deliveries", "flush_batches"], Seen::full);
}

#[tokio::test]
async fn the_sweep_never_flips() {
    survey().await.never_flips(&["sweep_ended", "sweep_lock", "sweep_settle"], Seen::full);
}

#[tokio::test]
async fn completion_and_status_never_flip() {
    survey().await.never_flips(&all(On::Pool), Seen::large);
}

#[tokio::test]
async fn every_execution_returns_exactly_what_was_asked_for() {
    let survey = survey().await;
    for seen in STATEMENTS.iter().flat_map(|s| survey.seen(s.name)) {
        let Statement { name, rows, .. } = seen.statement;
        let Ok(plan) = &seen.plan else { continue };
        let expected = if seen.busy { *rows } else { 0 };
        assert_eq!(plan.rows, expected, "{name} with {}: {}", seen.scenario, seen.when);
        // Those of the sweep limit each broadcast.
        assert!(
            plan.limits.iter().all(|runs| *runs <= 1 || name.starts_with("sweep_")),
            "{name} runs a LIMIT twice: {:?}",
            plan.limits
        );
    }
}

#[tokio::test]
async fn a_huge_history_costs_no_statement_more_once_it_is_analysed() {
    costs_no_more(Seen::fresh).await;
}

#[tokio::test]
async fn a_huge_history_costs_no_statement_more() {
    costs_no_more(Seen::full).await;
}

async fn costs_no_more(counts: fn(&Seen) -> bool) {
    let survey = survey().await;
    let mut dear = vec![];
    for Statement { name, .. } in STATEMENTS {
        let small = survey.pages(name, |seen| seen.scenario == SMALL && counts(seen)).into_values().min();
        let huge = survey.pages(name, |seen| seen.scenario == HUGE && counts(seen)).into_values().max();
        let (small, huge) = small.zip(huge).expect("both have been looked at");
        println!("{name}: {small} and {huge} pages");
        if huge > GROWTH * small + SLACK {
            dear.push(format!("{name}: {huge} pages instead of {small}"));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}

/// Pages that a claim looks at with `n` batches beside the work. `state` is one, with when it is due, how many are sent, the
/// owner and the end of the lease; `broadcast` whose it is.
async fn pages_of_a_claim_beside(n: u32, broadcast: &str, state: &str) -> u64 {
    let mut database = Database::new().await;
    database.run(include_str!("plans/work.sql")).await;
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

/// Settles all deliveries as a sender does, 1,000 at a time and with some retries. Returns outcomes that
/// counted, updates of deliveries, and how many of these were made in place.
async fn settle_as_a_sender_does(store: &Store, provider: ProviderId) -> (i64, i64, i64) {
    let sender = Sender::new(store, provider);
    let mut settled = 0;
    loop {
        let batches = sender.claim_up_to(1_000).await;
        if batches.is_empty() {
            break;
        }
        let first = batches.iter().all(|batch| batch.attempt == 1);
        let verdict =
            |d: DeviceId| if first && d.0 % 33 == 0 { retry(Duration::ZERO) } else { Verdict::Sent };
        settled += i64::try_from(sender.settle(&batches, verdict).await.recorded).unwrap();
    }
    // Counts arrive when the connection that updated is gone.
    let updates = "SELECT sum(n_tup_upd)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delivery_2%'";
    harness::until(async || sql(store, updates).await >= settled).await;
    let in_place =
        "SELECT sum(n_tup_hot_upd)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delivery_2%'";
    (settled, sql(store, updates).await, sql(store, in_place).await)
}

#[tokio::test]
async fn outcomes_are_recorded_in_place() {
    let (store, provider) = stage(5_000).await;
    fanned_out(&store, "k").await;
    let (settled, updates, in_place) = settle_as_a_sender_does(&store, provider).await;
    assert_eq!(updates, settled);
    assert!(in_place * 100 >= updates * 99, "{in_place} of {updates}");
}

#[tokio::test]
async fn outcomes_are_recorded_in_place_while_an_old_snapshot_is_held() {
    let (store, provider) = stage(5_000).await;
    fanned_out(&store, "k").await;
    let mut old = store.test_pool().begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SET LOCAL idle_in_transaction_session_timeout = 0").execute(&mut *old).await.unwrap();
    let pending = "SELECT count(*) FROM delivery WHERE state = 'pending'";
    assert_eq!(sqlx::query_scalar::<_, i64>(pending).fetch_one(&mut *old).await.unwrap(), 5_000);
    let (settled, updates, in_place) = settle_as_a_sender_does(&store, provider).await;
    assert_eq!(sqlx::query_scalar::<_, i64>(pending).fetch_one(&mut *old).await.unwrap(), 5_000, "it is old");
    assert_eq!(sql(&store, pending).await, 0);
    assert_eq!(updates, settled);
    assert!(in_place * 100 >= updates * 99, "{in_place} of {updates}");
}
