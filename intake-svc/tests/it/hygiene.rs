//! What providers said of devices: seen by state, and undone by `RestoreDevices`.

use bongsu_proto::v1::restore_devices_request::Devices;
use bongsu_proto::v1::{
    Device, DeviceIds, DeviceState, ListDevicesRequest, RestoreDevicesRequest, RestoreDevicesResponse,
    RestoreFilter, RetireReason,
};
use bongsu_store::{BroadcastId, DeviceId, Fate, Flush, SenderId, Unfit};
use tonic::{Code, Status};

use crate::harness::{Intake, PROVIDER, fields, refusal, registration, start};

/// What a provider said of a device, recorded as a sender does.
async fn said(intake: &Intake, id: i64, code: &str, fate: Fate) {
    let device = intake.store.device(DeviceId(id)).await.expect("reads").expect("is there");
    let unfit = Unfit {
        shard: 0,
        device: device.id,
        token: device.token,
        registered_at: device.registered_at,
        broadcast: BroadcastId(7),
        code: code.into(),
        fate,
    };
    let flush = Flush { unfit: vec![unfit], ..Flush::default() };
    let _ = intake.store.flush_lane(SenderId::random()).flush(&flush).await.expect("records");
}

/// A live, a quarantined and a retired device.
async fn three(intake: &mut Intake) -> [i64; 3] {
    let mut ids = [0; 3];
    for (n, id) in ids.iter_mut().enumerate() {
        *id = intake.device(&format!("token-{n}"), &format!("user-{n}")).await.id;
    }
    said(intake, ids[1], "BadDeviceToken", Fate::Quarantined { detail: "of another app".into() }).await;
    said(intake, ids[2], "410", Fate::Retired).await;
    ids
}

async fn list(intake: &Intake, request: ListDevicesRequest) -> Result<Vec<Device>, Status> {
    intake.devices.clone().list_devices(request).await.map(|response| response.into_inner().devices)
}

async fn in_state(intake: &Intake, state: DeviceState) -> Vec<Device> {
    list(intake, ListDevicesRequest { state: state.into(), ..Default::default() }).await.expect("lists")
}

async fn restore(intake: &Intake, request: RestoreDevicesRequest) -> Result<RestoreDevicesResponse, Status> {
    intake.devices.clone().restore_devices(request).await.map(tonic::Response::into_inner)
}

fn matching(state: DeviceState) -> RestoreDevicesRequest {
    let filter = RestoreFilter { provider: PROVIDER.into(), state: state.into(), ..Default::default() };
    RestoreDevicesRequest { devices: Some(Devices::Filter(filter)), ..Default::default() }
}

#[tokio::test]
async fn devices_are_listed_by_state_with_what_the_provider_said() {
    let mut intake = start().await;
    let [live, quarantined, retired] = three(&mut intake).await;
    let ids = |devices: Vec<Device>| devices.into_iter().map(|device| device.id).collect::<Vec<_>>();
    assert_eq!(ids(in_state(&intake, DeviceState::Live).await), [live]);
    assert_eq!(ids(in_state(&intake, DeviceState::Quarantined).await), [quarantined]);
    assert_eq!(ids(in_state(&intake, DeviceState::Retired).await), [retired]);
    assert_eq!(ids(in_state(&intake, DeviceState::Unspecified).await), [live, quarantined]);
    let all = ListDevicesRequest { include_retired: true, provider: PROVIDER.into(), ..Default::default() };
    assert_eq!(ids(list(&intake, all).await.expect("lists")), [live, quarantined, retired]);
    for (user, state, found) in [
        ("user-1", DeviceState::Quarantined, 1),
        ("user-1", DeviceState::Live, 0),
        ("user-2", DeviceState::Retired, 1),
    ] {
        let request = ListDevicesRequest { user_id: user.into(), state: state.into(), ..Default::default() };
        assert_eq!(list(&intake, request).await.expect("lists").len(), found, "{user} {state:?}");
    }
    let device = in_state(&intake, DeviceState::Quarantined).await.remove(0);
    assert_eq!((device.state(), device.quarantined_by), (DeviceState::Quarantined, 7));
    assert_eq!((&*device.quarantine_code, &*device.quarantine_detail), ("BadDeviceToken", "of another app"));
    assert!(device.quarantine_time.is_some() && device.retire_time.is_none());
    let device = in_state(&intake, DeviceState::Retired).await.remove(0);
    assert_eq!(device.retire_reason(), RetireReason::Unregistered);
    assert_eq!((device.retired_by, &*device.retire_code), (7, "410"));
}

#[tokio::test]
async fn a_list_by_state_has_pages() {
    let mut intake = start().await;
    for n in 0..5 {
        let id = intake.device(&format!("token-{n}"), "u").await.id;
        said(&intake, id, "410", Fate::Retired).await;
    }
    let first = ListDevicesRequest { state: DeviceState::Retired.into(), page_size: 3, ..Default::default() };
    let page = intake.devices.list_devices(first.clone()).await.expect("lists").into_inner();
    let second = ListDevicesRequest { page_token: page.next_page_token, ..first };
    let rest = intake.devices.list_devices(second.clone()).await.expect("lists").into_inner();
    assert_eq!((page.devices.len(), rest.devices.len(), &*rest.next_page_token), (3, 2, ""));
    let other = ListDevicesRequest { state: DeviceState::Quarantined.into(), ..second };
    assert_eq!(fields(&list(&intake, other).await.expect_err("another filter")), ["page_token"]);
}

#[tokio::test]
async fn devices_are_restored_by_filter_and_by_id_and_counting_changes_nothing() {
    let mut intake = start().await;
    let [_, quarantined, retired] = three(&mut intake).await;
    let one = RestoreDevicesResponse { restored: 1, ..Default::default() };
    let dry = RestoreDevicesRequest { validate_only: true, ..matching(DeviceState::Quarantined) };
    assert_eq!(restore(&intake, dry).await.expect("counts"), one);
    assert_eq!(restore(&intake, matching(DeviceState::Quarantined)).await.expect("restores"), one);
    let ids = DeviceIds { device_ids: vec![quarantined, retired] };
    let by_id = RestoreDevicesRequest { devices: Some(Devices::Ids(ids)), ..Default::default() };
    let dry = RestoreDevicesRequest { validate_only: true, ..by_id.clone() };
    assert_eq!(restore(&intake, dry).await.expect("counts"), one);
    assert_eq!(in_state(&intake, DeviceState::Retired).await.len(), 1);
    assert_eq!(restore(&intake, by_id.clone()).await.expect("restores"), one);
    assert_eq!(restore(&intake, by_id).await.expect("restores"), RestoreDevicesResponse::default());
    assert_eq!(in_state(&intake, DeviceState::Live).await.len(), 3);
}

#[tokio::test]
async fn what_belongs_to_a_newer_device_is_told_and_left_as_it_is() {
    let mut intake = start().await;
    let [_, _, retired] = three(&mut intake).await;
    let heir = intake.register(registration("token-2", "somebody else")).await;
    assert!(heir.created);
    let answer = restore(&intake, matching(DeviceState::Retired)).await.expect("restores");
    assert_eq!((answer.restored, answer.superseded), (0, 1));
    assert_eq!(in_state(&intake, DeviceState::Retired).await[0].id, retired);
}

#[tokio::test]
async fn a_wrong_request_is_refused_with_the_fields() {
    let mut intake = start().await;
    three(&mut intake).await;
    let refused = async |devices| {
        let request = RestoreDevicesRequest { devices, ..Default::default() };
        restore(&intake, request).await.expect_err("refused")
    };
    assert_eq!(fields(&refused(None).await), ["devices"]);
    assert_eq!(fields(&refused(Some(Devices::Ids(DeviceIds::default()))).await), ["device_ids"]);
    let nothing = RestoreFilter { code: "c".repeat(65), ..Default::default() };
    let named = fields(&refused(Some(Devices::Filter(nothing))).await);
    assert_eq!(named, ["filter.provider", "filter.code", "filter.state"]);
    let unknown =
        RestoreFilter { provider: "nobody".into(), state: DeviceState::Retired.into(), ..Default::default() };
    let status = refused(Some(Devices::Filter(unknown))).await;
    assert_eq!(refusal(&status), (Code::InvalidArgument, "UNKNOWN_PROVIDER".into()));
    let both =
        ListDevicesRequest { state: DeviceState::Live.into(), include_retired: true, ..Default::default() };
    assert_eq!(fields(&list(&intake, both).await.expect_err("both")), ["state"]);
    let unknown = ListDevicesRequest { state: 99, ..Default::default() };
    assert_eq!(fields(&list(&intake, unknown).await.expect_err("unknown")), ["state"]);
}
