//! `ListDeliveries`: pages of what happened, each of bounded work.

use bongsu_ops::access::Caller;
use bongsu_ops::api::{PageFilter, Violations, page_size};
use bongsu_proto::v1::{ListDeliveriesRequest, ListDeliveriesResponse};
use bongsu_store::{DeadReason, DeliveryFilter, DeliverySearch, DeviceId, ProviderId, Recipient, StoreError};
use tonic::Status;

use super::{Deliveries, PAGE, convert, parse_token, small, status};

/// Devices that a list may be narrowed to.
const MOST_DEVICES: usize = 100;

impl Deliveries {
    pub(super) async fn list(
        &self,
        request: ListDeliveriesRequest,
        caller: &Caller,
    ) -> Result<ListDeliveriesResponse, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ListDeliveries");
        let mut violations = Violations::default();
        let broadcast = convert::broadcast_id(request.broadcast_id, &mut violations);
        let limit = page_size(request.page_size, PAGE.0, PAGE.1, &mut violations);
        let page = PageFilter::new("ListDeliveries", filter_parts(&request));
        let after = parse_token::<2>(page, &request.page_token, &mut violations);
        let provider = self.provider(&request.provider, &mut violations).await.map_err(failed)?;
        let filter = DeliveryFilter {
            broadcast,
            states: convert::delivery_states(&request.states, &mut violations),
            provider,
            after: after.map(|[provider, device]| (ProviderId(small(provider)), DeviceId(device))),
            limit: limit + 1,
        };
        let search = DeliverySearch {
            reasons: dead_reasons(&request.dead_reasons, &mut violations),
            code: Some(request.last_code.clone()).filter(|code| !code.is_empty()),
            settled_from: convert::moment(
                "settled_from_time",
                request.settled_from_time.as_ref(),
                &mut violations,
            ),
            settled_to: convert::moment("settled_to_time", request.settled_to_time.as_ref(), &mut violations),
            recipient: recipient(&request, &mut violations),
            filter,
        };
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        self.reach(broadcast, caller.sees_only()).await?;
        let found = self.store.search_deliveries(&search).await.map_err(failed)?;
        let mut rows = found.deliveries;
        let ended = rows.is_empty() && found.next.is_none();
        if ended && self.store.status(broadcast).await.map_err(failed)?.is_none() {
            return Err(status::broadcast_not_found(broadcast));
        }
        if ended && self.store.deliveries_dropped(broadcast).await.map_err(failed)? {
            return Err(status::deliveries_dropped(broadcast));
        }
        let mut next_page_token = page.cut(&mut rows, limit, |d| [d.provider_id.0.into(), d.device.0]);
        if let (true, Some((provider, device))) = (next_page_token.is_empty(), found.next) {
            // The page is not full, and the work that one call may cost was done.
            next_page_token = page.token([provider.0.into(), device.0]);
        }
        let deliveries = rows.into_iter().map(|d| convert::delivery(broadcast, d)).collect();
        Ok(ListDeliveriesResponse { deliveries, next_page_token })
    }
}

fn dead_reasons(reasons: &[i32], violations: &mut Violations) -> Vec<DeadReason> {
    let reasons = convert::dead_reasons_of("dead_reasons", reasons, violations);
    if reasons.contains(&DeadReason::Unconfirmed) {
        violations
            .add("dead_reasons", "has UNCONFIRMED, which no delivery dies of; ask for that state instead");
    }
    reasons
}

fn recipient(request: &ListDeliveriesRequest, violations: &mut Violations) -> Option<Recipient> {
    let ids = &request.device_ids;
    for (i, id) in ids.iter().enumerate().filter(|(_, id)| **id <= 0) {
        violations.add(format_args!("device_ids[{i}]"), format!("is {id}; give the id of a device"));
    }
    if ids.len() > MOST_DEVICES {
        let problem = format!("has {} ids; ask for {MOST_DEVICES} at most at a time", ids.len());
        violations.add("device_ids", problem);
    }
    match (request.user_id.is_empty(), ids.is_empty()) {
        (true, true) => None,
        (false, true) => Some(Recipient::User(convert::user_id(request.user_id.clone(), violations))),
        (true, false) => {
            let mut ids: Vec<DeviceId> = ids.iter().map(|id| DeviceId(*id)).collect();
            ids.sort_unstable();
            ids.dedup();
            Some(Recipient::Devices(ids))
        }
        (false, false) => {
            violations.add("device_ids", "is given with user_id; give one of them");
            None
        }
    }
}

fn filter_parts(request: &ListDeliveriesRequest) -> [String; 9] {
    [
        request.broadcast_id.to_string(),
        format!("{:?}", request.states),
        request.provider.clone(),
        request.user_id.clone(),
        format!("{:?}", request.device_ids),
        format!("{:?}", request.dead_reasons),
        request.last_code.clone(),
        format!("{:?}", request.settled_from_time),
        format!("{:?}", request.settled_to_time),
    ]
}
