//! Days of deliveries leave when they are old; what is said about their broadcasts stays true.

use std::process::{Command, Output};

use bongsu_proto::v1::{GetStatusRequest, ListDeliveriesRequest};
use bongsu_store::{Broadcast, BroadcastFilter, PartitionState, Store};
use provider_sim::Behaviour;
use serde_json::Value;
use tonic::Code;

use crate::processes::BONGSU;
use crate::world::{World, until};

fn bongsu(world: &World, args: &[&str]) -> Output {
    Command::new(BONGSU).args(args).env("BONGSU_DATABASE_URL", &world.database_url).output().unwrap()
}

fn json_lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Newest first.
async fn all_broadcasts(store: &Store) -> Vec<Broadcast> {
    let filter = BroadcastFilter { limit: 100, ..Default::default() };
    store.list_broadcasts(&filter).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_which_days_are_due_and_drops_them_and_their_broadcasts_are_still_known() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(10).await;
    let store = Store::new(&world.database_url, 2, "test").unwrap();
    store.add_history(40, 4).await.unwrap();
    let shown = json_lines(&bongsu(&world, &["retention", "--days", "2", "--json"]));
    let due: Vec<&Value> = shown.iter().filter(|p| p["state"] == "due").collect();
    assert_eq!(due.len(), 2, "{shown:?}");
    assert!(due.iter().all(|p| p["rows"] == 10 && p["bytes"].as_i64().unwrap() > 0), "{due:?}");
    let table = String::from_utf8(bongsu(&world, &["retention", "--days", "2"]).stdout).unwrap();
    assert!(table.contains(due[0]["partition"].as_str().unwrap()) && table.contains("total"), "{table}");

    // The intake has the turn now and then.
    let mut applied = vec![];
    until("retention has its turn", async || {
        let output = bongsu(&world, &["retention", "--days", "2", "--apply", "--json"]);
        let ended = output.status.success();
        if ended {
            applied = json_lines(&output);
        }
        ended
    })
    .await;
    let dropped: Vec<&Value> = applied.iter().map(|line| &line["dropped"]).filter(|d| !d.is_null()).collect();
    assert_eq!(dropped, [&due[0]["partition"], &due[1]["partition"]], "{applied:?}");
    let left = json_lines(&bongsu(&world, &["retention", "--days", "2", "--json"]));
    assert!(left.iter().all(|p| p["state"] == "kept") && left.len() == shown.len() - 2, "{left:?}");

    let oldest = all_broadcasts(&store).await.pop().unwrap().id.0;
    let mut deliveries = world.deliveries().await;
    let status = deliveries.get_status(GetStatusRequest { broadcast_id: oldest }).await.unwrap().into_inner();
    assert_eq!(status.status.unwrap().counts.unwrap().sent, 10);
    let list = ListDeliveriesRequest { broadcast_id: oldest, ..Default::default() };
    let refused = deliveries.list_deliveries(list).await.expect_err("they are gone");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert!(refused.message().contains("end of their retention"), "{refused:?}");

    let id = world.broadcast("after").await.id;
    world.finish(id).await;
    let doctor = bongsu(&world, &["doctor", "--retention-days", "2"]);
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_intake_drops_days_by_itself_after_the_default_of_two_weeks() {
    let url = bongsu_store::testing::fresh_database().await;
    let store = Store::new(&url, 2, "test").unwrap();
    store.register_provider("push", bongsu_store::ProviderKind::Webhook).await.unwrap();
    store.add_history(20, 20).await.unwrap();
    assert!(store.partitions(14).await.unwrap().iter().any(|p| p.state == PartitionState::Due));
    let world = World::at(url, Behaviour::default()).await;
    until("the intake has dropped them", async || {
        store.partitions(14).await.unwrap().iter().all(|p| p.state == PartitionState::Kept)
    })
    .await;
    assert_eq!(all_broadcasts(&store).await.len(), 20, "broadcasts are kept for longer");
    world.stop().await;
}
