//! Plans that cannot flip: what a statement of the hot path reads depends on the work at hand, and neither on the history
//! beside it, nor on the age of the statistics, nor on how often the session has run it.

mod beside;
mod database;
mod in_place;
mod plan;
mod statements;
mod survey;

use self::statements::{On, STATEMENTS, Statement, all, names};
use self::survey::{EMPTY, HUGE, SMALL, Scenario, Seen, Survey, VAST, survey};

/// How many times more pages a statement may look at with a huge history than with a small one, whose indexes are lower by
/// a level or two.
const GROWTH: u64 = 2;
/// … and so many more in any case.
const SLACK: u64 = 100;

/// What is read of the batches that were claimed, and where to call.
const READS: [&str; 4] = ["batch_read_range", "batch_read_listed", "target_range", "target_listed"];

#[tokio::test]
async fn once_the_tables_are_analysed_every_lane_reads_its_work_and_nothing_else() {
    survey().await.never_flips(&names(|s| s.on != On::Pool), Seen::fresh);
}

#[tokio::test]
async fn once_large_tables_are_analysed_the_pool_reads_what_was_asked_for_and_nothing_else() {
    survey().await.never_flips(&all(On::Pool), |seen| seen.fresh() && seen.large());
}

#[tokio::test]
async fn reads_and_the_search_for_ended_broadcasts_never_flip_unless_analysed_when_empty() {
    let names = [&READS[..], &["sweep_ended"]].concat();
    survey().await.never_flips(&names, |seen| seen.full() && !seen.beside(&EMPTY));
}

#[tokio::test]
async fn the_claim_never_flips() {
    survey().await.never_flips(&["batch_claim"], Seen::full);
}

#[tokio::test]
async fn the_read_never_flips() {
    survey().await.never_flips(&READS, Seen::full);
}

#[tokio::test]
async fn keeping_and_revoking_leases_and_giving_them_back_never_flips() {
    survey().await.never_flips(&["lease_renew", "lease_release", "sender_revoke_dead"], Seen::full);
}

#[tokio::test]
async fn the_flush_never_flips() {
    let statements = names(|s| s.name.starts_with("flush_") || s.name == "device_retire_unregistered");
    survey().await.never_flips(&statements, Seen::full);
}

#[tokio::test]
async fn the_sweep_never_flips() {
    survey().await.never_flips(&["sweep_ended", "sweep_lock", "sweep_settle"], Seen::full);
}

#[tokio::test]
async fn fan_out_and_replay_never_flip() {
    let such = |s: &Statement| s.name.starts_with("fan_out_") || s.name.starts_with("replay_");
    survey().await.never_flips(&names(|s| such(s) && !pages_by_order(s)), Seen::full);
}

#[tokio::test]
async fn lists_and_pages_of_topics_read_a_page_and_nothing_else_unless_never_analysed() {
    survey().await.never_flips(&names(pages_by_order), Seen::known);
}

/// Whether it relies on an index for the order of a page. Without statistics, few rows are expected, and reading and sorting
/// all of them, or another index in that order, seems as cheap.
fn pages_by_order(statement: &Statement) -> bool {
    ["_list", "_topics", "_restorable", "_purge", "_reach", "devices_user"]
        .iter()
        .any(|part| statement.name.contains(part))
        && statement.on == On::Pool
}

#[tokio::test]
async fn beside_large_tables_the_pool_never_flips() {
    survey().await.never_flips(&names(|s| s.on == On::Pool && !pages_by_order(s)), Seen::large);
}

#[tokio::test]
async fn every_execution_returns_exactly_what_was_asked_for() {
    let survey = survey().await;
    for seen in STATEMENTS.iter().flat_map(|s| survey.seen(s.name)) {
        let Statement { name, rows, .. } = seen.statement;
        let Ok(plan) = &seen.plan else { continue };
        let (beside, when) = (seen.scenario, seen.when);
        // Before there is work, some return or write what their parameters say all the same.
        let exactly = if seen.busy { plan.rows == *rows } else { plan.rows <= *rows };
        assert!(exactly, "{name} with {beside:?}: {when}: {} rows instead of {rows}", plan.rows);
        assert!(
            plan.limits.iter().all(|runs| *runs <= 1 || seen.statement.takes_turns()),
            "{name} runs a LIMIT twice: {:?}",
            plan.limits
        );
    }
}

#[tokio::test]
async fn a_huge_history_costs_no_statement_more_once_it_is_analysed() {
    costs_no_more(survey().await, &HUGE, Seen::fresh);
}

#[tokio::test]
async fn a_huge_history_costs_no_statement_more() {
    costs_no_more(survey().await, &HUGE, Seen::full);
}

#[tokio::test]
#[ignore = "takes minutes: cargo test -p bongsu-store --test it -- --ignored beside_two_million_deliveries"]
async fn beside_two_million_deliveries_no_statement_flips_or_costs_more() {
    let survey = Survey::of([&SMALL, &VAST]).await;
    survey.never_flips(&names(|_| true), Seen::full);
    costs_no_more(&survey, &VAST, Seen::full);
}

/// Fails where a statement looks at far more pages beside that history than beside a small one.
fn costs_no_more(survey: &Survey, history: &Scenario, counts: fn(&Seen) -> bool) {
    let mut dear = vec![];
    for Statement { name, .. } in STATEMENTS {
        let small = survey.pages(name, |seen| seen.beside(&SMALL) && counts(seen)).into_values().min();
        let huge = survey.pages(name, |seen| seen.beside(history) && counts(seen)).into_values().max();
        let (small, huge) = small.zip(huge).expect("both have been looked at");
        println!("{name}: {small} and {huge} pages");
        if huge > GROWTH * small + SLACK {
            dear.push(format!("{name}: {huge} pages instead of {small}"));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}
