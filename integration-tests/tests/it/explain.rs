//! "Why did she not get it" has an answer: one broadcast with every kind of outcome, each explained truly.

use std::process::Command;

use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::explain_delivery_request::Recipient;
use bongsu_proto::v1::update_consent_request::Subject;
use bongsu_proto::v1::{
    CreateBroadcastRequest, DeadReason, DeliveryState, DeliveryVerdict, DeviceEventKind, DeviceExplanation,
    DeviceRegistration, ExplainDeliveryRequest, ExplainDeliveryResponse, Guarantee, ListDeliveriesRequest,
    ListSendersRequest, PauseBroadcastRequest, RegisterDeviceRequest, ReplayDeadLettersRequest, SenderState,
    UnregisterDeviceRequest, UpdateConsentRequest, audience, create_broadcast_request,
    unregister_device_request,
};
use bongsu_store::testing::Saboteur;
use provider_sim::Behaviour;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::processes::BONGSU;
use crate::world::{World, to, to_everyone, until};

type Deliveries = DeliveryServiceClient<Channel>;

async fn ask(
    deliveries: &mut Deliveries,
    id: i64,
    recipient: Recipient,
) -> Result<ExplainDeliveryResponse, Status> {
    let request = ExplainDeliveryRequest { broadcast_id: id, recipient: Some(recipient) };
    Ok(deliveries.explain_delivery(request).await?.into_inner())
}

/// What is told of a user's only device.
async fn explain(deliveries: &mut Deliveries, id: i64, user: &str) -> DeviceExplanation {
    let mut answer = ask(deliveries, id, Recipient::UserId(user.into())).await.unwrap();
    assert_eq!(answer.devices.len(), 1, "{user}: {answer:?}");
    assert_eq!((answer.verdict, &answer.summary), (answer.devices[0].verdict, &answer.devices[0].summary));
    let told = format!("{answer:?}");
    assert!(!told.contains("-secret"), "never the token: {told}");
    answer.devices.remove(0)
}

#[track_caller]
fn assert_told(explained: &DeviceExplanation, verdict: DeliveryVerdict, words: &[&str]) {
    assert_eq!(explained.verdict(), verdict, "{explained:?}");
    for word in words {
        assert!(explained.summary.contains(word), "{word}: {}", explained.summary);
    }
}

/// A world with a user for each kind of outcome, and the broadcast in which they had it.
async fn every_outcome() -> (World, i64) {
    let mut world = World::with_quick_decisions(Behaviour { throttle_times: 1, ..Default::default() }).await;
    world.sim.behave(json!({"retry_after_s": 0})).await;
    let mut users =
        ["good", "expired", "rejected", "failing", "throttled", "changed", "left"].map(registration).to_vec();
    users.push(DeviceRegistration { consent: Some(false), ..registration("unwilling") });
    world.import_registrations(users).await;
    let device = Some(unregister_device_request::Device::DeviceId(device_of(&world, "left").await));
    world.devices.unregister_device(UnregisterDeviceRequest { device }).await.unwrap();
    set_consent(&mut world, "changed", false).await;
    let id = world.broadcast("k").await.id;
    world.finish(id).await;
    world.import_registrations(vec![registration("late")]).await;
    set_consent(&mut world, "changed", true).await;
    (world, id)
}

/// A user's device, whose token the simulator goes by.
fn registration(user: &str) -> DeviceRegistration {
    DeviceRegistration { user_id: user.into(), ..crate::world::registration(&format!("{user}-secret")) }
}

async fn set_consent(world: &mut World, user: &str, consent: bool) {
    let subject = Some(Subject::UserId(user.into()));
    world.devices.update_consent(UpdateConsentRequest { subject, consent }).await.unwrap();
}

async fn device_of(world: &World, user: &str) -> i64 {
    let request = RegisterDeviceRequest { registration: Some(registration(user)) };
    world.devices.clone().register_device(request).await.unwrap().into_inner().device.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_outcome_is_explained_with_the_providers_words_and_what_happened_to_the_device() {
    let (world, id) = every_outcome().await;
    let mut deliveries = world.deliveries().await;
    let deliveries = &mut deliveries;
    assert_told(
        &explain(deliveries, id, "good").await,
        DeliveryVerdict::Sent,
        &["push accepted it", "first call"],
    );

    let failing = explain(deliveries, id, "failing").await;
    assert_told(&failing, DeliveryVerdict::AttemptsExhausted, &["push said 503", "call 4"]);
    let calls: Vec<_> =
        failing.failed_attempts.iter().map(|f| (f.attempt, f.code.as_str(), f.charged)).collect();
    assert_eq!(calls, [(1, "503", true), (2, "503", true), (3, "503", true)]);
    let letter = failing.dead_letter.as_ref().unwrap();
    assert_eq!((letter.attempts, letter.reason()), (4, DeadReason::AttemptsExhausted));

    let throttled = explain(deliveries, id, "throttled").await;
    assert_told(&throttled, DeliveryVerdict::Sent, &["second call"]);
    let slow = &throttled.failed_attempts[0];
    assert_eq!((slow.code.as_str(), slow.charged), ("429", false));

    assert_told(&explain(deliveries, id, "rejected").await, DeliveryVerdict::Rejected, &["push said 400"]);
    until("the provider's word is believed", async || {
        explain(&mut deliveries.clone(), id, "expired").await.device.unwrap().retire_time.is_some()
    })
    .await;
    let gone = explain(deliveries, id, "expired").await;
    let words = ["push said 410", "first call", "the device was retired", "until it registers"];
    assert_told(&gone, DeliveryVerdict::Unregistered, &words);
    assert_eq!(gone.device.unwrap().retired_by, id);

    let unwilling = explain(deliveries, id, "unwilling").await;
    assert_told(&unwilling, DeliveryVerdict::NoConsent, &["no consent"]);
    let changed = explain(deliveries, id, "changed").await;
    assert_told(&changed, DeliveryVerdict::NoConsent, &["had been withdrawn at"]);
    let device = changed.device.unwrap();
    assert!(device.consent, "it has been given since");
    let kinds: Vec<_> = device.events.iter().map(|e| e.kind()).collect();
    assert_eq!(kinds, [DeviceEventKind::ConsentWithdrawn, DeviceEventKind::ConsentGiven]);
    assert_told(
        &explain(deliveries, id, "late").await,
        DeliveryVerdict::RegisteredLater,
        &["after the fan-out"],
    );
    let left = ask(deliveries, id, Recipient::UserId("left".into())).await.unwrap();
    assert_told(&left.devices[0], DeliveryVerdict::RetiredBefore, &["it was unregistered"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_a_pause_a_list_and_a_dropped_day_are_told() {
    let (mut world, id) = every_outcome().await;
    let mut client = world.deliveries().await;
    let deliveries = &mut client;
    world.sim.behave(json!({"status": 200})).await;
    let replay = ReplayDeadLettersRequest {
        replay_id: "again".into(),
        broadcast_id: id,
        reasons: vec![DeadReason::Rejected.into()],
        ..Default::default()
    };
    let replay = deliveries.replay_dead_letters(replay).await.unwrap().into_inner().broadcast_id;
    world.finish(replay).await;
    let sent = explain(deliveries, id, "rejected").await;
    assert_told(&sent, DeliveryVerdict::SentByReplay, &["push said 400", "was accepted"]);
    assert_eq!(sent.replays[0].broadcast_id, replay);
    assert_eq!(sent.replays[0].delivery.as_ref().unwrap().state(), DeliveryState::Sent);
    let not_meant = explain(deliveries, replay, "good").await;
    assert_told(&not_meant, DeliveryVerdict::NotInAudience, &["is a replay of"]);

    // Nobody is called while the provider fails, so that there is something to pause.
    world.sim.behave(json!({"status": 503, "retry_after_s": 3600})).await;
    let users = bongsu_proto::v1::UserAudience { user_ids: vec!["good".into()] };
    let paused = world.create(to("paused", audience::Kind::Users(users))).await.id;
    until("it was called", async || {
        let delivery = explain(&mut deliveries.clone(), paused, "good").await.delivery;
        delivery.is_some_and(|d| d.attempts > 0)
    })
    .await;
    let pause = PauseBroadcastRequest { broadcast_id: paused };
    world.broadcasts.pause_broadcast(pause).await.unwrap();
    assert_told(&explain(deliveries, paused, "good").await, DeliveryVerdict::Paused, &["paused"]);
    let other = explain(deliveries, paused, "late").await;
    assert_told(&other, DeliveryVerdict::NotInAudience, &["list of users"]);

    let mut saboteur = Saboteur::connect(&world.database_url).await;
    let drop_today =
        "DO $$ BEGIN EXECUTE 'DROP TABLE delivery_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'); END $$";
    saboteur.run(drop_today).await;
    let dropped = ask(deliveries, id, Recipient::UserId("good".into())).await.unwrap();
    assert!(dropped.deliveries_dropped);
    assert_told(&dropped.devices[0], DeliveryVerdict::DeliveriesDropped, &["retention"]);
    let died = explain(deliveries, id, "failing").await;
    assert_told(&died, DeliveryVerdict::AttemptsExhausted, &["push said 503"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_way_one_that_nobody_answered_and_one_that_came_too_late_are_told() {
    let mut world = World::new(Behaviour { hang: true, ..Default::default() }).await;
    // Until the test ends the call.
    world.add_sender(|config| (config.lease_ms, config.call_timeout_ms) = (120_000, 60_000)).await;
    world.import_registrations(vec![registration("good")]).await;
    let once = CreateBroadcastRequest { guarantee: Guarantee::AtMostOnce.into(), ..to_everyone("once") };
    let once = world.create(once).await.id;
    let deliveries = world.deliveries().await;
    let told = async |id, verdict: DeliveryVerdict| {
        until("it is told", async || explain(&mut deliveries.clone(), id, "good").await.verdict() == verdict)
            .await;
        explain(&mut deliveries.clone(), id, "good").await
    };
    let calling = told(once, DeliveryVerdict::Sending).await;
    assert_told(&calling, DeliveryVerdict::Sending, &["push is being called", "never called again"]);
    // The simulator is gone, and the connection with it.
    world.sim.end();
    world.finish(once).await;
    let unknown = told(once, DeliveryVerdict::Unconfirmed).await;
    assert_told(&unknown, DeliveryVerdict::Unconfirmed, &["push may have accepted it", "first call"]);
    assert_eq!(unknown.dead_letter.unwrap().reason(), DeadReason::Unconfirmed);

    // The first retry would be due after two seconds.
    let ttl = create_broadcast_request::Expiry::Ttl(prost_types::Duration { seconds: 1, nanos: 0 });
    let late = CreateBroadcastRequest { expiry: Some(ttl), ..to_everyone("late") };
    let late = world.create(late).await.id;
    world.finish(late).await;
    let expired = told(late, DeliveryVerdict::Expired).await;
    assert_told(&expired, DeliveryVerdict::Expired, &["the broadcast expired at", "before push accepted it"]);
    assert_eq!(expired.delivery.unwrap().state(), DeliveryState::Expired);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_nobody_says_who_is_not_known_and_a_bad_one_what_is_wrong() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_registrations(vec![registration("good")]).await;
    let id = world.broadcast("k").await.id;
    let mut deliveries = world.deliveries().await;
    let reason = |status: Status| status.get_error_details().error_info().unwrap().reason.clone();
    for (broadcast, recipient, expected) in [
        (7, Recipient::UserId("good".into()), "BROADCAST_NOT_FOUND"),
        (id, Recipient::UserId("nobody".into()), "USER_NOT_FOUND"),
        (id, Recipient::DeviceId(i64::MAX), "DEVICE_NOT_FOUND"),
    ] {
        let refused = ask(&mut deliveries, broadcast, recipient).await.unwrap_err();
        assert_eq!((refused.code(), reason(refused).as_str()), (Code::NotFound, expected));
    }
    let bad = ExplainDeliveryRequest { broadcast_id: -1, recipient: None };
    let refused = deliveries.explain_delivery(bad).await.unwrap_err();
    let details = refused.get_error_details();
    let fields: Vec<_> =
        details.bad_request().unwrap().field_violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(fields, ["broadcast_id", "recipient"]);
    let both = ListDeliveriesRequest {
        broadcast_id: id,
        user_id: "u".into(),
        device_ids: vec![1],
        dead_reasons: vec![DeadReason::Unconfirmed.into()],
        ..Default::default()
    };
    let refused = deliveries.list_deliveries(both).await.unwrap_err();
    let details = refused.get_error_details();
    let fields: Vec<_> =
        details.bad_request().unwrap().field_violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(fields, ["dead_reasons", "device_ids"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_are_found_by_user_reason_and_code_and_senders_say_that_they_live() {
    let (world, id) = every_outcome().await;
    let mut deliveries = world.deliveries().await;
    let base = || ListDeliveriesRequest { broadcast_id: id, ..Default::default() };
    let mut users = async |request| {
        let page = deliveries.list_deliveries(request).await.unwrap().into_inner();
        assert_eq!(page.next_page_token, "");
        page.deliveries.into_iter().map(|d| d.user_id).collect::<Vec<_>>()
    };
    assert_eq!(users(base()).await.len(), 5);
    assert_eq!(users(ListDeliveriesRequest { user_id: "good".into(), ..base() }).await, ["good"]);
    let device_ids = vec![device_of(&world, "good").await];
    assert_eq!(users(ListDeliveriesRequest { device_ids, ..base() }).await, ["good"]);
    let dead_reasons = vec![DeadReason::Rejected.into()];
    assert_eq!(users(ListDeliveriesRequest { dead_reasons, ..base() }).await, ["rejected"]);
    assert_eq!(users(ListDeliveriesRequest { last_code: "429".into(), ..base() }).await, ["throttled"]);
    let long_ago = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
    assert_eq!(users(ListDeliveriesRequest { settled_to_time: long_ago, ..base() }).await.len(), 0);
    assert_eq!(users(ListDeliveriesRequest { settled_from_time: long_ago, ..base() }).await.len(), 5);

    let senders =
        world.deliveries().await.list_senders(ListSendersRequest {}).await.unwrap().into_inner().senders;
    assert_eq!((senders.len(), senders[0].state()), (1, SenderState::Alive), "{senders:?}");
    assert!(!senders[0].version.is_empty() && senders[0].leased_batches == 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_explains_on_one_screen_exports_whole_files_and_lists_senders() {
    let (world, id) = every_outcome().await;
    let (id, sender) = (id.to_string(), format!("http://{}", world.services().nth(1).unwrap().address));
    let bongsu = async |args: &[&str]| {
        let mut command = Command::new(BONGSU);
        command.args(args).args(["--sender", &sender]);
        let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let text = bongsu(&["explain", &id, "--user", "failing"]).await;
    for line in ["push said 503", "FAILED CALL", "attempts_exhausted 503", "consent"] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    assert!(text.lines().count() < 40, "one screen:\n{text}");
    let object: Value =
        serde_json::from_str(&bongsu(&["explain", &id, "--user", "failing", "--json"]).await).unwrap();
    assert_eq!(object["verdict"], "attempts_exhausted");
    assert_eq!(object["devices"][0]["failed_attempts"][2]["attempt"], 3);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.csv");
    let exported = bongsu(&["deliveries", &id, "--format", "csv", "--output", path.to_str().unwrap()]).await;
    assert_eq!(exported, "", "data is in the file");
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + 5);
    let lines = bongsu(&["deliveries", &id, "--format", "jsonl", "--reason", "rejected"]).await;
    let row: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!((&row["user_id"], &row["last_code"]), (&json!("rejected"), &json!("400")));
    let senders = bongsu(&["senders"]).await;
    assert!(senders.contains("alive") && senders.lines().count() == 2, "{senders}");
    world.stop().await;
}
