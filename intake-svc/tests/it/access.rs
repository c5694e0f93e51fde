//! Clients of an access file: each has its own broadcasts and its own keys, and learns nothing of others'.

use bongsu_ops::access::token_sha256;
use bongsu_proto::v1::{
    CancelBroadcastRequest, GetBroadcastRequest, ListBroadcastsRequest, PauseBroadcastRequest,
    ResumeBroadcastRequest,
};
use tempfile::TempDir;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::harness::{Intake, announcement, refusal, registration, start_with};

/// An intake with clients of every role, and the directory of its access file.
async fn start() -> (Intake, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("access.toml");
    let table = |(name, roles): (&str, &str)| {
        format!("[clients.{name}]\ntoken_sha256 = \"{}\"\nroles = [{roles}]\n", token_sha256(name))
    };
    let clients = [
        ("one", "\"submit\""),
        ("two", "\"submit\""),
        ("eyes", "\"read\""),
        ("hands", "\"operate\""),
        ("phones", "\"devices\""),
    ];
    std::fs::write(&file, clients.map(table).concat()).expect("written");
    let intake = start_with(|config| {
        config.access.access_file = Some(file);
        // Without it, what has no devices would end before it can be paused.
        config.fan_out_workers = 0;
    })
    .await;
    (intake, directory)
}

fn of<T>(client: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {client}").parse().expect("ASCII"));
    request
}

impl Intake {
    async fn create_as(&mut self, client: &str, key: &str) -> i64 {
        let answer = self.broadcasts.create_broadcast(of(client, announcement(key))).await.expect("accepted");
        let answer = answer.into_inner();
        assert!(!answer.replayed, "the key is the client's own");
        answer.broadcast.expect("a broadcast").id
    }

    async fn listed_by(&mut self, client: &str) -> Vec<i64> {
        let mut ids = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListBroadcastsRequest { page_size: 1, page_token, ..Default::default() };
            let page =
                self.broadcasts.list_broadcasts(of(client, request)).await.expect("a page").into_inner();
            ids.extend(page.broadcasts.iter().map(|broadcast| broadcast.id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return ids;
            }
        }
    }

    async fn pause_as(&mut self, client: &str, broadcast_id: i64) -> Result<(), Status> {
        self.broadcasts.pause_broadcast(of(client, PauseBroadcastRequest { broadcast_id })).await.map(drop)
    }
}

#[tokio::test]
async fn clients_share_neither_keys_nor_lists_and_who_reads_sees_all() {
    let (mut intake, _files) = start().await;
    let first = intake.create_as("one", "the-same-key").await;
    let second = intake.create_as("two", "the-same-key").await;
    let third = intake.create_as("one", "another-key").await;
    assert_eq!(intake.listed_by("one").await, [third, first]);
    assert_eq!(intake.listed_by("two").await, [second]);
    assert_eq!(intake.listed_by("eyes").await, [third, second, first]);
    assert_eq!(intake.listed_by("hands").await, [third, second, first]);
}

#[tokio::test]
async fn another_clients_broadcast_is_answered_like_one_that_is_not_there() {
    let (mut intake, _files) = start().await;
    let theirs = intake.create_as("one", "key").await;
    let unknown = theirs + 1_000_000;
    for id in [theirs, unknown] {
        let broadcast_id = id;
        let mut refused = vec![intake.pause_as("two", id).await.expect_err("not theirs")];
        let calls = &mut intake.broadcasts;
        refused.push(
            calls.get_broadcast(of("two", GetBroadcastRequest { broadcast_id })).await.expect_err("get"),
        );
        let resume = of("two", ResumeBroadcastRequest { broadcast_id });
        refused.push(calls.resume_broadcast(resume).await.expect_err("resume"));
        let cancel = of("two", CancelBroadcastRequest { broadcast_id });
        refused.push(calls.cancel_broadcast(cancel).await.expect_err("cancel"));
        for status in refused {
            assert_eq!(refusal(&status), (Code::NotFound, "BROADCAST_NOT_FOUND".to_owned()));
            // But for the id nothing differs, the details included.
            assert_eq!(status.message(), format!("no broadcast has the id {id}"));
            let resource = status.get_error_details().resource_info().cloned().expect("what was not found");
            assert_eq!((resource.resource_name, resource.owner), (id.to_string(), String::new()));
        }
    }
    intake.pause_as("one", theirs).await.expect("its own");
    intake.pause_as("hands", theirs).await.expect("operates");
}

#[tokio::test]
async fn a_role_that_is_missing_is_named_and_nothing_happens() {
    let (mut intake, _files) = start().await;
    let id = intake.create_as("one", "key").await;
    let refused = intake.pause_as("eyes", id).await.expect_err("only sees");
    assert_eq!(refusal(&refused), (Code::PermissionDenied, "ROLE_MISSING".to_owned()));
    assert_eq!(refused.message(), "this call needs one of the roles submit, operate");
    let create = intake.broadcasts.create_broadcast(of("hands", announcement("x"))).await;
    assert_eq!(create.expect_err("submits nothing").code(), Code::PermissionDenied);
    let register = |client| {
        let registration = Some(registration("token", "user"));
        of(client, bongsu_proto::v1::RegisterDeviceRequest { registration })
    };
    let devices = &mut intake.devices;
    assert_eq!(
        devices.register_device(register("one")).await.expect_err("no devices").code(),
        Code::PermissionDenied
    );
    devices.register_device(register("phones")).await.expect("has the role");
    let anonymous = intake.broadcasts.create_broadcast(announcement("x")).await.expect_err("who?");
    assert_eq!(refusal(&anonymous), (Code::Unauthenticated, "TOKEN_MISSING".to_owned()));
    assert_eq!(intake.listed_by("eyes").await, [id]);
}
