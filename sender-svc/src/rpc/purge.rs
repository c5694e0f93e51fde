//! `PurgeDeadLetters`: step after step, for as long as a call may take.

use std::time::{Duration, Instant};

use bongsu_ops::api::{PageFilter, Violations};
use bongsu_proto::v1::{PurgeDeadLettersRequest, PurgeDeadLettersResponse};
use bongsu_store::{BroadcastId, DeadLetterMatch, DeviceId, ProviderId, PurgeFilter, StoreError};
use tonic::Status;

use super::{Deliveries, convert, parse_token, small, status};

/// No step is begun later: far within the time that any call has.
const A_CALL: Duration = Duration::from_secs(5);

impl Deliveries {
    pub(super) async fn purge(
        &self,
        request: PurgeDeadLettersRequest,
    ) -> Result<PurgeDeadLettersResponse, Status> {
        let failed = |e: StoreError| status::from_store(&e, "PurgeDeadLetters");
        let mut violations = Violations::default();
        let page = PageFilter::new("PurgeDeadLetters", filter_parts(&request));
        let after = parse_token::<4>(page, &request.page_token, &mut violations);
        let filter = self.purge_filter(&request, &mut violations).await.map_err(failed)?;
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        if let Some(id) = filter.broadcast
            && self.store.status(id).await.map_err(failed)?.is_none()
        {
            return Err(status::broadcast_not_found(id));
        }
        let mut place = after.map(|[broadcast, shard, provider, device]| {
            (BroadcastId(broadcast), small(shard), ProviderId(small(provider)), DeviceId(device))
        });
        let (began, mut letters) = (Instant::now(), 0);
        loop {
            // What the steps before deleted stays deleted when one fails: asking again goes on.
            let step = self.store.purge_dead_letters(&filter, place).await.map_err(failed)?;
            letters += step.letters;
            place = step.next;
            if place.is_none() || began.elapsed() >= A_CALL {
                break;
            }
        }
        let next_page_token = place.map_or_else(String::new, |(broadcast, shard, provider, device)| {
            page.token([broadcast.0, shard.into(), provider.0.into(), device.0])
        });
        if filter.count_only {
            return Ok(PurgeDeadLettersResponse { purged: 0, matching: letters, next_page_token });
        }
        tracing::info!(broadcast_id = request.broadcast_id, letters, "dead letters were purged");
        Ok(PurgeDeadLettersResponse { purged: letters, matching: 0, next_page_token })
    }

    async fn purge_filter(
        &self,
        request: &PurgeDeadLettersRequest,
        violations: &mut Violations,
    ) -> Result<PurgeFilter, StoreError> {
        let broadcast = match request.broadcast_id {
            0 => None,
            id => Some(convert::broadcast_id(id, violations)),
        };
        let letters = DeadLetterMatch {
            reasons: convert::dead_reasons(&request.reasons, violations),
            code: Some(request.code.clone()).filter(|code| !code.is_empty()),
            provider: self.provider(&request.provider, violations).await?,
            from: convert::moment("from_time", request.from_time.as_ref(), violations),
            to: convert::moment("to_time", request.to_time.as_ref(), violations),
        };
        convert::check_order(letters.from, letters.to, violations);
        if request.broadcast_id == 0 && request.to_time.is_none() {
            let problem = "is missing, as is to_time; give a broadcast, or the time before which they died";
            violations.add("broadcast_id", problem);
        }
        Ok(PurgeFilter { broadcast, letters, count_only: request.validate_only })
    }
}

fn filter_parts(request: &PurgeDeadLettersRequest) -> [String; 7] {
    [
        request.broadcast_id.to_string(),
        format!("{:?}", request.reasons),
        request.code.clone(),
        request.provider.clone(),
        format!("{:?}", request.from_time),
        format!("{:?}", request.to_time),
        request.validate_only.to_string(),
    ]
}
