//! Why there is no delivery.

use bongsu_proto::v1::DeliveryVerdict;
use bongsu_store::{AudienceKind, BroadcastState};
use time::OffsetDateTime;

use super::obstacle::{Obstacle, obstacle_at};
use super::verdict::{Case, Decided};
use super::words::at;

impl Case<'_> {
    /// There is no delivery, and no dead letter either.
    pub(super) fn missing(&self) -> Decided {
        let broadcast = self.broadcast;
        if broadcast.dropped {
            let text = "the deliveries of this broadcast were dropped at the end of their retention, and this one left no dead letter";
            return (DeliveryVerdict::DeliveriesDropped, text.to_owned());
        }
        self.for_others()
            .or_else(|| self.registered_later())
            .or_else(|| self.not_callable())
            .or_else(|| self.not_subscribed())
            .or_else(|| self.not_reached())
            .or_else(|| self.registered_perhaps_later())
            .unwrap_or_else(|| {
                let text = if broadcast.replay_of.is_some() {
                    "the dead letter was not taken up: the replay was for others of them, or the device could not be called"
                } else {
                    "there is no delivery, and nothing that is recorded says why"
                };
                (DeliveryVerdict::Unknown, text.to_owned())
            })
    }

    /// It is in no list that the broadcast was for.
    fn for_others(&self) -> Option<Decided> {
        let (broadcast, device) = (self.broadcast, self.device);
        let text = match (broadcast.audience, broadcast.replay_of) {
            (AudienceKind::Users, _) if device.listed == Some(false) => {
                "the broadcast was for a list of users, and this one is not among them".to_owned()
            }
            (AudienceKind::Devices, _) if device.listed == Some(false) => {
                "the broadcast was for a list of devices, and this one is not among them".to_owned()
            }
            (_, Some(original)) if !device.original_died => {
                format!("the broadcast is a replay of {original}, which left no dead letter for this device")
            }
            (_, Some(_)) => {
                let other = device.original_replayed_by.filter(|replay| *replay != broadcast.id)?;
                format!("the dead letter was taken up by the replay {other} instead")
            }
            _ => return None,
        };
        Some((DeliveryVerdict::NotInAudience, text))
    }

    fn registered_later(&self) -> Option<Decided> {
        let until = self.broadcast.fan_out_until?;
        let device = &self.device.device;
        (device.id > until).then(|| {
            let text = "the device was registered after the fan-out had begun";
            (DeliveryVerdict::RegisteredLater, format!("{text}, last at {}", at(device.registered_at)))
        })
    }

    /// A short list has no highest device: whether this one was there shows only where it has not been registered since.
    fn registered_perhaps_later(&self) -> Option<Decided> {
        let registered = self.device.device.registered_at;
        let short = self.broadcast.fan_out_until.is_none() && self.broadcast.replay_of.is_none();
        (short && registered > self.broadcast.created_at).then(|| {
            let text = format!(
                "the device was registered last at {}, after the broadcast was accepted; whether it was before is not recorded",
                at(registered)
            );
            (DeliveryVerdict::RegisteredLater, text)
        })
    }

    /// The page with this device was made between acceptance and the end of the fan-out: what stood in the way at either.
    fn not_callable(&self) -> Option<Decided> {
        let moments = [self.fan_out_end(), self.broadcast.created_at];
        let obstacle = moments.into_iter().find_map(|moment| obstacle_at(self.device, moment))?;
        let verdict = match obstacle {
            Obstacle::Retired { .. } => DeliveryVerdict::RetiredBefore,
            Obstacle::Quarantined { .. } => DeliveryVerdict::QuarantinedBefore,
            Obstacle::NoConsent { .. } => DeliveryVerdict::NoConsent,
        };
        Some((verdict, format!("when the broadcast was fanned out, {obstacle}")))
    }

    fn fan_out_end(&self) -> OffsetDateTime {
        let broadcast = self.broadcast;
        if is_fanned_out(broadcast.state) {
            broadcast.fan_out_page_at.unwrap_or(broadcast.created_at)
        } else {
            broadcast.read_at
        }
    }

    fn not_subscribed(&self) -> Option<Decided> {
        let of_topics = self.broadcast.audience == AudienceKind::Topics;
        (of_topics && self.device.device.topics.is_empty()).then(|| {
            let topics = self.broadcast.topics.join(", ");
            let text = "the device is subscribed to none of them; whether it was is not recorded";
            (DeliveryVerdict::NotInAudience, format!("the broadcast was for the topics {topics}, and {text}"))
        })
    }

    fn not_reached(&self) -> Option<Decided> {
        if self.broadcast.is_past(self.device) == Some(true) {
            return None;
        }
        match self.broadcast.state {
            BroadcastState::Delivering | BroadcastState::Completed => None,
            BroadcastState::Cancelling | BroadcastState::Cancelled => {
                let text = "the broadcast was cancelled before its fan-out came to this device";
                Some((DeliveryVerdict::Cancelled, text.to_owned()))
            }
            _ => {
                let text = "the fan-out of the broadcast has not come to this device yet";
                Some((DeliveryVerdict::NotFannedOut, text.to_owned()))
            }
        }
    }
}

/// Whether no page is made any more.
fn is_fanned_out(state: BroadcastState) -> bool {
    matches!(
        state,
        BroadcastState::Delivering
            | BroadcastState::Completed
            | BroadcastState::Cancelling
            | BroadcastState::Cancelled
    )
}
