//! `bongsu doctor` tells an operator whether everything adds up, and what to do where it does not.

use std::process::{Command, Output};

use bongsu_store::testing::Saboteur;
use provider_sim::Behaviour;

use crate::processes::BONGSU;
use crate::world::World;

fn doctor(world: &World, args: &[&str]) -> Output {
    Command::new(BONGSU)
        .arg("doctor")
        .args(args)
        .env("BONGSU_DATABASE_URL", &world.database_url)
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_database_is_called_so_and_what_was_changed_by_hand_is_found() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(700).await;
    let id = world.broadcast("k").await.id;
    world.finish(id).await;
    let healthy = doctor(&world, &[]);
    let text = String::from_utf8(healthy.stdout).unwrap();
    assert!(healthy.status.success() && text.contains("everything adds up"), "{text}");

    let mut saboteur = Saboteur::connect(&world.database_url).await;
    saboteur.run("UPDATE broadcast_tally SET total = total - 1, sent = sent - 1").await;
    saboteur.run("UPDATE provider SET parked_since = now(), parked_code = '503', parked_detail = '', probe_at = now()").await;
    let broken = doctor(&world, &["--json"]);
    assert_eq!(broken.status.code(), Some(1));
    let findings: Vec<serde_json::Value> = String::from_utf8(broken.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let found =
        |check: &str| findings.iter().find(|f| f["check"] == check).unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(found("sums")["severity"], "broken");
    assert_eq!(found("sums")["subject"], format!("broadcast {id}"));
    assert_eq!(found("parked")["severity"], "attention");
    assert!(findings.iter().all(|f| f["remedy"].as_str().is_some_and(|r| !r.is_empty())), "{findings:?}");
    let quick = doctor(&world, &["--quick"]);
    assert!(!String::from_utf8(quick.stdout).unwrap().contains("BROKEN"), "it counts no deliveries");
    world.stop().await;
}
