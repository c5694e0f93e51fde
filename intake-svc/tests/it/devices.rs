//! `DeviceService`.

use bongsu_proto::v1::unregister_device_request::Device as Named;
use bongsu_proto::v1::update_consent_request::Subject;
use bongsu_proto::v1::{
    DeviceRegistration, GetDeviceRequest, ImportDevicesRequest, ImportDevicesResponse, ListDevicesRequest,
    ProviderToken, RegisterDeviceRequest, RetireReason, SubscribeTopicRequest, UnregisterDeviceRequest,
    UnsubscribeTopicRequest, UpdateConsentRequest,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::harness::{Intake, PROVIDER, fields, refusal, registration, start};

async fn import(
    intake: &Intake,
    messages: Vec<Vec<DeviceRegistration>>,
) -> Result<ImportDevicesResponse, Status> {
    let messages =
        messages.into_iter().map(|registrations| ImportDevicesRequest { registrations }).collect::<Vec<_>>();
    let stream = tokio_stream::iter(messages);
    intake.devices.clone().import_devices(stream).await.map(tonic::Response::into_inner)
}

async fn get(intake: &Intake, device_id: i64) -> bongsu_proto::v1::Device {
    let response = intake.devices.clone().get_device(GetDeviceRequest { device_id }).await;
    response.expect("is there").into_inner().device.expect("a device")
}

#[tokio::test]
async fn the_newest_registration_of_a_token_wins() {
    let mut intake = start().await;
    let old = intake.device("토큰", "옛사람").await;
    let new = intake.register(registration("토큰", "새사람 👩‍🚀")).await;
    assert!(new.created);
    let new = new.device.expect("a device");
    assert_eq!(new.user_id, "새사람 👩‍🚀");
    let old = get(&intake, old.id).await;
    assert_eq!(old.retire_reason(), RetireReason::Replaced);
    assert!(old.retire_time.is_some() && new.retire_time.is_none());
    let again = intake.register(registration("토큰", "새사람 👩‍🚀")).await;
    assert_eq!((again.created, again.device.expect("a device").id), (false, new.id));
}

#[tokio::test]
async fn a_rotated_token_keeps_consent_and_topics_of_its_installation() {
    let mut intake = start().await;
    let installed =
        |token: &str| DeviceRegistration { installation_id: "app-1".into(), ..registration(token, "u") };
    let first = DeviceRegistration {
        consent: Some(false),
        topics: vec!["news".into(), "art".into()],
        ..installed("t1")
    };
    intake.register(first).await;
    let second = intake.register(installed("t2")).await.device.expect("a device");
    assert!(!second.consent);
    assert_eq!(second.topics, ["art", "news"]);
}

#[tokio::test]
async fn an_unknown_provider_is_refused_with_those_that_are_known() {
    let intake = start().await;
    let sent = DeviceRegistration { provider: "hok".into(), ..registration("t", "u") };
    let request = RegisterDeviceRequest { registration: Some(sent) };
    let status = intake.devices.clone().register_device(request).await.expect_err("is refused");
    assert_eq!(refusal(&status), (Code::InvalidArgument, "UNKNOWN_PROVIDER".into()));
    assert!(status.message().contains("there are: hook"), "{}", status.message());
    let details = status.get_error_details();
    assert_eq!(details.error_info().expect("one").metadata["configured"], PROVIDER);
}

#[tokio::test]
async fn a_provider_configured_later_is_known_at_once() {
    let mut intake = start().await;
    intake.device("t", "u").await; // the names are cached now
    let kind = bongsu_store::ProviderKind::Webhook;
    intake.store.register_provider("second", kind).await.expect("registers").expect("a new name");
    let at_second = DeviceRegistration { provider: "second".into(), ..registration("t", "u") };
    assert!(intake.register(at_second).await.created);
}

#[tokio::test]
async fn a_wrong_registration_names_every_field() {
    let intake = start().await;
    let sent = DeviceRegistration {
        user_id: String::new(),
        token: "a\0".into(),
        topics: vec!["뉴스".into()],
        ..registration("t", "u")
    };
    let request = RegisterDeviceRequest { registration: Some(sent) };
    let status = intake.devices.clone().register_device(request).await.expect_err("is refused");
    let expected = ["registration.user_id", "registration.token", "registration.topics[0]"];
    assert_eq!(fields(&status), expected);
}

#[tokio::test]
async fn consent_is_updated_by_device_and_by_user() {
    let mut intake = start().await;
    let one = intake.device("t1", "u").await.id;
    let two = intake.device("t2", "u").await.id;
    let update = async |subject, consent| {
        let request = UpdateConsentRequest { subject, consent };
        intake.devices.clone().update_consent(request).await.map(|response| response.into_inner().devices)
    };
    assert_eq!(update(Some(Subject::DeviceId(one)), false).await.expect("updates"), 1);
    assert!(!get(&intake, one).await.consent && get(&intake, two).await.consent);
    assert_eq!(update(Some(Subject::UserId("u".into())), false).await.expect("updates"), 2);
    assert!(!get(&intake, two).await.consent);
    for subject in [Subject::DeviceId(999), Subject::UserId("nobody".into())] {
        let status = update(Some(subject), true).await.expect_err("is unknown");
        assert_eq!(refusal(&status), (Code::NotFound, "DEVICE_NOT_FOUND".into()));
    }
    let missing = update(None, true).await.expect_err("is missing");
    assert_eq!(fields(&missing), ["subject"]);
}

#[tokio::test]
async fn a_device_is_unregistered_by_id_or_token_and_asking_again_is_harmless() {
    let mut intake = start().await;
    let id = intake.device("t", "u").await.id;
    let unregister = async |device| {
        let request = UnregisterDeviceRequest { device: Some(device) };
        intake.devices.clone().unregister_device(request).await.map(|response| response.into_inner().device)
    };
    let token = |token: &str| Named::Token(ProviderToken { provider: PROVIDER.into(), token: token.into() });
    let gone = unregister(token("t")).await.expect("retires").expect("a device");
    assert_eq!((gone.id, gone.retire_reason()), (id, RetireReason::Requested));
    let again = unregister(Named::DeviceId(id)).await.expect("is harmless").expect("a device");
    assert_eq!(again, gone);
    for unknown in [token("t"), Named::DeviceId(999)] {
        let status = unregister(unknown).await.expect_err("is not there");
        assert_eq!(refusal(&status), (Code::NotFound, "DEVICE_NOT_FOUND".into()));
        assert!(!status.message().contains("\"t\""), "a token is a secret: {}", status.message());
    }
}

#[tokio::test]
async fn topics_are_joined_and_left() {
    let mut intake = start().await;
    let id = intake.device("t", "u").await.id;
    let mut client = intake.devices.clone();
    let request = SubscribeTopicRequest { topic: "news".into(), device_ids: vec![999, id, id] };
    let done = client.subscribe_topic(request).await.expect("subscribes").into_inner();
    assert_eq!((done.subscribed, done.unknown_device_ids), (1, vec![999]));
    assert_eq!(get(&intake, id).await.topics, ["news"]);
    let request = UnsubscribeTopicRequest { topic: "news".into(), device_ids: vec![id] };
    let done = client.unsubscribe_topic(request).await.expect("unsubscribes").into_inner();
    assert_eq!(done.unsubscribed, 1);
    let wrong = SubscribeTopicRequest { topic: "a b".into(), device_ids: vec![] };
    let status = client.subscribe_topic(wrong).await.expect_err("is refused");
    assert_eq!(fields(&status), ["topic", "device_ids"]);
}

#[tokio::test]
async fn pages_hold_every_device_once() {
    let mut intake = start().await;
    let mut expected = vec![];
    for n in 0..5 {
        expected.push(intake.device(&format!("t{n}"), "u").await.id);
        intake.device(&format!("other{n}"), "v").await;
    }
    let (mut found, mut page_token) = (vec![], String::new());
    loop {
        let request =
            ListDevicesRequest { user_id: "u".into(), page_size: 2, page_token, ..Default::default() };
        let page = intake.devices.list_devices(request).await.expect("lists").into_inner();
        found.extend(page.devices.iter().map(|device| device.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_import_reports_every_row_and_takes_the_good_ones() {
    let mut intake = start().await;
    intake.device("known", "u").await;
    intake.device("moves", "old").await;
    let first = vec![
        registration("known", "u"),
        registration("moves", "new"),
        DeviceRegistration { provider: "nowhere".into(), ..registration("x", "u") },
        registration("double", "first"),
        registration("double", "last"),
    ];
    let second = vec![registration("", "u"), registration("created", "u"), registration("nul\0", "u")];
    let report = import(&intake, vec![first, second]).await.expect("imports");
    let counts = (report.rows, report.created, report.refreshed, report.superseded, report.rejected);
    assert_eq!(counts, (8, 3, 1, 1, 3));
    assert_eq!(report.retired, 1);
    let errors: Vec<_> = report.errors.iter().map(|error| (error.row, error.field.as_str())).collect();
    assert_eq!(errors, [(2, "provider"), (5, "token"), (7, "token")]);
    assert!(report.errors[0].description.contains("there are: hook"), "{:?}", report.errors[0]);
}

#[tokio::test]
async fn an_import_of_nothing_is_no_error() {
    let intake = start().await;
    assert_eq!(import(&intake, vec![]).await.expect("imports"), ImportDevicesResponse::default());
    assert_eq!(import(&intake, vec![vec![]]).await.expect("imports"), ImportDevicesResponse::default());
}

#[tokio::test]
async fn an_import_names_a_thousand_wrong_rows_and_counts_the_rest() {
    let intake = start().await;
    let rows = vec![registration("", "u"); 1_500];
    let report = import(&intake, vec![rows]).await.expect("imports");
    assert_eq!((report.rejected, report.errors.len()), (1_500, 1_000));
}

#[tokio::test]
async fn a_message_may_have_ten_thousand_rows_and_not_one_more() {
    let intake = start().await;
    let rows = |n: usize| (0..n).map(|n| registration(&format!("t{n}"), "u")).collect::<Vec<_>>();
    let report = import(&intake, vec![rows(10_000)]).await.expect("imports");
    assert_eq!(report.created, 10_000);
    let status = import(&intake, vec![rows(1), rows(10_001)]).await.expect_err("is refused");
    assert_eq!(refusal(&status), (Code::InvalidArgument, "INVALID_REQUEST".into()));
    assert!(status.message().contains("begins at row 1"), "{}", status.message());
}

#[tokio::test]
async fn an_import_whose_client_goes_away_leaves_whole_messages() {
    let intake = start().await;
    let rows = |prefix: &str| -> ImportDevicesRequest {
        let rows = (0..100).map(|n| registration(&format!("{prefix}{n}"), "u"));
        ImportDevicesRequest { registrations: rows.collect() }
    };
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
    let mut client = intake.devices.clone();
    let call = tokio::spawn(async move { client.import_devices(stream).await });
    send.send(rows("a")).await.expect("is open");
    let count = async || {
        let filter = bongsu_store::DeviceFilter { limit: 1_000, ..Default::default() };
        intake.store.list_devices(&filter).await.expect("lists").len()
    };
    let committed = async {
        while count().await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), committed)
        .await
        .expect("the first is committed");
    send.send(rows("b")).await.expect("is open");
    call.abort();
    assert!(call.await.expect_err("was aborted").is_cancelled());
    let devices = count().await;
    assert!(devices % 100 == 0, "{devices} devices");
}
