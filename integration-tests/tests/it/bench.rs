//! The benchmark counts what it says that it counts. How fast anything is depends on the machine and is not looked at.

use std::process::Command;

use serde_json::Value;

use crate::processes::BONGSU;

fn bench(arguments: &[&str]) -> Value {
    let bench = Command::new(BONGSU)
        .arg("bench")
        .args(arguments)
        .args(["--json", "--allow-debug"])
        .env_remove("BONGSU_DATABASE_URL")
        .output()
        .unwrap();
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    serde_json::from_slice(&bench.stdout).expect("one object on stdout")
}

/// The only run of the only variant.
fn only_run(report: &Value) -> &Value {
    run(report, "bongsu")
}

fn run<'a>(report: &'a Value, variant: &str) -> &'a Value {
    let runs =
        report["variants"][variant]["runs"].as_array().unwrap_or_else(|| panic!("no {variant}: {report}"));
    assert_eq!(runs.len(), 1, "{report}");
    &runs[0]
}

fn number(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or_else(|| panic!("no {name} in {figures}"))
}

#[test]
fn sustained_accounts_for_every_device_and_every_call_of_the_bare_loop() {
    let report = bench(&["sustained", "--devices", "2000", "--in-flight", "32", "--repeat", "2"]);
    assert_eq!(report["scenario"], "sustained");
    assert_eq!(
        (&report["conditions"]["devices"], &report["conditions"]["in_flight"]),
        (&2_000.into(), &32.into())
    );
    let runs = report["variants"]["bongsu"]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        for count in ["calls", "accepted", "sent"] {
            assert_eq!(run[count], 2_000, "{count}: {run}");
        }
        for count in ["duplicates", "dead", "lost"] {
            assert_eq!(run[count], 0, "{count}: {run}");
        }
        let rate = 2_000.0 / number(run, "total_s");
        assert!((number(run, "end_to_end_per_s") / rate - 1.0).abs() < 1e-6, "{run}");
        assert!(number(run, "flush_p50_ms") <= number(run, "flush_p99_ms"), "{run}");
        assert!((0.0..=100.0).contains(&number(run, "hot_percent")), "{run}");
        assert!(number(run, "sender_1_peak_mb") > 1.0 && number(run, "accept_ms") > 0.0, "{run}");
    }
    let totals = [0, 1].map(|n| number(&runs[n], "total_s"));
    let median = number(&report["variants"]["bongsu"]["median"], "total_s");
    assert!((median - totals[0].midpoint(totals[1])).abs() < 1e-9, "{median} of {totals:?}");
    let bare = &report["variants"]["bare_loop"]["median"];
    assert_eq!(
        (&bare["calls"], &bare["not_accepted"]),
        (&2_200.into(), &0.into()),
        "with a tenth to warm up"
    );
    assert!(number(bare, "steady_per_s") > 0.0);
}

#[test]
fn small_sends_each_broadcast_to_its_one_user() {
    let report = bench(&[
        "small",
        "--rate",
        "50",
        "--seconds",
        "1",
        "--callers",
        "4",
        "--devices",
        "100",
        "--senders",
        "2",
        "--snapshot",
        "1",
    ]);
    assert_eq!(report["conditions"]["snapshot"], 1);
    let run = only_run(&report);
    let created = number(run, "created");
    assert!((1.0..=50.0).contains(&created), "{run}");
    assert_eq!(
        (&run["calls"], &run["accepted"], &run["duplicates"]),
        (&run["created"], &run["created"], &0.into())
    );
    assert!(number(run, "accept_p50_ms") <= number(run, "accept_p99_ms"), "{run}");
    assert!(number(run, "latency_p50_ms") <= number(run, "latency_p99_ms"), "{run}");
    assert!(number(run, "latency_p99_ms") <= number(run, "latency_max_ms"), "{run}");
    assert!(number(run, "since_answer_p50_ms") < number(run, "latency_p50_ms"), "{run}");
    assert!(number(run, "calls_per_s") >= number(run, "completed_per_s"), "{run}");
    assert!(run["first_tenth_per_s"].is_number() && run["last_tenth_per_s"].is_number(), "{run}");
    assert!(number(run, "sender_2_peak_mb") > 1.0, "each sender is measured");
}

#[test]
fn equal_broadcasts_are_told_apart_by_their_ends() {
    let report = bench(&["equal", "--devices", "500", "--broadcasts", "2", "--in-flight", "16"]);
    let run = only_run(&report);
    assert_eq!((&run["accepted"], &run["sent"], &run["lost"]), (&1_000.into(), &1_000.into(), &0.into()));
    let (first, last) = (number(run, "first_ended_s"), number(run, "last_ended_s"));
    assert!(0.0 < first && first <= last, "{run}");
    assert!((number(run, "apart_percent") - (1.0 - first / last) * 100.0).abs() < 1e-6, "{run}");
}

#[test]
fn retries_are_measured_and_accounted_for() {
    // Few fail, as each further attempt waits longer: 6 s, 18 s.
    let report = bench(&["retries", "--devices", "300", "--in-flight", "16", "--transient", "0.03"]);
    let run = only_run(&report);
    assert_eq!(number(run, "sent") + number(run, "dead"), 300.0, "{run}");
    assert_eq!((&run["lost"], &run["duplicates"]), (&0.into(), &0.into()), "{run}");
    assert!(number(run, "calls") > number(run, "accepted"), "{run}");
    for figure in ["both_s", "fresh_per_s", "retried_per_s", "fresh_stall_ms", "retried_stall_ms"] {
        assert!(run.get(figure).is_some(), "no {figure}: {run}");
    }
}

#[test]
fn watchers_are_told_of_broadcasts_to_their_end() {
    let report = bench(&["watchers", "--devices", "200", "--broadcasts", "3", "--watchers", "20"]);
    for variant in ["without", "with"] {
        assert_eq!(run(&report, variant)["accepted"], 600, "{report}");
    }
    assert_eq!(run(&report, "without")["statuses_per_s"], 0);
    let with = run(&report, "with");
    let statuses = number(with, "statuses_per_s") * number(with, "total_s");
    assert!(statuses > 19.5, "each has at least the last: {with}");
    assert!(report["compared"]["end_to_end_loss_percent"].is_number(), "{report}");
}

#[test]
fn senders_share_the_work_and_may_leave() {
    let slow = ["--latency-ms", "40", "--in-flight", "16"];
    let report = bench(&[&["senders", "--devices", "1000"], &slow[..]].concat());
    for (variant, senders) in [("one", 1), ("two", 2), ("four", 4)] {
        let run = run(&report, variant);
        assert_eq!((&run["accepted"], &run["duplicates"]), (&1_000.into(), &0.into()), "{run}");
        let shares: f64 = (1..=senders).map(|n| number(run, &format!("sender_{n}_share_percent"))).sum();
        assert!((shares - 100.0).abs() < 1e-6, "{run}");
    }
    let change = run(&report, "change");
    let calls: f64 =
        ["left_calls", "stayed_calls", "came_calls"].iter().map(|name| number(change, name)).sum();
    assert!(0.0 < calls && calls <= number(change, "calls"), "{change}");
    assert_eq!(
        (&change["accepted"], &change["duplicates"], &change["lost"]),
        (&1_000.into(), &0.into(), &0.into())
    );
    assert!(number(change, "longest_stall_ms") > 0.0 && number(change, "leaving_s") > 0.0, "{change}");
}

#[test]
fn fan_out_makes_a_delivery_for_each_of_every_audience() {
    let report = bench(&["fan-out", "--devices", "1500", "--listed", "1000"]);
    for (variant, deliveries) in
        [("everyone", 1_500), ("topic", 1_500), ("users", 1_000), ("devices", 1_000), ("two_intakes", 3_000)]
    {
        let run = run(&report, variant);
        assert_eq!(run["deliveries"], deliveries, "{run}");
        assert!(number(run, "fan_out_per_s") > 0.0 && number(run, "wal_bytes") > 0.0, "{run}");
        assert!(number(run, "page_p50_ms") <= number(run, "page_p99_ms"), "{run}");
        assert!(number(run, "intake_idle_peak_mb") <= number(run, "intake_peak_mb"), "{run}");
    }
    let two = run(&report, "two_intakes");
    let shares = number(two, "intake_1_share_percent") + number(two, "intake_2_share_percent");
    assert!((shares - 100.0).abs() < 1e-6, "{two}");
    assert!(number(&report["compared"], "ratio_to_bare_insert") > 0.0, "{report}");
}

#[test]
fn retention_drops_and_makes_days_beside_a_broadcast_that_loses_nothing() {
    let report = bench(&[
        "retention",
        "--devices",
        "3000",
        "--days",
        "2",
        "--rows",
        "300",
        "--in-flight",
        "32",
        "--repeat",
        "2",
    ]);
    for run in report["variants"]["with"]["runs"].as_array().unwrap() {
        assert_eq!((&run["days_dropped"], &run["days_made"]), (&2.into(), &2.into()), "{run}");
        assert_eq!((&run["sent"], &run["lost"], &run["duplicates"]), (&3_000.into(), &0.into(), &0.into()));
        assert!(number(run, "longest_gap_ms") > 0.0 && number(run, "longest_drop_ms") > 0.0, "{run}");
    }
    let without = &report["variants"]["without"]["median"];
    assert!(number(without, "longest_gap_ms") > 0.0 && without["days_dropped"].is_null(), "{without}");
}

#[test]
#[cfg(debug_assertions)]
fn a_build_without_optimisation_is_refused_unless_asked_for() {
    let bench = Command::new(BONGSU).args(["bench", "sustained"]).output().unwrap();
    assert!(!bench.status.success());
    assert!(String::from_utf8_lossy(&bench.stderr).contains("--release"));
}

#[test]
fn control_tells_what_began_after_each_answer_and_its_books_balance() {
    let report = bench(&[
        "control",
        "--devices",
        "4000",
        "--in-flight",
        "16",
        "--latency-ms",
        "20",
        "--paused-s",
        "1.5",
    ]);
    assert_eq!(
        (&report["conditions"]["paused_s"], &report["conditions"]["bound_ms"]),
        (&1.5.into(), &1_000.into())
    );
    let run = only_run(&report);
    assert_eq!(
        (&run["calls"], &run["accepted"], &run["duplicates"]),
        (&run["sent"], &run["sent"], &0.into())
    );
    let (sent, cancelled) = (number(run, "sent"), number(run, "cancelled"));
    assert_eq!((sent + cancelled, number(run, "total")), (4_000.0, 4_000.0));
    assert!(sent >= 1_600.0 && cancelled > 0.0, "cancelled after four tenths: {run}");
    for asked in ["pause", "cancel"] {
        let figure = |name: &str| number(run, &format!("{asked}_{name}"));
        assert!(figure("calls_late") <= figure("calls_after"), "{run}");
        assert_eq!(figure("calls_after") > 0.0, figure("last_call_ms") > 0.0, "{run}");
    }
    assert!(number(run, "resume_ms") > 0.0 && run["resume_first_call_ms"].is_number(), "{run}");
}

#[test]
fn live_notices_reach_every_client_and_a_killed_senders_clients_come_back() {
    let report = bench(&["live", "--connections", "200", "--rate", "50", "--seconds", "2", "--acknowledge"]);
    let run = only_run(&report);
    assert_eq!((&run["connections"], &run["cut_off"]), (&200.into(), &200.into()), "{run}");
    let notices = number(run, "notices");
    assert!((1.0..=100.0).contains(&notices), "{run}");
    assert!(number(run, "connection_bytes") >= 0.0 && number(run, "connect_per_s") > 0.0, "{run}");
    for name in ["notice", "back", "stall"] {
        let at = |share: &str| number(run, &format!("{name}_{share}_ms"));
        assert!(at("p50") <= at("p99") && at("p99") <= at("max"), "{name}: {run}");
    }
    assert!(number(run, "everyone_first_ms") <= number(run, "everyone_last_ms"), "{run}");
}
