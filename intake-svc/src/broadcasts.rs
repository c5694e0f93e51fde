//! `BroadcastService`.

use std::sync::Arc;

use bongsu_live::Bus;
use bongsu_ops::access::Caller;
use bongsu_ops::api::{self, PageFilter, Violations, page_size};
use bongsu_ops::trace::{Span, Tracer};
use bongsu_proto::v1::broadcast_service_server::BroadcastService;
use bongsu_proto::v1::{
    self, CancelBroadcastRequest, CancelBroadcastResponse, CreateBroadcastRequest, CreateBroadcastResponse,
    GetBroadcastRequest, GetBroadcastResponse, ListBroadcastsRequest, ListBroadcastsResponse,
    PauseBroadcastRequest, PauseBroadcastResponse, RescheduleBroadcastRequest, RescheduleBroadcastResponse,
    ResumeBroadcastRequest, ResumeBroadcastResponse,
};
use bongsu_store::{
    Acceptance, BroadcastFilter, BroadcastId, BroadcastState, Check, Controlled, NewBroadcast, Rescheduled,
    Store, StoreError,
};
use tokio::sync::Notify;
use tonic::{Request, Response, Status};

use crate::metrics::{self, Accepted};
use crate::providers::Providers;
use crate::{convert, preflight, status, validate};

const DEFAULT_PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

/// The service over a store; `fan_out` wakes the worker that makes deliveries, `bus` is told who has new events.
pub(crate) struct Broadcasts {
    pub store: Store,
    pub bus: Bus,
    pub providers: Arc<Providers>,
    pub fan_out: Arc<Notify>,
    pub tracer: Tracer,
}

#[tonic::async_trait]
impl BroadcastService for Broadcasts {
    async fn create_broadcast(
        &self,
        request: Request<CreateBroadcastRequest>,
    ) -> Result<Response<CreateBroadcastResponse>, Status> {
        let caller = Caller::of(&request);
        let mut span = self.tracer.answering("CreateBroadcast", request.metadata());
        let created = self.create(request.into_inner(), &caller, &mut span).await;
        if let Err(status) = &created {
            span.failed(metrics::code_name(status.code()));
        }
        created.map(Response::new)
    }

    async fn get_broadcast(
        &self,
        request: Request<GetBroadcastRequest>,
    ) -> Result<Response<GetBroadcastResponse>, Status> {
        let caller = Caller::of(&request);
        let id = BroadcastId(request.into_inner().broadcast_id);
        self.reach(id, caller.sees_only()).await?;
        let broadcast = self.store.broadcast(id).await.map_err(|e| status::from_store(&e, "GetBroadcast"))?;
        let broadcast = broadcast.ok_or_else(|| status::broadcast_not_found(id))?;
        Ok(Response::new(GetBroadcastResponse { broadcast: Some(convert::broadcast(broadcast)) }))
    }

    async fn list_broadcasts(
        &self,
        request: Request<ListBroadcastsRequest>,
    ) -> Result<Response<ListBroadcastsResponse>, Status> {
        let client_id = Caller::of(&request).sees_only().map(str::to_owned);
        let request = request.into_inner();
        let mut violations = Violations::default();
        let mut states = validate::list_states(&request.states, &mut violations);
        states.sort_unstable_by_key(|state| convert::state(*state) as i32);
        states.dedup();
        let limit = page_size(request.page_size, DEFAULT_PAGE, MAX_PAGE, &mut violations);
        let filter = page_filter(&states);
        let before = filter.parse(&request.page_token).unwrap_or_else(|problem| {
            violations.add("page_token", problem);
            None
        });
        if !violations.is_empty() {
            return Err(api::invalid(&violations));
        }
        // One row more than asked for tells whether there is a next page.
        let before = before.map(|[id]| BroadcastId(id));
        let rows = BroadcastFilter { states, client_id, before, limit: limit + 1 };
        let mut broadcasts =
            self.store.list_broadcasts(&rows).await.map_err(|e| status::from_store(&e, "ListBroadcasts"))?;
        let next_page_token = filter.cut(&mut broadcasts, limit, |broadcast| [broadcast.id.0]);
        let broadcasts = broadcasts.into_iter().map(convert::broadcast).collect();
        Ok(Response::new(ListBroadcastsResponse { broadcasts, next_page_token }))
    }

    async fn pause_broadcast(
        &self,
        request: Request<PauseBroadcastRequest>,
    ) -> Result<Response<PauseBroadcastResponse>, Status> {
        let caller = Caller::of(&request);
        let id = BroadcastId(request.into_inner().broadcast_id);
        self.reach(id, caller.controls_only()).await?;
        let outcome = self.store.pause_broadcast(id).await;
        let broadcast = controlled(id, "paused", outcome)?;
        Ok(Response::new(PauseBroadcastResponse { broadcast }))
    }

    async fn resume_broadcast(
        &self,
        request: Request<ResumeBroadcastRequest>,
    ) -> Result<Response<ResumeBroadcastResponse>, Status> {
        let caller = Caller::of(&request);
        let id = BroadcastId(request.into_inner().broadcast_id);
        self.reach(id, caller.controls_only()).await?;
        let outcome = self.store.resume_broadcast(id).await;
        let broadcast = controlled(id, "resumed", outcome)?;
        // One that goes out live was not fanned out meanwhile.
        self.fan_out.notify_one();
        Ok(Response::new(ResumeBroadcastResponse { broadcast }))
    }

    async fn cancel_broadcast(
        &self,
        request: Request<CancelBroadcastRequest>,
    ) -> Result<Response<CancelBroadcastResponse>, Status> {
        let caller = Caller::of(&request);
        let id = BroadcastId(request.into_inner().broadcast_id);
        self.reach(id, caller.controls_only()).await?;
        let outcome = self.store.cancel_broadcast(id).await;
        let broadcast = controlled(id, "cancelled", outcome)?;
        Ok(Response::new(CancelBroadcastResponse { broadcast }))
    }

    async fn reschedule_broadcast(
        &self,
        request: Request<RescheduleBroadcastRequest>,
    ) -> Result<Response<RescheduleBroadcastResponse>, Status> {
        let caller = Caller::of(&request);
        let RescheduleBroadcastRequest { broadcast_id, start } = request.into_inner();
        let id = BroadcastId(broadcast_id);
        let start = validate::new_start(start).map_err(|violations| api::invalid(&violations))?;
        self.reach(id, caller.controls_only()).await?;
        let outcome = self.store.reschedule_broadcast(id, start).await;
        match outcome.map_err(|e| status::from_store(&e, "RescheduleBroadcast"))? {
            Rescheduled::Done(broadcast) => {
                if broadcast.state == BroadcastState::Accepted {
                    self.fan_out.notify_one();
                }
                tracing::info!(broadcast_id = id.0, at = ?broadcast.scheduled_at, "broadcast rescheduled");
                let broadcast = Some(convert::broadcast(*broadcast));
                Ok(Response::new(RescheduleBroadcastResponse { broadcast }))
            }
            Rescheduled::NotScheduled(broadcast) => Err(status::broadcast_started(&broadcast)),
            Rescheduled::TooFarAhead { now } => Err(status::too_far_ahead(now)),
            Rescheduled::ExpiryOutOfRange { start, expires_at } => {
                let problem = format!(
                    "has it start at {}, and its expire_time {} is not between 1 second and 7 days after that: give it \
                     another start, or cancel it and create it anew",
                    status::rfc3339(start),
                    status::rfc3339(expires_at)
                );
                Err(status::invalid_field("schedule_time", problem))
            }
            Rescheduled::NotFound => Err(status::broadcast_not_found(id)),
        }
    }
}

/// What became of a request that a broadcast be `asked`.
fn controlled(
    id: BroadcastId,
    asked: &str,
    outcome: Result<Controlled, StoreError>,
) -> Result<Option<v1::Broadcast>, Status> {
    match outcome.map_err(|e| status::from_store(&e, asked))? {
        Controlled::Done(broadcast) => {
            tracing::info!(broadcast_id = id.0, "broadcast {asked}");
            Ok(Some(convert::broadcast(*broadcast)))
        }
        Controlled::TooLate(broadcast) => Err(status::broadcast_final(&broadcast, asked)),
        Controlled::NotFound => Err(status::broadcast_not_found(id)),
    }
}

impl Broadcasts {
    /// Refuses, as if it were not there, a broadcast of another client than the one whose broadcasts `only` can be reached.
    async fn reach(&self, id: BroadcastId, only: Option<&str>) -> Result<(), Status> {
        let Some(client_id) = only else { return Ok(()) };
        let own = self.store.broadcast_is_of(id, client_id).await;
        let own = own.map_err(|e| status::from_store(&e, "looking whose a broadcast is"))?;
        if own { Ok(()) } else { Err(status::broadcast_not_found(id)) }
    }

    async fn create(
        &self,
        request: CreateBroadcastRequest,
        caller: &Caller,
        span: &mut Span,
    ) -> Result<CreateBroadcastResponse, Status> {
        let validate_only = request.validate_only;
        let mut new = validate::new_broadcast(request, caller.client_id())
            .map_err(|violations| api::invalid(&violations))?;
        new.trace_context = span.traceparent().map(|traceparent| traceparent.to_string());
        let known = self.providers.knowing(std::iter::empty()).await;
        let known = known.map_err(|e| status::from_store(&e, "CreateBroadcast"))?;
        if let Err(violations) = validate::fits(&new.message, known.kinds()) {
            // What was accepted before a provider with a lower limit came can be asked for again like everything else.
            let found =
                self.store.accepted(&new).await.map_err(|e| status::from_store(&e, "CreateBroadcast"))?;
            let found = found.ok_or_else(|| api::invalid(&violations))?;
            return answer(found, &new);
        }
        let response = if validate_only { self.check(new).await? } else { self.accept(&new).await? };
        if let Some(broadcast) = &response.broadcast {
            span.set("bongsu.broadcast_id", broadcast.id);
            span.set("bongsu.replayed", response.replayed);
        }
        Ok(response)
    }

    async fn accept(&self, new: &NewBroadcast) -> Result<CreateBroadcastResponse, Status> {
        let mut acceptance =
            self.store.accept(new).await.map_err(|e| status::from_store(&e, "CreateBroadcast"))?;
        if let Acceptance::New(broadcast) = &mut acceptance {
            metrics::events(broadcast.told.len());
            self.bus.tell(std::mem::take(&mut broadcast.told));
            self.fan_out.notify_one();
            tracing::info!(broadcast_id = broadcast.id.0, key = new.idempotency_key, "broadcast accepted");
        }
        answer(acceptance, new)
    }

    async fn check(&self, new: NewBroadcast) -> Result<CreateBroadcastResponse, Status> {
        let check = self.store.check(&new).await.map_err(|e| status::from_store(&e, "CreateBroadcast"))?;
        match check {
            Check::WouldAccept { now, scheduled_at, expires_at } => {
                let preflight = match self.store.forecast(&new.audience).await {
                    Ok(forecast) => {
                        Some(preflight::of(&new, expires_at - scheduled_at.unwrap_or(now), forecast))
                    }
                    // It is valid all the same, which is what was asked first.
                    Err(error @ StoreError::TooSlow(_)) => {
                        tracing::warn!("no preflight: {error}");
                        None
                    }
                    Err(error) => return Err(status::from_store(&error, "CreateBroadcast")),
                };
                let broadcast = Some(convert::unstored(new, now, scheduled_at, expires_at));
                Ok(CreateBroadcastResponse { broadcast, replayed: false, preflight })
            }
            Check::Otherwise(acceptance) => answer(acceptance, &new),
        }
    }
}

fn answer(acceptance: Acceptance, new: &NewBroadcast) -> Result<CreateBroadcastResponse, Status> {
    let (broadcast, replayed) = match acceptance {
        Acceptance::New(broadcast) => {
            metrics::broadcast(Accepted::New);
            (broadcast, false)
        }
        Acceptance::Replayed(broadcast) => {
            metrics::broadcast(Accepted::Replayed);
            (broadcast, true)
        }
        Acceptance::KeyReused(existing) => {
            metrics::broadcast(Accepted::KeyReused);
            return Err(status::idempotency_key_reused(&new.idempotency_key, existing));
        }
        Acceptance::ExpiryOutOfRange { start, scheduled } => {
            let start = status::rfc3339(start);
            let after = if scheduled {
                format!("its start at {start}")
            } else {
                format!("now, which is {start} by the database's clock")
            };
            let problem = format!("is not between 1 second and 7 days after {after}");
            return Err(status::invalid_field("expire_time", problem));
        }
        Acceptance::TooFarAhead { now } => return Err(status::too_far_ahead(now)),
    };
    Ok(CreateBroadcastResponse { broadcast: Some(convert::broadcast(*broadcast)), replayed, preflight: None })
}

fn page_filter(states: &[BroadcastState]) -> PageFilter {
    PageFilter::new("ListBroadcasts", states.iter().map(|state| convert::state(*state).as_str_name()))
}
