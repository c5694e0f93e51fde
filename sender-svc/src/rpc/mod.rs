//! gRPC of the sender: what happened to deliveries, read from Postgres, and replaying what failed.

mod convert;
mod deliveries;
mod explain;
mod providers;
mod purge;
mod replay;
mod senders;
pub(crate) mod status;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use bongsu_ops::access::Caller;
use bongsu_ops::api::{PageFilter, Violations, page_size};
use bongsu_proto::v1::delivery_service_server::DeliveryService;
use bongsu_proto::v1::{
    ExplainDeliveryRequest, ExplainDeliveryResponse, GetStatusRequest, GetStatusResponse,
    ListDeadLettersRequest, ListDeadLettersResponse, ListDeliveriesRequest, ListDeliveriesResponse,
    ListSendersRequest, ListSendersResponse, PurgeDeadLettersRequest, PurgeDeadLettersResponse,
    ReplayDeadLettersRequest, ReplayDeadLettersResponse, StreamStatusRequest, StreamStatusResponse,
};
use bongsu_store::{BroadcastId, DeadLetterFilter, DeviceId, ProviderId, Store, StoreError};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

pub use providers::Providers;
pub use watch::Watchers;

/// Rows of a page where the caller gives no size, and at most.
const PAGE: (i64, i64) = (100, 1_000);

#[derive(Debug)]
pub struct Deliveries {
    pub store: Store,
    pub watchers: Arc<Watchers>,
}

type StatusStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<StreamStatusResponse, Status>> + Send>>;

#[tonic::async_trait]
impl DeliveryService for Deliveries {
    type StreamStatusStream = StatusStream;

    async fn stream_status(
        &self,
        request: Request<StreamStatusRequest>,
    ) -> Result<Response<StatusStream>, Status> {
        let caller = Caller::of(&request);
        let id = valid_id(request.into_inner().broadcast_id)?;
        self.reach(id, caller.sees_only()).await?;
        let messages = self.watchers.watch(id).await?;
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }

    async fn get_status(
        &self,
        request: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        let caller = Caller::of(&request);
        let id = valid_id(request.into_inner().broadcast_id)?;
        self.reach(id, caller.sees_only()).await?;
        let progress = self.store.status(id).await.map_err(|e| status::from_store(&e, "GetStatus"))?;
        let progress = progress.ok_or_else(|| status::broadcast_not_found(id))?;
        Ok(Response::new(GetStatusResponse { status: Some(convert::status(&progress, 0.0, None)) }))
    }

    async fn list_deliveries(
        &self,
        request: Request<ListDeliveriesRequest>,
    ) -> Result<Response<ListDeliveriesResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.list(request.into_inner(), &caller).await?))
    }

    async fn explain_delivery(
        &self,
        request: Request<ExplainDeliveryRequest>,
    ) -> Result<Response<ExplainDeliveryResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.explain(request.into_inner(), &caller).await?))
    }

    async fn list_senders(
        &self,
        _: Request<ListSendersRequest>,
    ) -> Result<Response<ListSendersResponse>, Status> {
        Ok(Response::new(self.senders().await?))
    }

    async fn list_dead_letters(
        &self,
        request: Request<ListDeadLettersRequest>,
    ) -> Result<Response<ListDeadLettersResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let failed = |e: StoreError| status::from_store(&e, "ListDeadLetters");
        let mut violations = Violations::default();
        let page = PageFilter::new("ListDeadLetters", dead_letter_filter_parts(&request));
        let limit = page_size(request.page_size, PAGE.0, PAGE.1, &mut violations);
        let after = parse_token::<4>(page, &request.page_token, &mut violations);
        let broadcast = match request.broadcast_id {
            0 => {
                if caller.sees_only().is_some() {
                    violations.add(
                        "broadcast_id",
                        "is missing; give one of yours: listing all takes the role read",
                    );
                }
                None
            }
            id => Some(convert::broadcast_id(id, &mut violations)),
        };
        let filter = DeadLetterFilter {
            broadcast,
            reasons: convert::dead_reasons(&request.reasons, &mut violations),
            code: Some(request.code).filter(|code| !code.is_empty()),
            provider: self.provider(&request.provider, &mut violations).await.map_err(failed)?,
            from: convert::moment("from_time", request.from_time.as_ref(), &mut violations),
            to: convert::moment("to_time", request.to_time.as_ref(), &mut violations),
            after: after.map(|[broadcast, shard, provider, device]| {
                (BroadcastId(broadcast), small(shard), ProviderId(small(provider)), DeviceId(device))
            }),
            limit: limit + 1,
        };
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        if let Some(id) = filter.broadcast {
            self.reach(id, caller.sees_only()).await?;
        }
        let mut rows = self.store.list_dead_letters(&filter).await.map_err(failed)?;
        if let (true, Some(id)) = (rows.is_empty(), filter.broadcast)
            && self.store.status(id).await.map_err(failed)?.is_none()
        {
            return Err(status::broadcast_not_found(id));
        }
        let mut next_page_token = page
            .cut(&mut rows, limit, |l| [l.broadcast.0, l.shard.into(), l.provider_id.0.into(), l.device.0]);
        if next_page_token.is_empty()
            && let Some((broadcast, shard, provider, device)) =
                self.store.dead_letters_reach(&filter).await.map_err(failed)?
        {
            next_page_token = page.token([broadcast.0, shard.into(), provider.0.into(), device.0]);
        }
        let dead_letters = rows.into_iter().map(convert::dead_letter).collect();
        Ok(Response::new(ListDeadLettersResponse { dead_letters, next_page_token }))
    }

    async fn replay_dead_letters(
        &self,
        request: Request<ReplayDeadLettersRequest>,
    ) -> Result<Response<ReplayDeadLettersResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.replay(request.into_inner(), &caller).await?))
    }

    async fn purge_dead_letters(
        &self,
        request: Request<PurgeDeadLettersRequest>,
    ) -> Result<Response<PurgeDeadLettersResponse>, Status> {
        Ok(Response::new(self.purge(request.into_inner()).await?))
    }
}

impl Deliveries {
    /// Refuses, as if it were not there, a broadcast of another client than the one whose broadcasts `only` can be reached.
    async fn reach(&self, id: BroadcastId, only: Option<&str>) -> Result<(), Status> {
        let Some(client_id) = only else { return Ok(()) };
        let own = self.store.broadcast_is_of(id, client_id).await;
        let own = own.map_err(|e| status::from_store(&e, "looking whose a broadcast is"))?;
        if own { Ok(()) } else { Err(status::broadcast_not_found(id)) }
    }

    /// The provider of this name; None for the empty name.
    async fn provider(
        &self,
        name: &str,
        violations: &mut Violations,
    ) -> Result<Option<ProviderId>, StoreError> {
        if name.is_empty() {
            return Ok(None);
        }
        let providers = self.store.providers().await?;
        let found = providers.iter().find(|p| p.name == name).map(|p| p.id);
        if found.is_none() {
            let names: Vec<_> = providers.iter().map(|p| p.name.as_str()).collect();
            violations.add("provider", format!("is no configured provider; there are: {}", names.join(", ")));
        }
        Ok(found)
    }
}

fn valid_id(id: i64) -> Result<BroadcastId, Status> {
    let mut violations = Violations::default();
    let id = convert::broadcast_id(id, &mut violations);
    if violations.is_empty() { Ok(id) } else { Err(status::invalid(&violations)) }
}

fn parse_token<const N: usize>(
    filter: PageFilter,
    token: &str,
    violations: &mut Violations,
) -> Option<[i64; N]> {
    filter.parse(token).unwrap_or_else(|problem| {
        violations.add("page_token", problem);
        None
    })
}

/// A token is checked to be one of ours, so its parts fit; one that was made up begins elsewhere, and no worse.
/// This is a provider's id, or a shard.
fn small(part: i64) -> i16 {
    i16::try_from(part).unwrap_or_default()
}

fn dead_letter_filter_parts(request: &ListDeadLettersRequest) -> [String; 6] {
    [
        request.broadcast_id.to_string(),
        format!("{:?}", request.reasons),
        request.code.clone(),
        request.provider.clone(),
        format!("{:?}", request.from_time),
        format!("{:?}", request.to_time),
    ]
}
