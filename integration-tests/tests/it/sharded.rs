//! Four shards on a plain Postgres: set by the operator, gone through by the services, and nothing is lost in any of them.

use std::process::{Command, Output};

use bongsu_proto::v1::{UserAudience, audience};
use bongsu_store::Store;
use bongsu_store::testing::{empty_database, fresh_database};

use crate::processes::{BONGSU, Processes, sender};
use crate::world::{to, to_everyone};

fn migrate(database_url: &str, args: &[&str]) -> Output {
    Command::new(BONGSU).arg("migrate").args(args).env("BONGSU_DATABASE_URL", database_url).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_over_four_shards_survives_its_sender_and_its_books_balance() {
    let mut world = Processes::start(&["--latency-ms", "40", "--jitter-ms", "20"]).await;
    // The intake has been running since before, with one shard.
    let set = migrate(world.stack.database_url(), &["--shards", "4"]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    let long_lease = ["--lease-ms", "3600000", "--in-flight", "100", "--unrecorded", "200"];
    let mut victim = world.stack.spawn_sender(sender(&long_lease)).await.unwrap();
    world.import_good(4_000).await;
    let id = world.create(to_everyone("k")).await;
    world.accepted(1_000).await;
    victim.kill9().await.unwrap();
    assert!(world.broadcast(id).await.counts.unwrap().sent < 4_000, "killed in the middle");
    let survivor = world.stack.spawn_sender(sender(&long_lease)).await.unwrap();
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.total, counts.sent, counts.dead), (4_000, 4_000, 0));
    let users = (0..40).map(|n| format!("good-{n}")).collect();
    let to_users = to("users", audience::Kind::Users(UserAudience { user_ids: users }));
    let id = world.create(to_users).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, 40);
    let stats = world.stats().await;
    assert_eq!(stats.accepted, 4_040);
    assert!(stats.duplicates <= 200, "at most --unrecorded: {}", stats.duplicates);
    let store = Store::new(world.stack.database_url(), 2, "test").unwrap();
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    world.stack.stop(vec![survivor]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_shards_is_set_before_the_first_device_and_refused_after_it() {
    let url = empty_database().await;
    let set = migrate(&url, &["--shards", "4", "--json"]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&set.stdout).unwrap();
    assert_eq!(answer["shards"], 4);
    assert!(answer["applied"].as_u64().unwrap() > 0, "{answer}");
    assert!(text(&migrate(&url, &["--shards", "8"]).stdout).contains("over 8 shards"));
    for out_of_range in ["0", "257", "four"] {
        assert_eq!(migrate(&url, &["--shards", out_of_range]).status.code(), Some(2));
    }

    let url = fresh_database().await;
    let store = Store::new(&url, 2, "test").unwrap();
    let provider =
        store.register_provider("push", bongsu_store::ProviderKind::Webhook).await.unwrap().unwrap();
    let device = bongsu_store::Registration {
        provider_id: provider,
        token: "t".into(),
        user_id: "u".into(),
        installation_id: None,
        consent: None,
        topics: vec![],
    };
    store.register(&device).await.unwrap();
    let refused = migrate(&url, &["--shards", "4"]);
    assert_eq!(refused.status.code(), Some(4));
    let said = text(&refused.stderr);
    assert!(said.contains("over 1 shard:") && said.contains("an empty database"), "{said}");
    let same = migrate(&url, &["--shards", "1"]);
    assert!(
        same.status.success() && text(&same.stdout).contains("nothing to change"),
        "{}",
        text(&same.stdout)
    );
    assert!(migrate(&url, &[]).status.success());
}
