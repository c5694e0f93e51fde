//! What decided: from what is stored to one verdict and one sentence. Pure, so that each sentence can be read and tested here.

use bongsu_proto::v1::DeliveryVerdict;
use bongsu_store::{
    BroadcastState, DeadReason, DeliveryState, DeviceEventKind, ExplainedBroadcast, ExplainedDelivery,
    ExplainedDevice, LetterFacts, ProviderInfo,
};

use super::live;
use super::obstacle::obstacle_at;
use super::words::{at, call, failed, state_word};

/// A verdict with its sentence.
pub(super) type Decided = (DeliveryVerdict, String);

/// A device's part of a broadcast, and the provider as it is now.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub broadcast: &'a ExplainedBroadcast,
    pub device: &'a ExplainedDevice,
    pub provider: Option<&'a ProviderInfo>,
}

impl Case<'_> {
    pub(super) fn decide(&self) -> Decided {
        match (&self.device.delivery, &self.device.dead_letter) {
            (Some(delivery), None) => self.alive(delivery),
            (_, Some(letter)) => self.dead(letter),
            (None, None) => self.missing(),
        }
    }

    fn name(&self) -> &str {
        &self.device.device.provider
    }

    /// There is a delivery, and it did not die.
    fn alive(&self, delivery: &ExplainedDelivery) -> Decided {
        let name = self.name();
        let settled = at(delivery.settled_at.unwrap_or(self.broadcast.read_at));
        let calls = call(live::calls(self, delivery.attempts, true));
        match delivery.state {
            DeliveryState::Sent => (
                DeliveryVerdict::Sent,
                format!(
                    "{name} accepted it at {settled} on {calls}; whether the device showed it is not known here"
                ),
            ),
            DeliveryState::Pending => self.pending(delivery),
            DeliveryState::Sending => (
                DeliveryVerdict::Sending,
                format!("{name} is being called; sent at most once, it is never called again"),
            ),
            DeliveryState::Expired => {
                let expired = at(self.broadcast.expires_at);
                let rest = match (&delivery.last_code, live::calls(self, delivery.attempts, false)) {
                    (_, 0) => "its turn for a first call had not come".to_owned(),
                    (Some(code), n) => format!("{} was the last, {}", call(n), failed(name, code, "")),
                    (None, n) => format!("{} was the last", call(n)),
                };
                (
                    DeliveryVerdict::Expired,
                    format!("the broadcast expired at {expired} before {name} accepted it: {rest}"),
                )
            }
            DeliveryState::Cancelled => (
                DeliveryVerdict::Cancelled,
                format!(
                    "the broadcast was cancelled before {name} accepted it; this was settled at {settled}"
                ),
            ),
            DeliveryState::Skipped if live::was_seen(delivery) => live::seen(self.device),
            DeliveryState::Skipped => {
                let moment = delivery.settled_at.unwrap_or(self.broadcast.read_at);
                let why = obstacle_at(self.device, moment).map_or_else(
                    || "the device could not be called, and nothing that is recorded says why".to_owned(),
                    |obstacle| obstacle.to_string(),
                );
                (DeliveryVerdict::Skipped, format!("when its turn came at {settled}, {why}"))
            }
            // Their dead letters are kept for longer than they are.
            DeliveryState::Dead | DeliveryState::Unconfirmed => (
                DeliveryVerdict::Unknown,
                format!("it ended at {settled} on {calls}, and its dead letter is not kept any more"),
            ),
        }
    }

    fn pending(&self, delivery: &ExplainedDelivery) -> Decided {
        let (name, broadcast) = (self.name(), self.broadcast);
        if broadcast.state == BroadcastState::Cancelling {
            return (
                DeliveryVerdict::Cancelled,
                "the broadcast is being cancelled: it will not be sent".to_owned(),
            );
        }
        if broadcast.expires_at <= broadcast.read_at {
            let expired = at(broadcast.expires_at);
            return (
                DeliveryVerdict::Expired,
                format!("the broadcast expired at {expired}: it will not be sent"),
            );
        }
        if broadcast.paused {
            return (
                DeliveryVerdict::Paused,
                "the broadcast is paused: it waits until that is resumed".to_owned(),
            );
        }
        if let Some((since, provider)) = self.provider.and_then(|p| p.parked_since.map(|since| (since, p))) {
            let code = provider.parked_code.as_deref().unwrap_or_default();
            let why = if provider.doubted {
                "is not believed, since it called implausibly many tokens gone,"
            } else {
                "fails as a whole"
            };
            let text =
                format!("{name} {why} since {} ({code}): it waits, and uses up no attempts", at(since));
            return (DeliveryVerdict::ProviderParked, text);
        }
        let held = self.provider.and_then(|p| p.held_until).filter(|until| *until > broadcast.read_at);
        if let Some(until) = held {
            let text = format!("{name} asked not to be called until {}: it waits", at(until));
            return (DeliveryVerdict::ProviderHeld, text);
        }
        if live::waits(delivery) {
            return live::waiting(self, delivery);
        }
        match (live::calls(self, delivery.attempts, false), delivery.next_attempt_at) {
            (0, _) => {
                (DeliveryVerdict::Waiting, format!("it waits in the queue of {name} for its first call"))
            }
            (calls, next) => {
                let code = delivery.last_code.as_deref().unwrap_or("unknown");
                let last = self.device.failures.last().filter(|f| f.attempt == delivery.attempts);
                let detail = last.map_or("", |failure| &failure.detail);
                let when = last.map_or(String::new(), |failure| format!(" at {}", at(failure.at)));
                let next = next.map_or(String::new(), |next| format!(" is due at {}", at(next)));
                let text =
                    format!("{}{when} on {}; the next one{next}", failed(name, code, detail), call(calls));
                (DeliveryVerdict::Retrying, text)
            }
        }
    }

    /// It died, and so has a dead letter, which outlives it.
    fn dead(&self, letter: &LetterFacts) -> Decided {
        let (name, died) = (self.name(), at(letter.created_at));
        let call = call(live::calls(self, letter.attempts, true));
        let said = failed(name, &letter.code, &letter.detail);
        let (verdict, text) = match letter.reason {
            DeadReason::Unregistered => (
                DeliveryVerdict::Unregistered,
                format!("{said} at {died} on {call}; {}", self.after_unregistered(letter)),
            ),
            DeadReason::Rejected => {
                (DeliveryVerdict::Rejected, format!("{said} at {died} on {call}; {}", self.after_rejected()))
            }
            DeadReason::AttemptsExhausted => (
                DeliveryVerdict::AttemptsExhausted,
                format!("{said} at {died} on {call}, the last of the attempts; it can be replayed"),
            ),
            DeadReason::Unconfirmed => (
                DeliveryVerdict::Unconfirmed,
                format!(
                    "{said} at {died} on {call}: {name} may have accepted it, and sent at most once it is not called again"
                ),
            ),
        };
        self.after_replays(verdict, text)
    }

    fn after_replays(&self, verdict: DeliveryVerdict, text: String) -> Decided {
        let Some(last) = self.device.replays.last() else { return (verdict, text) };
        let id = last.broadcast;
        match &last.delivery {
            Some(d) if d.state == DeliveryState::Sent => {
                let sent = d.settled_at.map_or(String::new(), |sent| format!(" at {}", at(sent)));
                (DeliveryVerdict::SentByReplay, format!("{text}; the replay {id} was accepted{sent}"))
            }
            Some(d) => {
                (verdict, format!("{text}; the replay {id} took it up, where it is {}", state_word(d.state)))
            }
            None if last.state.is_final() => (
                verdict,
                format!("{text}; the replay {id} took it up, and how that ended is not kept any more"),
            ),
            None => (verdict, format!("{text}; the replay {id} is taking it up")),
        }
    }

    fn after_unregistered(&self, letter: &LetterFacts) -> String {
        let device = &self.device.device;
        let undone = self.device.events.iter().rev().find(|event| {
            event.kind == DeviceEventKind::RetirementUndone && event.broadcast == Some(self.broadcast.id)
        });
        match (device.retired_at, undone) {
            (Some(_), _) if device.retired_by == Some(self.broadcast.id) => {
                "the device was retired, and nothing is tried again until it registers".to_owned()
            }
            (Some(retired), _) => format!("the device is retired since {}", at(retired)),
            (None, Some(event)) => format!("the device was retired for it, and restored at {}", at(event.at)),
            (None, None) if device.registered_at > letter.created_at => {
                format!("the device has registered again at {}: it can be replayed", at(device.registered_at))
            }
            (None, None) => "the device was not retired for it, or is not yet".to_owned(),
        }
    }

    fn after_rejected(&self) -> String {
        let (device, id) = (&self.device.device, Some(self.broadcast.id));
        let ended = self.device.events.iter().rev().find(|e| e.since.is_some() && e.broadcast == id);
        match (device.quarantined_at, ended) {
            (Some(since), _) if device.quarantined_by == id => format!(
                "the device is quarantined since {}, and not called until it registers again or is restored",
                at(since)
            ),
            (_, Some(event)) => format!("the device was put aside for it until {}", at(event.at)),
            _ => "the device is left as it is, and it can be replayed".to_owned(),
        }
    }
}
