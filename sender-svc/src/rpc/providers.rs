//! `ProviderService`: what senders agree on about providers, and taking a parked one up again.

use bongsu_ops::api::{Violations, to_timestamp};
use bongsu_proto::v1::provider_service_server::ProviderService;
use bongsu_proto::v1::{
    ListProvidersRequest, ListProvidersResponse, ParkReason, Provider, UnparkProviderRequest,
    UnparkProviderResponse,
};
use bongsu_store::{ProviderInfo, Store, StoreError};
use tonic::{Request, Response, Status};

use super::status;

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

    async fn unpark_provider(
        &self,
        request: Request<UnparkProviderRequest>,
    ) -> Result<Response<UnparkProviderResponse>, Status> {
        let failed = |e: StoreError| status::from_store(&e, "UnparkProvider");
        let name = request.into_inner().provider;
        if name.is_empty() {
            return Err(status::invalid(&Violations::one(
                "provider",
                "is missing; give the name of a provider",
            )));
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

fn convert(p: ProviderInfo) -> Provider {
    let park_reason = match (p.parked_since, p.doubted) {
        (None, _) => ParkReason::Unspecified,
        (Some(_), false) => ParkReason::Failing,
        (Some(_), true) => ParkReason::MassInvalidation,
    };
    Provider {
        name: p.name,
        kind: p.kind,
        held_until: p.held_until.map(to_timestamp),
        parked_since: p.parked_since.map(to_timestamp),
        park_reason: park_reason.into(),
        parked_code: p.parked_code.unwrap_or_default(),
        parked_detail: p.parked_detail.unwrap_or_default(),
        probe_time: p.probe_at.map(to_timestamp),
        probes_failed: p.probes_failed,
    }
}
