//! `DeviceService`.

use std::iter::once;
use std::sync::Arc;

use bongsu_ops::api::{self, PageFilter, Violations, page_size};
use bongsu_proto::v1::device_service_server::DeviceService;
use bongsu_proto::v1::unregister_device_request::Device as Named;
use bongsu_proto::v1::update_consent_request::Subject;
use bongsu_proto::v1::{
    GetDeviceRequest, GetDeviceResponse, ImportDevicesRequest, ImportDevicesResponse, ListDevicesRequest,
    ListDevicesResponse, RegisterDeviceRequest, RegisterDeviceResponse, RestoreDevicesRequest,
    RestoreDevicesResponse, SubscribeTopicRequest, SubscribeTopicResponse, UnregisterDeviceRequest,
    UnregisterDeviceResponse, UnsubscribeTopicRequest, UnsubscribeTopicResponse, UpdateConsentRequest,
    UpdateConsentResponse,
};
use bongsu_store::{ConsentOf, DeviceFilter, DeviceId, DeviceName, Store};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::import::Import;
use crate::providers::{KnownProvider, Providers};
use crate::{convert, status, validate};

const DEFAULT_PAGE: i64 = 100;
const MAX_PAGE: i64 = 1_000;

/// The service over a store; `shutdown` ends imports between two messages.
pub(crate) struct Devices {
    pub store: Store,
    pub providers: Arc<Providers>,
    pub shutdown: CancellationToken,
}

#[tonic::async_trait]
impl DeviceService for Devices {
    async fn register_device(
        &self,
        request: Request<RegisterDeviceRequest>,
    ) -> Result<Response<RegisterDeviceResponse>, Status> {
        let sent = request
            .into_inner()
            .registration
            .ok_or_else(|| status::invalid_field("registration", "is missing"))?;
        let name = sent.provider.clone();
        let known = self
            .providers
            .knowing(once(name.as_str()))
            .await
            .map_err(|e| status::from_store(&e, "RegisterDevice"))?;
        let mut violations = Violations::default();
        let registration = validate::registration(sent, known.named(&name), &mut violations);
        if !violations.is_empty() {
            return Err(api::invalid(&violations.within("registration")));
        }
        let registration = registration
            .ok_or_else(|| status::unknown_provider("registration.provider", &name, &known.names()))?;
        let done =
            self.store.register(&registration).await.map_err(|e| status::from_store(&e, "RegisterDevice"))?;
        let device = Some(convert::device(done.device));
        Ok(Response::new(RegisterDeviceResponse { device, created: done.created }))
    }

    async fn unregister_device(
        &self,
        request: Request<UnregisterDeviceRequest>,
    ) -> Result<Response<UnregisterDeviceResponse>, Status> {
        let (name, which) = match request.into_inner().device {
            None => return Err(status::invalid_field("device", "is missing; give device_id or token")),
            Some(Named::DeviceId(id)) => (DeviceName::Id(DeviceId(id)), device_text(id)),
            Some(Named::Token(sent)) => {
                let mut violations = Violations::default();
                validate::provider_token(&sent, &mut violations);
                if !violations.is_empty() {
                    return Err(api::invalid(&violations));
                }
                let which = format!("live device with this token at provider \"{}\"", sent.provider);
                let provider = self.provider("token.provider", &sent.provider).await?;
                (DeviceName::Token(provider.id, validate::stored_token(provider.kind, sent.token)), which)
            }
        };
        let device =
            self.store.unregister(&name).await.map_err(|e| status::from_store(&e, "UnregisterDevice"))?;
        let device = device.ok_or_else(|| status::device_not_found(&which))?;
        Ok(Response::new(UnregisterDeviceResponse { device: Some(convert::device(device)) }))
    }

    async fn update_consent(
        &self,
        request: Request<UpdateConsentRequest>,
    ) -> Result<Response<UpdateConsentResponse>, Status> {
        let request = request.into_inner();
        let (of, which) = match request.subject {
            None => return Err(status::invalid_field("subject", "is missing; give device_id or user_id")),
            Some(Subject::DeviceId(id)) => (ConsentOf::Device(DeviceId(id)), device_text(id)),
            Some(Subject::UserId(user_id)) => {
                let mut violations = Violations::default();
                validate::user_id(&user_id, &mut violations);
                if !violations.is_empty() {
                    return Err(api::invalid(&violations));
                }
                let which = format!("live device of user \"{user_id}\"");
                (ConsentOf::User(user_id), which)
            }
        };
        let devices = self
            .store
            .set_consent(&of, request.consent)
            .await
            .map_err(|e| status::from_store(&e, "UpdateConsent"))?;
        if devices == 0 {
            return Err(status::device_not_found(&which));
        }
        Ok(Response::new(UpdateConsentResponse { devices }))
    }

    async fn get_device(
        &self,
        request: Request<GetDeviceRequest>,
    ) -> Result<Response<GetDeviceResponse>, Status> {
        let id = request.into_inner().device_id;
        let device =
            self.store.device(DeviceId(id)).await.map_err(|e| status::from_store(&e, "GetDevice"))?;
        let device = device.ok_or_else(|| status::device_not_found(&device_text(id)))?;
        Ok(Response::new(GetDeviceResponse { device: Some(convert::device(device)) }))
    }

    async fn list_devices(
        &self,
        request: Request<ListDevicesRequest>,
    ) -> Result<Response<ListDevicesResponse>, Status> {
        let request = request.into_inner();
        let mut violations = Violations::default();
        let filter = validate::list_filter(&request, &mut violations);
        let limit = page_size(request.page_size, DEFAULT_PAGE, MAX_PAGE, &mut violations);
        let states = format!("{:?}", filter.states);
        let parts = [request.user_id.as_str(), &request.provider, &request.topic, &states];
        let page_filter = PageFilter::new("ListDevices", parts);
        let after = page_filter.parse(&request.page_token).unwrap_or_else(|problem| {
            violations.add("page_token", problem);
            None
        });
        if !violations.is_empty() {
            return Err(api::invalid(&violations));
        }
        if let Some(provider) = &filter.provider {
            self.provider("provider", provider).await?;
        }
        // One row more than asked for tells whether there is a next page.
        let filter = DeviceFilter { after: after.map(|[id]| DeviceId(id)), limit: limit + 1, ..filter };
        let mut devices =
            self.store.list_devices(&filter).await.map_err(|e| status::from_store(&e, "ListDevices"))?;
        let next_page_token = page_filter.cut(&mut devices, limit, |device| [device.id.0]);
        let devices = devices.into_iter().map(convert::device).collect();
        Ok(Response::new(ListDevicesResponse { devices, next_page_token }))
    }

    async fn restore_devices(
        &self,
        request: Request<RestoreDevicesRequest>,
    ) -> Result<Response<RestoreDevicesResponse>, Status> {
        Ok(Response::new(self.restore(request.into_inner()).await?))
    }

    async fn subscribe_topic(
        &self,
        request: Request<SubscribeTopicRequest>,
    ) -> Result<Response<SubscribeTopicResponse>, Status> {
        let SubscribeTopicRequest { topic, device_ids } = request.into_inner();
        let ids = topic_and_ids(&topic, device_ids)?;
        let done =
            self.store.subscribe(&topic, &ids).await.map_err(|e| status::from_store(&e, "SubscribeTopic"))?;
        Ok(Response::new(SubscribeTopicResponse {
            subscribed: done.subscribed,
            unknown_device_ids: done.unknown.into_iter().map(|id| id.0).collect(),
        }))
    }

    async fn unsubscribe_topic(
        &self,
        request: Request<UnsubscribeTopicRequest>,
    ) -> Result<Response<UnsubscribeTopicResponse>, Status> {
        let UnsubscribeTopicRequest { topic, device_ids } = request.into_inner();
        let ids = topic_and_ids(&topic, device_ids)?;
        let unsubscribed = self
            .store
            .unsubscribe(&topic, &ids)
            .await
            .map_err(|e| status::from_store(&e, "UnsubscribeTopic"))?;
        Ok(Response::new(UnsubscribeTopicResponse { unsubscribed }))
    }

    async fn import_devices(
        &self,
        request: Request<Streaming<ImportDevicesRequest>>,
    ) -> Result<Response<ImportDevicesResponse>, Status> {
        let import = Import::new(&self.store, &self.providers);
        Ok(Response::new(import.run(request.into_inner(), &self.shutdown).await?))
    }
}

impl Devices {
    pub(crate) async fn provider(&self, field: &str, name: &str) -> Result<KnownProvider, Status> {
        let known = self
            .providers
            .knowing(once(name))
            .await
            .map_err(|e| status::from_store(&e, "reading the providers"))?;
        known.named(name).ok_or_else(|| status::unknown_provider(field, name, &known.names()))
    }
}

fn device_text(id: i64) -> String {
    format!("device with the id {id}")
}

fn topic_and_ids(topic: &str, device_ids: Vec<i64>) -> Result<Vec<DeviceId>, Status> {
    let mut violations = Violations::default();
    validate::topic("topic", topic, &mut violations);
    let ids = validate::device_ids(device_ids, &mut violations);
    if violations.is_empty() { Ok(ids) } else { Err(api::invalid(&violations)) }
}
