//! The inbox as apps reach it: real HTTP and gRPC on a port, a real Postgres behind it. Who calls is said by a header here, as the
//! layer before it says it by the token.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use bongsu_proto::v1::inbox_service_client::InboxServiceClient;
use bongsu_proto::v1::{ListInboxRequest, MarkReadRequest};
use bongsu_store::{
    Acceptance, Audience, BroadcastId, Expiry, Guarantee, Message, NewBroadcast, Priority, Routing, Store,
    testing,
};
use serde_json::{Value, json};
use std::time::Duration;
use tonic::Code;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

use super::super::auth::User;
use super::REQUEST_BYTES;

/// Says who calls.
const CALLER: &str = "x-caller";

struct World {
    store: Store,
    url: String,
    http: reqwest::Client,
    grpc: InboxServiceClient<Channel>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    async fn new() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let store = Store::new(&testing::fresh_database().await, 4, "test").unwrap();
        let router = super::router(store.clone()).layer(from_fn(async |mut request: Request, next: Next| {
            if let Some(id) = request.headers().get(CALLER).and_then(|id| id.to_str().ok()) {
                let user = User { id: id.to_owned(), expires_at: None };
                request.extensions_mut().insert(user);
            }
            next.run(request).await
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let grpc = InboxServiceClient::connect(url.clone()).await.unwrap();
        Self { store, url, http, grpc, server }
    }

    /// So many broadcasts, with an event of each for each of these users.
    async fn notify(&self, users: &[&str], n: usize) -> Vec<BroadcastId> {
        let mut ids = vec![];
        for i in 0..n {
            let Acceptance::New(broadcast) = self.store.accept(&new_broadcast(i)).await.unwrap() else {
                panic!("it is new");
            };
            let pairs: Vec<_> = users.iter().map(|user| (broadcast.id, *user)).collect();
            self.store.test_events(&pairs).await.unwrap();
            ids.push(broadcast.id);
        }
        ids
    }

    async fn get(&self, caller: &str, query: &str) -> (StatusCode, HeaderMap, Value) {
        let request = self.http.get(format!("{}/v1/inbox{query}", self.url));
        answer(request, caller).await
    }

    async fn post(&self, caller: &str, body: impl Into<reqwest::Body>) -> (StatusCode, HeaderMap, Value) {
        let request = self.http.post(format!("{}/v1/inbox/read", self.url)).body(body);
        answer(request, caller).await
    }

    /// Ids on a page, the token of the next, and how many are unread.
    async fn page(&self, caller: &str, query: &str) -> (Vec<String>, String, i64) {
        let (status, _, page) = self.get(caller, query).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let ids = page["notifications"].as_array().unwrap();
        let ids = ids.iter().map(|n| n["notification_id"].as_str().unwrap().to_owned()).collect();
        (ids, page["next_page_token"].as_str().unwrap().to_owned(), page["unread_count"].as_i64().unwrap())
    }
}

async fn answer(request: reqwest::RequestBuilder, caller: &str) -> (StatusCode, HeaderMap, Value) {
    let request = if caller.is_empty() { request } else { request.header(CALLER, caller) };
    let answer = request.send().await.unwrap();
    (answer.status(), answer.headers().clone(), answer.json().await.unwrap())
}

fn as_user<T>(user: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert(CALLER, user.parse().unwrap());
    request
}

fn new_broadcast(n: usize) -> NewBroadcast {
    NewBroadcast {
        client_id: "test".into(),
        idempotency_key: format!("key-{n}"),
        message: Message {
            title: format!("봉수 {n}"),
            body: "불이 올랐다".into(),
            data: [("n".to_owned(), n.to_string())].into(),
        },
        audience: Audience::Everyone,
        priority: Priority::Normal,
        guarantee: Guarantee::AtLeastOnce,
        expiry: Expiry::After(Duration::from_secs(3_600)),
        schedule: None,
        max_rate_per_second: None,
        routing: Routing::Live,
        ack_timeout: None,
        request_hash: [7; 32],
        trace_context: None,
    }
}

#[tokio::test]
async fn a_list_comes_in_pages_newest_first_alike_over_http_and_grpc() {
    let mut world = World::new().await;
    let ids: Vec<String> = world.notify(&["mina"], 5).await.iter().map(ToString::to_string).collect();
    let (page, token, unread) = world.page("mina", "?page_size=2").await;
    assert_eq!((page, unread), (vec![ids[4].clone(), ids[3].clone()], 5));
    let (page, token, _) = world.page("mina", &format!("?page_size=2&page_token={token}")).await;
    assert_eq!(page, [ids[2].clone(), ids[1].clone()]);
    let (page, token, _) = world.page("mina", &format!("?page_size=2&page_token={token}")).await;
    assert_eq!((page, token), (vec![ids[0].clone()], String::new()));

    let (_, headers, whole) = world.get("mina", "").await;
    assert_eq!(headers["cache-control"], "private, no-store");
    let epoch = world.store.inbox_epoch().await.unwrap();
    let newest = &whole["notifications"][0];
    assert_eq!(newest["event_id"], format!("{epoch}-5"));
    assert_eq!(newest["data"], json!({"n": "4"}));
    assert_eq!((&newest["acknowledged"], &newest["read"]), (&json!(false), &json!(false)));
    let listed =
        world.grpc.list_inbox(as_user("mina", ListInboxRequest::default())).await.unwrap().into_inner();
    assert_eq!((listed.notifications.len(), listed.unread_count), (5, 5));
    let newest_by_grpc = &listed.notifications[0];
    assert_eq!(newest["event_id"], newest_by_grpc.event_id);
    assert_eq!(newest["notification_id"], newest_by_grpc.notification_id.to_string());
    assert_eq!(newest["title"], newest_by_grpc.title);
}

#[tokio::test]
async fn marking_as_read_counts_down_and_again_changes_nothing() {
    let mut world = World::new().await;
    let ids = world.notify(&["mina"], 4).await;
    let (_, _, whole) = world.get("mina", "").await;
    let second = whole["notifications"][2]["event_id"].clone();
    let some = json!({ "notification_ids": [ids[3].to_string()] }).to_string();
    for _ in 0..2 {
        let (status, _, left) = world.post("mina", some.clone()).await;
        assert_eq!((status, left), (StatusCode::OK, json!({"unread_count": 3})));
    }
    let (_, _, left) = world.post("mina", json!({ "up_to_event_id": second }).to_string()).await;
    assert_eq!(left, json!({"unread_count": 1}));
    let (page, _, unread) = world.page("mina", "?unread_only=true").await;
    assert_eq!((page, unread), (vec![ids[2].to_string()], 1));
    let last = MarkReadRequest { notification_ids: vec![ids[2].0], ..Default::default() };
    let left = world.grpc.mark_read(as_user("mina", last)).await.unwrap().into_inner();
    assert_eq!(left.unread_count, 0);
    let (_, _, whole) = world.get("mina", "").await;
    assert!(whole["notifications"].as_array().unwrap().iter().all(|n| n["read"] == true));
}

#[tokio::test]
async fn what_is_another_users_can_neither_be_listed_nor_marked() {
    let mut world = World::new().await;
    let theirs = world.notify(&["juno"], 3).await;
    let (page, _, unread) = world.page("mina", "").await;
    assert_eq!((page, unread), (vec![], 0));
    let (_, token, _) = world.page("juno", "?page_size=1").await;
    let (status, _, refused) = world.get("mina", &format!("?page_token={token}")).await;
    assert_eq!((status, &refused["error"]["reason"]), (StatusCode::BAD_REQUEST, &json!("INVALID_REQUEST")));
    let ids: Vec<String> = theirs.iter().map(ToString::to_string).collect();
    let (status, _, _) = world.post("mina", json!({ "notification_ids": ids }).to_string()).await;
    assert_eq!(status, StatusCode::OK, "as if they were not there");
    let epoch = world.store.inbox_epoch().await.unwrap();
    let (status, _, _) =
        world.post("mina", json!({ "up_to_event_id": format!("{epoch}-3") }).to_string()).await;
    assert_eq!(status, StatusCode::OK);
    let by_grpc = MarkReadRequest { notification_ids: vec![theirs[0].0], ..Default::default() };
    world.grpc.mark_read(as_user("mina", by_grpc)).await.unwrap();
    assert_eq!(world.page("juno", "?unread_only=true").await.2, 3, "they have read none of them");
}

#[tokio::test]
async fn whoever_is_nobody_is_let_nowhere() {
    let mut world = World::new().await;
    let read = json!({ "notification_ids": ["1"] }).to_string();
    for (status, _, refused) in [world.get("", "").await, world.post("", read).await] {
        assert_eq!(
            (status, &refused["error"]["reason"]),
            (StatusCode::UNAUTHORIZED, &json!("TOKEN_MISSING"))
        );
        assert_eq!(refused["error"]["status"], "UNAUTHENTICATED");
    }
    let listed = world.grpc.list_inbox(ListInboxRequest::default()).await.unwrap_err();
    assert_eq!(listed.code(), Code::Unauthenticated);
    let marked = world.grpc.mark_read(MarkReadRequest::default()).await.unwrap_err();
    assert_eq!(marked.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn what_is_wrong_is_told_by_the_name_of_its_field() {
    let mut world = World::new().await;
    for (query, field) in [
        ("?page_size=-1", "page_size: "),
        ("?page_size=ten", "page_size: "),
        ("?page_token=x", "page_token: "),
        ("?unread_only=yes", "unread_only: "),
        ("?page_size=1&page_size=2", "query: "),
    ] {
        refused(world.get("mina", query).await, field);
    }
    let too_many = json!({ "notification_ids": vec!["1"; 1_001] }).to_string();
    for (body, field) in [
        ("{}", "notification_ids: "),
        ("x", "body: "),
        (r#"{"notification_ids":[1]}"#, "body: "),
        (r#"{"notification_ids":["1","+2"]}"#, "notification_ids[1]: "),
        (r#"{"notification_ids":["1"],"up_to_event_id":"1-2"}"#, "notification_ids: "),
        (r#"{"up_to_event_id":"2"}"#, "up_to_event_id: "),
        (r#"{"up_to_event_id":"1-2"}"#, "up_to_event_id: is of a time before"),
        (&too_many, "notification_ids: "),
    ] {
        refused(world.post("mina", body.to_owned()).await, field);
    }
    let (status, _, large) = world.post("mina", vec![b' '; REQUEST_BYTES + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(large["error"]["reason"], "MESSAGE_TOO_LARGE");

    let wrong = MarkReadRequest { notification_ids: vec![1, -1], ..Default::default() };
    let wrong = world.grpc.mark_read(as_user("mina", wrong)).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    let fields = wrong.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields[0].field, "notification_ids[1]");
}

fn refused((status, _, answer): (StatusCode, HeaderMap, Value), field: &str) {
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    assert_eq!(answer["error"]["status"], "INVALID_ARGUMENT");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(field), "{message} instead of {field}");
}
