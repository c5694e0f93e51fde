//! The live channel over HTTP, for browsers.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Extension, Query, Request, State};
use axum::http::{StatusCode, Version};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bongsu_ops::api::Violations;
use bongsu_proto::v1::live_service_server::LiveServiceServer;
use bongsu_store::BroadcastId;
use serde::Deserialize;

use super::acks::Acks;
use super::auth::User;
use super::hub::Hub;
use super::listener::Cut;
use super::metrics::Transport;
use super::request::{caller, notifications};
use super::service::Live;
use super::{problem, sse};
use crate::rpc::status;

/// Bytes of a request at most: a thousand ids have room in it.
pub const REQUEST_BYTES: usize = 64 * 1024;
/// What a browser sends by itself when its stream broke.
const LAST_EVENT_ID: &str = "last-event-id";

/// What users ask for, over HTTP and gRPC; who they are is to be found out before.
pub fn router(hub: Hub, acks: Arc<Acks>) -> Router {
    let live = Live { hub, acks };
    let service = LiveServiceServer::new(live.clone()).max_decoding_message_size(REQUEST_BYTES);
    Router::new()
        .route("/v1/live", get(stream))
        .route("/v1/live/acknowledge", post(acknowledge))
        .with_state(live)
        .route_service("/bongsu.v1.LiveService/{*method}", service)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
}

/// For what is not there.
pub async fn nothing() -> Response {
    problem::answer(&status::path_not_found())
}

#[derive(Deserialize)]
struct StreamQuery {
    last_event_id: Option<String>,
}

async fn stream(
    State(live): State<Live>,
    Extension(user): Extension<User>,
    query: Result<Query<StreamQuery>, QueryRejection>,
    request: Request<Body>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejected) => return problem::answer(&problem::query(&rejected)),
    };
    // The browser's own word is newer than what its page once asked for.
    let header = request.headers().get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or("?").to_owned());
    let last = header.or(query.last_event_id);
    // A connection of HTTP/2 may carry streams of others, through a proxy.
    let alone = request.version() < Version::HTTP_2;
    let cut = request.extensions().get::<Cut>().filter(|_| alone);
    let caller = caller(&user, last.as_deref(), Transport::Sse, cut);
    match live.hub.connect(caller) {
        Ok(stream) => sse::response(stream, live.hub.heartbeat()),
        Err(refused) => problem::answer(&refused),
    }
}

#[derive(Deserialize)]
struct AcknowledgeBody {
    notification_ids: Vec<String>,
}

async fn acknowledge(
    State(live): State<Live>,
    Extension(user): Extension<User>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match problem::body(body) {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let body: AcknowledgeBody = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => {
            let expected = format!("is not {{\"notification_ids\":[\"1\"]}}: {error}");
            return problem::answer(&status::invalid(&Violations::one("body", expected)));
        }
    };
    let mut violations = Violations::default();
    let ids = notifications(&body.notification_ids, &mut violations, |id| {
        // Digits alone, as we write them.
        let digits = id.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| id.parse().ok()).flatten().filter(|id| *id > 0).map(BroadcastId)
    });
    if !violations.is_empty() {
        return problem::answer(&status::invalid(&violations));
    }
    match live.acks.acknowledge(user.id, ids).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem::answer(&status::from_store(&error, "acknowledging")),
    }
}
