//! `ExplainDelivery`: why somebody did or did not get a broadcast.

mod convert;
mod live;
mod missing;
mod obstacle;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

use std::collections::BTreeSet;

use bongsu_ops::access::Caller;
use bongsu_ops::api::{Violations, to_timestamp};
use bongsu_proto::v1::{
    DeliveryVerdict, DeviceExplanation, ExplainDeliveryRequest, ExplainDeliveryResponse,
    explain_delivery_request,
};
use bongsu_store::{DeviceId, Explained, ProviderInfo, Recipient, StoreError};
use tonic::Status;

use self::verdict::{Case, Decided};
use super::{Deliveries, convert as answers, status};

impl Deliveries {
    pub(super) async fn explain(
        &self,
        request: ExplainDeliveryRequest,
        caller: &Caller,
    ) -> Result<ExplainDeliveryResponse, Status> {
        let failed = |e: StoreError| status::from_store(&e, "ExplainDelivery");
        let mut violations = Violations::default();
        let broadcast = answers::broadcast_id(request.broadcast_id, &mut violations);
        let Some(recipient) = recipient(request.recipient, &mut violations).filter(|_| violations.is_empty())
        else {
            return Err(status::invalid(&violations));
        };
        self.reach(broadcast, caller.sees_only()).await?;
        let explained = self.store.explain(broadcast, &recipient).await.map_err(failed)?;
        let explained = explained.ok_or_else(|| status::broadcast_not_found(broadcast))?;
        if explained.devices.is_empty() {
            return Err(match &recipient {
                Recipient::User(user) => status::user_not_found(user),
                Recipient::Devices(ids) => status::device_not_found(ids.first().copied()),
            });
        }
        let providers = self.store.list_providers().await.map_err(failed)?;
        Ok(respond(explained, providers))
    }
}

fn recipient(
    sent: Option<explain_delivery_request::Recipient>,
    violations: &mut Violations,
) -> Option<Recipient> {
    use explain_delivery_request::Recipient as Sent;

    match sent {
        Some(Sent::UserId(user)) if !user.is_empty() => {
            return Some(Recipient::User(answers::user_id(user, violations)));
        }
        Some(Sent::DeviceId(id)) if id > 0 => return Some(Recipient::Devices(vec![DeviceId(id)])),
        Some(Sent::UserId(_)) => violations.add("user_id", "is empty; give the id of a user"),
        Some(Sent::DeviceId(id)) => violations.add("device_id", format!("is {id}; give the id of a device")),
        None => violations.add("recipient", "is missing; give user_id or device_id"),
    }
    None
}

fn respond(explained: Explained, providers: Vec<ProviderInfo>) -> ExplainDeliveryResponse {
    let Explained { broadcast, devices, more_devices } = explained;
    let decided: Vec<Decided> = devices
        .iter()
        .map(|device| {
            let provider = providers.iter().find(|p| p.id == device.provider_id);
            Case { broadcast: &broadcast, device, provider }.decide()
        })
        .collect();
    let (verdict, summary) = overall(&decided);
    let used: BTreeSet<_> = devices.iter().map(|device| device.provider_id).collect();
    ExplainDeliveryResponse {
        broadcast_id: broadcast.id.0,
        broadcast_state: answers::broadcast_state(broadcast.state).into(),
        paused: broadcast.paused,
        create_time: Some(to_timestamp(broadcast.created_at)),
        expire_time: Some(to_timestamp(broadcast.expires_at)),
        settle_time: broadcast.settled_at.map(to_timestamp),
        replay_of: broadcast.replay_of.map_or(0, |id| id.0),
        deliveries_dropped: broadcast.dropped,
        devices: devices
            .into_iter()
            .zip(decided)
            .map(|(device, (verdict, summary))| DeviceExplanation {
                verdict: verdict.into(),
                summary,
                ..convert::device(broadcast.id, device)
            })
            .collect(),
        more_devices,
        providers: providers
            .into_iter()
            .filter(|provider| used.contains(&provider.id))
            .map(super::providers::convert)
            .collect(),
        verdict: verdict.into(),
        summary,
        read_time: Some(to_timestamp(broadcast.read_at)),
    }
}

/// Of all devices: the verdict of the one that fared best, and how many fared how.
fn overall(decided: &[Decided]) -> Decided {
    match decided {
        [] => (DeliveryVerdict::Unknown, String::new()),
        [(verdict, summary)] => (*verdict, summary.clone()),
        many => {
            let ranked = |verdict: DeliveryVerdict| BEST_FIRST.iter().position(|v| *v == verdict);
            let mut sorted: Vec<&Decided> = many.iter().collect();
            sorted.sort_by_key(|(verdict, _)| ranked(*verdict).unwrap_or(BEST_FIRST.len()));
            let counts: Vec<String> = sorted
                .chunk_by(|a, b| a.0 == b.0)
                .filter_map(|same| Some(format!("{} {}", same.len(), words::verdict(same.first()?.0))))
                .collect();
            let (verdict, summary) = sorted[0];
            (*verdict, format!("of {} devices, {}; the best: {summary}", many.len(), counts.join(", ")))
        }
    }
}

/// From the one a user is best off with; what may still be sent is better than what has ended, and what was to be sent than what
/// never was.
const BEST_FIRST: [DeliveryVerdict; 25] = [
    DeliveryVerdict::SeenLive,
    DeliveryVerdict::Sent,
    DeliveryVerdict::SentByReplay,
    DeliveryVerdict::Sending,
    DeliveryVerdict::Unconfirmed,
    DeliveryVerdict::AwaitingAck,
    DeliveryVerdict::Retrying,
    DeliveryVerdict::Waiting,
    DeliveryVerdict::ProviderHeld,
    DeliveryVerdict::ProviderParked,
    DeliveryVerdict::Paused,
    DeliveryVerdict::NotFannedOut,
    DeliveryVerdict::AttemptsExhausted,
    DeliveryVerdict::Rejected,
    DeliveryVerdict::Expired,
    DeliveryVerdict::Cancelled,
    DeliveryVerdict::Skipped,
    DeliveryVerdict::Unregistered,
    DeliveryVerdict::NoConsent,
    DeliveryVerdict::QuarantinedBefore,
    DeliveryVerdict::RegisteredLater,
    DeliveryVerdict::NotInAudience,
    DeliveryVerdict::RetiredBefore,
    DeliveryVerdict::DeliveriesDropped,
    DeliveryVerdict::Unknown,
];
