//! `POST /v1/live/ticket`.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde::Serialize;

use super::ticket::TICKET_LIFE;
use super::{Authenticator, User};

#[derive(Serialize)]
struct Made {
    ticket: String,
    expires_in_s: u64,
}

/// The endpoint that makes tickets. It belongs behind [`super::AuthLayer`], which says for whom.
pub fn ticket_router(authenticator: Arc<Authenticator>) -> Router {
    Router::new().route("/v1/live/ticket", post(make)).with_state(authenticator)
}

async fn make(
    State(authenticator): State<Arc<Authenticator>>,
    Extension(user): Extension<User>,
) -> impl IntoResponse {
    let ticket = authenticator.tickets.make(&user, SystemTime::now());
    ([(CACHE_CONTROL, "no-store")], Json(Made { ticket, expires_in_s: TICKET_LIFE.as_secs() }))
}
