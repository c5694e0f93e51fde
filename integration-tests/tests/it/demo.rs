//! The demo is the product's first impression, and judges itself.

use std::process::Command;

use crate::processes::BONGSU;

#[test]
fn the_demo_kills_a_sender_keeps_its_promises_and_leaves_nothing_behind() {
    let demo = Command::new(BONGSU)
        .args([
            "demo",
            "--json",
            "--devices",
            "600",
            "--expired",
            "6",
            "--failing",
            "0",
            "--kill-after",
            "200",
        ])
        .args(["--restart-after-s", "0", "--in-flight", "8", "--provider-dedupe"])
        .env_remove("BONGSU_DATABASE_URL")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{stderr}");
    let facts: serde_json::Value = serde_json::from_slice(&demo.stdout).expect("one object on stdout");
    assert_eq!(facts["deliveries"]["sent"], 594, "{facts}");
    assert_eq!(facts["dead_by_reason"]["unregistered"], 6);
    assert_eq!((&facts["lost"], &facts["provider"]["duplicates"]), (&0.into(), &0.into()));
    assert!(facts["in_flight_at_kill"].is_u64() && facts["stall_ms"].is_u64(), "{facts}");
}

#[test]
fn the_demo_refuses_numbers_that_do_not_fit_and_says_which() {
    let demo = Command::new(BONGSU).args(["demo", "--devices", "10", "--expired", "11"]).output().unwrap();
    assert!(!demo.status.success());
    assert!(String::from_utf8_lossy(&demo.stderr).contains("--expired 11"));
}

#[test]
fn the_live_demo_kills_a_sender_with_connections_and_every_user_gets_it_by_stream_or_by_push() {
    let demo = Command::new(BONGSU)
        .args(["demo", "--live", "--json", "--devices", "600", "--connected", "120", "--silent", "12"])
        .args(["--ack-timeout-ms", "2000"])
        .env_remove("BONGSU_DATABASE_URL")
        .output()
        .unwrap();
    assert!(demo.status.success(), "{}", String::from_utf8_lossy(&demo.stderr));
    let facts: serde_json::Value = serde_json::from_slice(&demo.stdout).expect("one object on stdout");
    let count = |name: &str| facts[name].as_u64().unwrap_or_else(|| panic!("no {name}: {facts}"));
    assert_eq!((count("events"), count("lost"), count("not_back")), (600, 0, 0));
    assert!(count("by_push") >= 480, "all who are not connected: {facts}");
    let both = facts["by_both"].as_object().unwrap();
    assert_eq!(both["acknowledged_before"], 0, "{facts}");
    let both: u64 = both.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(count("by_stream") + count("by_push") + both, 600, "{facts}");
    assert_eq!(facts["by_both"]["not_acknowledged"], 12, "a client that says nothing gets the push: {facts}");
    assert!(count("cut_off") > 0 && count("received_at_kill") >= 40, "{facts}");
}
