//! Why a device could not be called at some moment: from its row, which is of now, and what happened to it since.

use std::fmt;

use bongsu_store::{DeviceEventKind, ExplainedDevice, RetireReason};
use time::OffsetDateTime;

use super::words::at;

/// What stood in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    Retired {
        since: OffsetDateTime,
        reason: &'static str,
    },
    Quarantined {
        since: OffsetDateTime,
        code: String,
    },
    /// Since when, where that is recorded.
    NoConsent {
        since: Option<OffsetDateTime>,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retired { since, reason } => {
                write!(f, "the device had been retired since {} ({reason})", at(*since))
            }
            Self::Quarantined { since, code } => {
                write!(f, "the device had been quarantined since {} ({code})", at(*since))
            }
            Self::NoConsent { since: Some(since) } => {
                write!(f, "there was no consent: it had been withdrawn at {}", at(*since))
            }
            Self::NoConsent { since: None } => f.write_str("there was no consent, as far as is recorded"),
        }
    }
}

/// What stood in the way of calling the device at that moment, as far as is recorded.
pub(super) fn obstacle_at(device: &ExplainedDevice, moment: OffsetDateTime) -> Option<Obstacle> {
    retired(device, moment).or_else(|| quarantined(device, moment)).or_else(|| no_consent(device, moment))
}

fn retired(device: &ExplainedDevice, moment: OffsetDateTime) -> Option<Obstacle> {
    let now = &device.device;
    if let Some(since) = now.retired_at.filter(|since| *since <= moment) {
        let reason = match now.retire_reason {
            Some(RetireReason::Requested) => "it was unregistered",
            Some(RetireReason::Replaced) => "its token or installation was registered anew",
            Some(RetireReason::Unregistered) | None => "its provider said that the token is gone",
        };
        return Some(Obstacle::Retired { since, reason });
    }
    let (since, _) = ended(device, moment, &[DeviceEventKind::RetirementUndone])?;
    Some(Obstacle::Retired { since, reason: "its provider said that the token is gone; undone since" })
}

fn quarantined(device: &ExplainedDevice, moment: OffsetDateTime) -> Option<Obstacle> {
    let now = &device.device;
    if let Some(since) = now.quarantined_at.filter(|since| *since <= moment) {
        return Some(Obstacle::Quarantined { since, code: now.quarantine_code.clone().unwrap_or_default() });
    }
    let kinds = [DeviceEventKind::QuarantineEnded, DeviceEventKind::QuarantineUndone];
    let (since, code) = ended(device, moment, &kinds)?;
    Some(Obstacle::Quarantined { since, code })
}

/// What had begun by that moment, and ended after it.
fn ended(
    device: &ExplainedDevice,
    moment: OffsetDateTime,
    kinds: &[DeviceEventKind],
) -> Option<(OffsetDateTime, String)> {
    device.events.iter().filter(|event| kinds.contains(&event.kind) && event.at > moment).find_map(|event| {
        let since = event.since.filter(|since| *since <= moment)?;
        Some((since, event.code.clone().unwrap_or_default()))
    })
}

/// Consent changes are told one by one, so before the first change after that moment it was the opposite, and without one it was as
/// it is.
fn no_consent(device: &ExplainedDevice, moment: OffsetDateTime) -> Option<Obstacle> {
    let changes = || {
        device.events.iter().filter_map(|event| match event.kind {
            DeviceEventKind::ConsentGiven => Some((event.at, true)),
            DeviceEventKind::ConsentWithdrawn => Some((event.at, false)),
            _ => None,
        })
    };
    let after = changes().find(|(at, _)| *at > moment);
    let consent = after.map_or(device.device.consent, |(_, given)| !given);
    let withdrawn = changes().filter(|(at, given)| *at <= moment && !given).map(|(at, _)| at).next_back();
    (!consent).then_some(Obstacle::NoConsent { since: withdrawn })
}
