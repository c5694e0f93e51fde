//! `GET /v1/inbox` and `POST /v1/inbox/read`, for browsers.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::Extensions;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse as _, Response};
use bongsu_ops::api::Violations;
use serde::{Deserialize, Serialize};
use tonic::Status;

use super::super::notification::Notification;
use super::super::problem;
use super::page::{Page, Wanted};
use super::read::Read;
use super::{Inbox, user};

/// As text, so that what is wrong with one is told by its name.
#[derive(Deserialize)]
pub struct ListQuery {
    #[serde(default)]
    page_size: String,
    #[serde(default)]
    page_token: String,
    #[serde(default)]
    unread_only: String,
}

#[derive(Serialize)]
struct Listed<'a> {
    notifications: Vec<Notification<'a>>,
    next_page_token: &'a str,
    unread_count: i32,
}

pub async fn list(
    State(inbox): State<Inbox>,
    extensions: Extensions,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Response {
    match page(&inbox, &extensions, query).await {
        Ok(page) => {
            let listed = Listed {
                notifications: page
                    .notifications
                    .iter()
                    .map(|(id, event, content)| Notification::new(*id, event, content))
                    .collect(),
                next_page_token: &page.next_page_token,
                unread_count: page.unread_count,
            };
            private(Json(listed).into_response())
        }
        Err(refused) => problem::answer(&refused),
    }
}

async fn page(
    inbox: &Inbox,
    extensions: &Extensions,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Page, Status> {
    let user = user(extensions)?;
    let Query(query) = query.map_err(|rejected| problem::query(&rejected))?;
    let mut problems = Violations::default();
    let wanted = query.wanted(&mut problems);
    inbox.list(&user, wanted, problems).await
}

impl ListQuery {
    fn wanted(self, problems: &mut Violations) -> Wanted {
        let page_size = match self.page_size.as_str() {
            "" => 0,
            number => number.parse().unwrap_or_else(|_| {
                problems.add("page_size", "is no number; give 0 for the default, or 1 to 100");
                0
            }),
        };
        let unread_only = match self.unread_only.as_str() {
            "" | "false" => false,
            "true" => true,
            _ => {
                problems.add("unread_only", "is neither true nor false; give one of them");
                false
            }
        };
        Wanted { page_size, page_token: self.page_token, unread_only }
    }
}

#[derive(Deserialize)]
struct MarkRead {
    #[serde(default)]
    notification_ids: Vec<String>,
    #[serde(default)]
    up_to_event_id: String,
}

#[derive(Serialize)]
struct Marked {
    unread_count: i32,
}

pub async fn mark_read(
    State(inbox): State<Inbox>,
    extensions: Extensions,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match problem::body(body) {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    match mark(&inbox, &extensions, &body).await {
        Ok(unread_count) => private(Json(Marked { unread_count }).into_response()),
        Err(refused) => problem::answer(&refused),
    }
}

async fn mark(inbox: &Inbox, extensions: &Extensions, body: &[u8]) -> Result<i32, Status> {
    let user = user(extensions)?;
    let read = serde_json::from_slice::<MarkRead>(body)
        .map_err(|error| {
            let expected = "{\"notification_ids\":[\"1\"]} or {\"up_to_event_id\":\"…\"}";
            Violations::one("body", format!("is not as expected ({error}); give {expected}"))
        })
        .and_then(|body| {
            Read::parse(&body.notification_ids, &body.up_to_event_id, |id| {
                // Digits alone, as we write them.
                id.bytes().all(|b| b.is_ascii_digit()).then(|| id.parse().ok()).flatten()
            })
        });
    inbox.mark(&user, read).await
}

/// A user's own, for no cache to keep.
fn private(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, axum::http::HeaderValue::from_static("private, no-store"));
    response
}
