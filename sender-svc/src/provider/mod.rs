//! Providers: the ways out of Bongsu. A folder member per kind, its adapter, turns a delivery into a call and its answer into
//! an [`Answer`]; what follows from an answer is decided in one place, [`crate::engine::judge`].

pub mod answer;
pub mod apns;
pub mod credentials;
#[cfg(test)]
pub(crate) mod documented;
pub mod fcm;
pub(crate) mod http;
pub mod webhook;
pub mod webpush;

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{BroadcastId, DeviceId, Message, Priority};
use tokio::time::Instant;

pub use answer::{Answer, Trouble};

use apns::Apns;
use fcm::Fcm;
use webhook::Webhook;
use webpush::WebPush;

/// A provider, ready to be called.
#[derive(Debug, Clone)]
pub enum Adapter {
    Webhook(Arc<Webhook>),
    Fcm(Arc<Fcm>),
    Apns(Arc<Apns>),
    WebPush(Arc<WebPush>),
}

/// What is told, the same for every device.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'a> {
    /// The id under which providers and devices know it.
    pub origin: BroadcastId,
    pub message: &'a Message,
    pub priority: Priority,
}

/// A broadcast in the form that a provider takes: what its calls have in common is made once.
#[derive(Debug)]
pub enum Prepared {
    Webhook(Arc<Webhook>, webhook::Content),
    Fcm(Arc<Fcm>, fcm::Content),
    Apns(Arc<Apns>, apns::Content),
    WebPush(Arc<WebPush>, webpush::Content),
}

/// One delivery to one device.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// It begins now.
    pub now: Instant,
    pub origin: BroadcastId,
    pub device: DeviceId,
    pub token: &'a str,
    /// Until the broadcast expires.
    pub time_left: Duration,
    /// Of a call with a span, the traceparent that a receiver of our own is told.
    pub trace: Option<&'a str>,
}

impl Call<'_> {
    /// The same for every attempt, and for no other delivery.
    pub fn delivery_key(&self) -> String {
        format!("{}-{}", self.origin, self.device)
    }
}

impl Adapter {
    pub fn prepare(&self, brief: Brief<'_>) -> Prepared {
        match self {
            Self::Webhook(webhook) => Prepared::Webhook(Arc::clone(webhook), webhook.prepare(brief)),
            Self::Fcm(fcm) => Prepared::Fcm(Arc::clone(fcm), fcm.prepare(brief)),
            Self::Apns(apns) => Prepared::Apns(Arc::clone(apns), apns.prepare(brief)),
            Self::WebPush(push) => Prepared::WebPush(Arc::clone(push), push.prepare(brief)),
        }
    }
}

impl Prepared {
    /// Makes one call. Never longer than the provider's time-out, whatever the other side does.
    pub async fn call(&self, call: Call<'_>) -> Answer {
        match self {
            // The others are boxed: their state is larger, and would be part of that of every call.
            Self::Webhook(webhook, content) => webhook.call(call, content).await,
            Self::Fcm(fcm, content) => Box::pin(fcm.call(call, content)).await,
            Self::Apns(apns, content) => Box::pin(apns.call(call, content)).await,
            Self::WebPush(push, content) => Box::pin(push.call(call, content)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delivery_key_tells_deliveries_apart() {
        let key = |origin, device| {
            let (origin, device) = (BroadcastId(origin), DeviceId(device));
            Call { now: Instant::now(), origin, device, token: "", time_left: Duration::ZERO, trace: None }
                .delivery_key()
        };
        assert_eq!(key(12, 3), "12-3");
        assert_ne!(key(1, 23), key(12, 3));
    }
}
