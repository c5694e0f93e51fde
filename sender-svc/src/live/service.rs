//! LiveService: the same streams and acknowledgements over gRPC.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bongsu_ops::api::Violations;
use bongsu_proto::v1::live_service_server::LiveService;
use bongsu_proto::v1::subscribe_response::Event as Sent;
use bongsu_proto::v1::*;
use bongsu_store::{BroadcastId, GapReason as Gap};
use tonic::{Request, Response, Status};

use super::acks::Acks;
use super::auth::User;
use super::hub::{End, Hub, Item, Stream};
use super::metrics::Transport;
use super::request::{caller, notifications};
use crate::rpc::status;

/// Served to users, not to clients of the API.
#[derive(Clone, Debug)]
pub struct Live {
    pub hub: Hub,
    pub acks: Arc<Acks>,
}

#[tonic::async_trait]
impl LiveService for Live {
    type SubscribeStream = Subscription;

    async fn subscribe(&self, request: Request<SubscribeRequest>) -> Result<Response<Subscription>, Status> {
        let user = user(&request)?;
        let last = request.get_ref().last_event_id.clone();
        let caller = caller(&user, Some(&last), Transport::Grpc, None);
        let stream = self.hub.connect(caller).map_err(|refused| *refused)?;
        let heartbeat_interval = prost_types::Duration::try_from(self.hub.heartbeat()).ok();
        let first = Some(Sent::Connected(Connected { heartbeat_interval }));
        Ok(Response::new(Subscription { first, stream }))
    }

    async fn acknowledge(
        &self,
        request: Request<AcknowledgeRequest>,
    ) -> Result<Response<AcknowledgeResponse>, Status> {
        let user = user(&request)?;
        let mut violations = Violations::default();
        let ids = notifications(&request.get_ref().notification_ids, &mut violations, |id| {
            (*id > 0).then_some(BroadcastId(*id))
        });
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let done = self.acks.acknowledge(user.id, ids).await;
        done.map_err(|e| status::from_store(&e, "Acknowledge"))?;
        Ok(Response::new(AcknowledgeResponse {}))
    }
}

/// Whoever came past the authentication.
fn user<T>(request: &Request<T>) -> Result<User, Status> {
    request.extensions().get::<User>().cloned().ok_or_else(status::token_missing)
}

/// A stream of answers.
pub struct Subscription {
    first: Option<Sent>,
    stream: Stream,
}

impl futures::Stream for Subscription {
    type Item = Result<SubscribeResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let sent = |event| Some(Ok(SubscribeResponse { event: Some(event) }));
        if let Some(first) = self.first.take() {
            return Poll::Ready(sent(first));
        }
        let Some(item) = ready!(self.stream.poll_next(cx)) else { return Poll::Ready(None) };
        Poll::Ready(match item {
            Item::Event(event, text) => sent(Sent::Notification(text.message(&event, self.stream.epoch()))),
            Item::Gap(reason) => sent(Sent::Gap(gap(reason))),
            Item::Heartbeat => sent(Sent::Heartbeat(Heartbeat {})),
            Item::End(End::Draining { after }) => {
                sent(Sent::Reconnect(Reconnect { after: prost_types::Duration::try_from(after).ok() }))
            }
            Item::End(End::Expired) => Some(Err(status::token_expired())),
            Item::End(End::Slow) => Some(Err(status::too_slow())),
        })
    }
}

fn gap(reason: Gap) -> bongsu_proto::v1::Gap {
    let reason = match reason {
        Gap::UnknownEventId => GapReason::UnknownEventId,
        Gap::Pruned => GapReason::Pruned,
        Gap::TooMany => GapReason::TooMany,
    };
    bongsu_proto::v1::Gap { reason: reason.into() }
}
