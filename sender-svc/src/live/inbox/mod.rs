//! A user's inbox: what they were notified of, and what of it they have read. The same over HTTP and gRPC; both ask for what
//! is the user's of the token, and for nothing else.

mod http;
mod page;
mod read;
mod service;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use bongsu_proto::v1::inbox_service_server::InboxServiceServer;
use bongsu_store::{Store, StoreError, UserNo};
use tonic::Status;
use tonic::codegen::http::Extensions;

use super::auth::User;
use super::http::REQUEST_BYTES;
use crate::rpc::status;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Inbox {
    store: Store,
}

/// Lists and marks over HTTP and gRPC. It belongs behind what puts a [`User`] into the extensions of each request.
pub fn router(store: Store) -> Router {
    let inbox = Inbox { store };
    let service = InboxServiceServer::new(inbox.clone()).max_decoding_message_size(REQUEST_BYTES);
    Router::new()
        .route("/v1/inbox", get(http::list))
        .route("/v1/inbox/read", post(http::mark_read))
        .with_state(inbox)
        .route_service("/bongsu.v1.InboxService/{*method}", service)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
}

impl Inbox {
    async fn number(&self, user: &User) -> Result<UserNo, StoreError> {
        let numbers = self.store.live_join(std::slice::from_ref(&user.id)).await?;
        numbers.first().copied().ok_or_else(|| StoreError::Bug("a user has no number".to_owned()))
    }
}

/// Whoever came past the authentication; nobody else comes further.
fn user(extensions: &Extensions) -> Result<User, Status> {
    extensions.get::<User>().cloned().ok_or_else(status::token_missing)
}
