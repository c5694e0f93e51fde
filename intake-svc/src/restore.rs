//! `RestoreDevices`: undoing what a provider's word did to devices.

use bongsu_ops::api::{self, PageFilter, Violations};
use bongsu_proto::v1::restore_devices_request::Devices as Sent;
use bongsu_proto::v1::{RestoreDevicesRequest, RestoreDevicesResponse, RestoreFilter as SentFilter};
use bongsu_store::{DeviceId, RestoreFilter, RestorePlace, Restored};
use tonic::Status;

use crate::devices::Devices;
use crate::{status, validate};

/// Steps of [`bongsu_store::RESTORE_STEP`] devices in one call.
const MAX_STEPS: usize = 10;

impl Devices {
    pub(crate) async fn restore(
        &self,
        request: RestoreDevicesRequest,
    ) -> Result<RestoreDevicesResponse, Status> {
        let count_only = request.validate_only;
        let done = match request.devices {
            None => return Err(status::invalid_field("devices", "is missing; give ids or filter")),
            Some(Sent::Ids(ids)) => {
                let mut violations = Violations::default();
                let ids = validate::device_ids(ids.device_ids, &mut violations);
                if !request.page_token.is_empty() {
                    violations.add("page_token", "is given together with ids, which have one page");
                }
                if !violations.is_empty() {
                    return Err(api::invalid(&violations));
                }
                let done = self.store.restore_devices(&ids, count_only).await.map_err(|e| failed(&e))?;
                answer(done, String::new())
            }
            Some(Sent::Filter(sent)) => self.restore_matching(&sent, &request.page_token, count_only).await?,
        };
        if !count_only && done.restored > 0 {
            tracing::info!(restored = done.restored, superseded = done.superseded, "devices are restored");
        }
        Ok(done)
    }

    async fn restore_matching(
        &self,
        sent: &SentFilter,
        page_token: &str,
        count_only: bool,
    ) -> Result<RestoreDevicesResponse, Status> {
        let mut violations = Violations::default();
        let filter = validate::restore_filter(sent, &mut violations);
        let page = PageFilter::new("RestoreDevices", [format!("{sent:?} {count_only}")]);
        let place = page.parse(page_token).unwrap_or_else(|problem| {
            violations.add("page_token", problem);
            None
        });
        if !violations.is_empty() {
            return Err(api::invalid(&violations));
        }
        let provider = Some(self.provider("filter.provider", &sent.provider).await?.id);
        let filter = RestoreFilter { provider, ..filter };
        // A token is checked to be one of ours, so its parts fit.
        let place = place.map(|[shard, device]| (i16::try_from(shard).unwrap_or_default(), DeviceId(device)));
        let done = self.steps(&filter, place, count_only).await?;
        let next = done.next.map(|(shard, device)| page.token([shard.into(), device.0])).unwrap_or_default();
        Ok(answer(done, next))
    }

    async fn steps(
        &self,
        filter: &RestoreFilter,
        place: Option<RestorePlace>,
        count_only: bool,
    ) -> Result<Restored, Status> {
        let mut all = Restored { next: place, ..Restored::default() };
        for _ in 0..MAX_STEPS {
            let step = self.store.restore_step(filter, all.next, count_only).await.map_err(|e| failed(&e))?;
            all.restored += step.restored;
            all.superseded += step.superseded;
            all.next = step.next;
            if all.next.is_none() {
                break;
            }
        }
        Ok(all)
    }
}

fn answer(done: Restored, next_page_token: String) -> RestoreDevicesResponse {
    RestoreDevicesResponse { restored: done.restored, superseded: done.superseded, next_page_token }
}

fn failed(error: &bongsu_store::StoreError) -> Status {
    status::from_store(error, "RestoreDevices")
}
