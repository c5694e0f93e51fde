//! Live, then push: who has a connection and acknowledges gets no push; whoever has none gets it at once, and who does not
//! acknowledge at the deadline; once.

use std::collections::BTreeMap;
use std::time::Duration;

use bongsu_proto::v1::explain_delivery_request::Recipient;
use bongsu_proto::v1::{
    BroadcastState, CreateBroadcastRequest, Delivery, DeliveryCounts, DeliveryState, DeliveryVerdict,
    DeviceRegistration, ExplainDeliveryRequest, GetBroadcastRequest, Guarantee, ListDeliveriesRequest,
    Routing,
};
use bongsu_store::testing::{Saboteur, make_events};
use bongsu_store::{BroadcastId, ProviderKind, SenderId, Store, UserNo};
use provider_sim::Behaviour;
use tokio::task::JoinHandle;

use crate::world::{World, quick, registration, to_everyone, until};

/// Longer than any test takes: what is done before was not done by it.
const LONG: i64 = 3_600;

/// Broadcasts with their events, and nobody who sends yet.
struct Stage {
    world: World,
    store: Store,
}

/// A broadcast of it.
struct Live {
    id: BroadcastId,
    users: BTreeMap<String, UserNo>,
}

impl Stage {
    /// With a device for each of these users; two of the same user get a second device.
    async fn new(behaviour: Behaviour, users: &[&str]) -> Self {
        let mut world = World::new(behaviour).await;
        let store = world.store();
        store.register_provider("push", ProviderKind::Webhook).await.unwrap().unwrap();
        let of_user = |(n, user): (usize, &&str)| DeviceRegistration {
            user_id: (*user).to_owned(),
            ..registration(&format!("good-{n}"))
        };
        world.import_registrations(users.iter().enumerate().map(of_user).collect()).await;
        Self { world, store }
    }

    async fn accept(&mut self, request: CreateBroadcastRequest) -> Live {
        let id = self.world.create(request).await.id;
        let mut broadcasts = self.world.broadcasts.clone();
        until("it is fanned out", async || {
            let request = GetBroadcastRequest { broadcast_id: id };
            let found = broadcasts.get_broadcast(request).await.unwrap().into_inner();
            found.broadcast.unwrap().state() == BroadcastState::Delivering
        })
        .await;
        let id = BroadcastId(id);
        Live { id, users: make_events(&self.store, id).await }
    }

    async fn acknowledge(&self, live: &Live, users: &[&str]) {
        let acks: Vec<_> = users.iter().map(|user| (live.users[*user], live.id)).collect();
        assert_eq!(self.store.acknowledge(&acks).await.unwrap(), users.len());
    }

    /// What a delivery of each user has come to, in order of device.
    async fn deliveries(&self, live: &Live) -> Vec<Delivery> {
        let request = ListDeliveriesRequest { broadcast_id: live.id.0, ..Default::default() };
        let answer = self.world.deliveries().await.list_deliveries(request).await.unwrap();
        answer.into_inner().deliveries
    }

    /// Waits until so many wait for an acknowledgement.
    async fn waiting(&self, live: &Live, n: usize) {
        until("they wait for an acknowledgement", async || {
            let waits = |d: &&Delivery| d.state() == DeliveryState::Pending && d.last_code == "awaiting_ack";
            self.deliveries(live).await.iter().filter(waits).count() == n
        })
        .await;
    }

    /// Why a user did or did not get it.
    async fn explain(&self, live: &Live, user: &str) -> (DeliveryVerdict, String) {
        let recipient = Some(Recipient::UserId(user.into()));
        let request = ExplainDeliveryRequest { broadcast_id: live.id.0, recipient };
        let answer = self.world.deliveries().await.explain_delivery(request).await.unwrap().into_inner();
        (answer.verdict(), answer.summary)
    }

    async fn finish(&self, live: &Live) -> DeliveryCounts {
        self.world.finish(live.id.0).await.counts.unwrap()
    }

    async fn calls(&self) -> u64 {
        self.world.sim.stats().await.calls
    }
}

fn live_then_push(key: &str, ack_timeout_s: i64) -> CreateBroadcastRequest {
    CreateBroadcastRequest {
        routing: Routing::LiveThenPush.into(),
        ack_timeout: Some(prost_types::Duration { seconds: ack_timeout_s, nanos: 0 }),
        ..to_everyone(key)
    }
}

/// Connections of users at a sender that lives until this is dropped.
struct Connected(JoinHandle<()>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn connect(store: &Store, users: impl Iterator<Item = UserNo>) -> Connected {
    let sender = SenderId::random();
    let mut lane = store.control_lane(sender);
    lane.heartbeat(0, &[]).await.unwrap();
    store.announce_presence(sender, &users.collect::<Vec<_>>()).await.unwrap();
    Connected(tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            lane.heartbeat(0, &[]).await.unwrap();
        }
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_acknowledged_gets_no_push_on_any_device_and_who_has_no_connection_gets_it_at_once() {
    let mut stage = Stage::new(Behaviour::default(), &["seen", "away", "seen", "away"]).await;
    let live = stage.accept(live_then_push("k", LONG)).await;
    stage.acknowledge(&live, &["seen"]).await;
    stage.world.add_sender(quick).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.sent, counts.skipped, counts.retried), (2, 2, 0), "{counts:?}");
    for delivery in stage.deliveries(&live).await {
        let expected = match delivery.user_id.as_str() {
            "seen" => (DeliveryState::Skipped, "seen_live", 0),
            _ => (DeliveryState::Sent, "", 1),
        };
        assert_eq!((delivery.state(), delivery.last_code.as_str(), delivery.attempts), expected);
    }
    assert_eq!(stage.calls().await, 2);
    // What comes after the push is noted, and changes nothing else.
    stage.acknowledge(&live, &["away"]).await;
    let status = stage.world.finish(live.id.0).await;
    assert_eq!((status.counts.unwrap().sent, status.live.unwrap().acknowledged), (2, 2));
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connected_user_who_is_silent_gets_one_push_at_the_deadline_on_each_device() {
    let mut stage = Stage::new(Behaviour::default(), &["silent", "silent", "seen"]).await;
    let live = stage.accept(live_then_push("k", 4)).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.world.add_sender(quick).await;
    stage.waiting(&live, 3).await;
    assert_eq!(stage.calls().await, 0);
    stage.acknowledge(&live, &["seen"]).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.sent, counts.skipped, counts.dead), (2, 1, 0), "{counts:?}");
    let stats = stage.world.sim.stats().await;
    assert_eq!((stats.calls, stats.accepted), (2, 2));
    let made = stage.store.inbox_after(&[(live.users["silent"], 0)], 1).await.unwrap()[0].created_at;
    let deliveries = stage.deliveries(&live).await;
    for pushed in deliveries.iter().filter(|delivery| delivery.user_id == "silent") {
        let settled = pushed.settle_time.as_ref().unwrap();
        let after = settled.seconds - made.unix_timestamp();
        // The seconds are cut, and the machine may be busy.
        assert!((4..15).contains(&after), "{after} s");
        assert_eq!(pushed.attempts, 2);
    }
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_to_one_user_ends_when_they_acknowledge_it_and_not_at_its_deadline() {
    let mut stage = Stage::new(Behaviour::default(), &["u"]).await;
    let live = stage.accept(live_then_push("k", LONG)).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.world.add_sender(quick).await;
    stage.waiting(&live, 1).await;
    let (verdict, text) = stage.explain(&live, "u").await;
    assert!(
        verdict == DeliveryVerdict::AwaitingAck && text.contains("waits for an acknowledgement until"),
        "{text}"
    );
    stage.acknowledge(&live, &["u"]).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.skipped, counts.pending), (1, 0), "{counts:?}");
    let (verdict, text) = stage.explain(&live, "u").await;
    assert!(verdict == DeliveryVerdict::SeenLive && text.contains("acknowledged it live at"), "{text}");
    assert_eq!(stage.store.broken_invariants().await.unwrap(), []);
    assert_eq!(stage.calls().await, 0);
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_outlives_its_sender_and_is_decided_by_the_next_one() {
    let mut stage = Stage::new(Behaviour::default(), &["seen", "silent", "lazy"]).await;
    let live = stage.accept(live_then_push("k", 5)).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.world.add_sender(quick).await;
    stage.waiting(&live, 3).await;
    stage.world.take_sender().stop().await;
    stage.acknowledge(&live, &["seen"]).await;
    stage.world.add_sender(quick).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.sent, counts.skipped), (2, 1), "{counts:?}");
    let stats = stage.world.sim.stats().await;
    assert_eq!((stats.calls, stats.accepted), (2, 2));
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_what_waited_is_called_once_and_what_was_seen_never() {
    let mut stage = Stage::new(Behaviour::default(), &["seen", "silent"]).await;
    let request =
        CreateBroadcastRequest { guarantee: Guarantee::AtMostOnce.into(), ..live_then_push("k", 3) };
    let live = stage.accept(request).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.world.add_sender(quick).await;
    stage.waiting(&live, 2).await;
    stage.acknowledge(&live, &["seen"]).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.sent, counts.skipped, counts.unconfirmed), (1, 1, 0), "{counts:?}");
    assert_eq!(stage.calls().await, 1);
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_fails_after_the_wait_has_all_its_attempts() {
    let mut stage = Stage::new(Behaviour { transient: 1.0, ..Default::default() }, &["silent"]).await;
    let live = stage.accept(live_then_push("k", 2)).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.world.add_sender(quick).await;
    stage.waiting(&live, 1).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.dead_attempts_exhausted, stage.calls().await), (1, 4), "{counts:?}");
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_and_push_calls_whoever_is_connected_and_whatever_they_acknowledged() {
    let mut stage = Stage::new(Behaviour::default(), &["seen", "connected"]).await;
    let request = CreateBroadcastRequest { routing: Routing::LiveAndPush.into(), ..to_everyone("k") };
    let live = stage.accept(request).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.acknowledge(&live, &["seen"]).await;
    stage.world.add_sender(quick).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.sent, counts.retried, stage.calls().await), (2, 0, 2), "{counts:?}");
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_cannot_be_told_who_is_connected_the_push_goes_out_at_once() {
    let mut stage = Stage::new(Behaviour::default(), &["seen", "connected"]).await;
    let live = stage.accept(live_then_push("k", LONG)).await;
    let _connected = connect(&stage.store, live.users.values().copied()).await;
    stage.acknowledge(&live, &["seen"]).await;
    Saboteur::connect(&stage.world.database_url).await.run("DROP TABLE live_presence").await;
    stage.world.add_sender(quick).await;
    let counts = stage.finish(&live).await;
    assert_eq!((counts.sent, counts.skipped), (1, 1), "{counts:?}");
    stage.world.stop().await;
}
