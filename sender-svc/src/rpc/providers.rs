//! `ProviderService`: what senders agree on about providers, parking one by hand, and taking a parked one up again.

use bongsu_ops::api::{Violations, to_timestamp};
use bongsu_proto::v1::provider_service_server::ProviderService;
use bongsu_proto::v1::{
    ListProvidersRequest, ListProvidersResponse, ParkProviderRequest, ParkProviderResponse, ParkReason,
    Provider, UnparkProviderRequest, UnparkProviderResponse,
};
use bongsu_store::{ProviderInfo, Store, StoreError};
use tonic::{Request, Response, Status};

use super::status;

/// Bytes of the reason to park a provider at most: as many as are kept of what a provider said.
const REASON_BYTES: usize = 512;

#[derive(Debug)]
pub struct Providers {
    pub store: Store,
}

#[tonic::async_trait]
impl ProviderService for Providers {
    async fn list_providers(
        &self,
        _: Request<ListProvidersRequest>,
    ) -> Result<Response<ListProvidersResponse>, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ListProviders");
        let providers = self.store.list_providers().await.map_err(failed)?;
        Ok(Response::new(ListProvidersResponse { providers: providers.into_iter().map(convert).collect() }))
    }

    async fn park_provider(
        &self,
        request: Request<ParkProviderRequest>,
    ) -> Result<Response<ParkProviderResponse>, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ParkProvider");
        let ParkProviderRequest { provider: name, reason } = request.into_inner();
        let mut violations = Violations::default();
        check_name(&name, &mut violations);
        check_reason(&reason, &mut violations);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let parked = self.store.park_by_hand(&name, &reason).await.map_err(failed)?;
        let providers = self.store.list_providers().await.map_err(failed)?;
        if !parked {
            let names: Vec<_> = providers.into_iter().map(|provider| provider.name).collect();
            return Err(status::provider_not_found(&name, &names));
        }
        tracing::warn!(provider = name, reason, "the provider is parked by hand");
        let provider = providers.into_iter().find(|provider| provider.name == name).map(convert);
        Ok(Response::new(ParkProviderResponse { provider }))
    }

    async fn unpark_provider(
        &self,
        request: Request<UnparkProviderRequest>,
    ) -> Result<Response<UnparkProviderResponse>, Status> {
        let failed = |e: StoreError| status::from_store(&e, "UnparkProvider");
        let name = request.into_inner().provider;
        let mut violations = Violations::default();
        check_name(&name, &mut violations);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let unparked = self.store.unpark_by_hand(&name).await.map_err(failed)?;
        let providers = self.store.list_providers().await.map_err(failed)?;
        match unparked {
            None => {
                let names: Vec<_> = providers.into_iter().map(|provider| provider.name).collect();
                Err(status::provider_not_found(&name, &names))
            }
            Some(false) => Err(status::provider_not_parked(&name)),
            Some(true) => {
                tracing::info!(provider = name, "the provider is taken up again by hand");
                let provider = providers.into_iter().find(|provider| provider.name == name).map(convert);
                Ok(Response::new(UnparkProviderResponse { provider }))
            }
        }
    }
}

fn check_name(name: &str, violations: &mut Violations) {
    if name.is_empty() {
        violations.add("provider", "is missing; give the name of a provider");
    }
}

fn check_reason(reason: &str, violations: &mut Violations) {
    if reason.trim().is_empty() {
        violations.add("reason", "is missing; say why, for whoever finds the provider parked");
    } else if reason.len() > REASON_BYTES {
        violations.add("reason", format!("has {} bytes; give at most {REASON_BYTES}", reason.len()));
    } else if reason.chars().any(char::is_control) {
        violations.add("reason", "has control characters; give one line of text");
    }
}

pub(super) fn convert(p: ProviderInfo) -> Provider {
    let park_reason = match (p.parked_since, p.by_hand, p.doubted) {
        (None, _, _) => ParkReason::Unspecified,
        (Some(_), true, _) => ParkReason::ByHand,
        (Some(_), false, true) => ParkReason::MassInvalidation,
        (Some(_), false, false) => ParkReason::Failing,
    };
    Provider {
        name: p.name,
        kind: p.kind,
        held_until: p.held_until.map(to_timestamp),
        parked_since: p.parked_since.map(to_timestamp),
        park_reason: park_reason.into(),
        parked_code: p.parked_code.unwrap_or_default(),
        parked_detail: p.parked_detail.unwrap_or_default(),
        probe_time: p.probe_at.filter(|_| !p.by_hand).map(to_timestamp),
        probes_failed: p.probes_failed,
    }
}
