//! The devices of a benchmark and what they are told, alike for the product and for the bare loop.

use std::net::SocketAddr;

use bongsu_proto::v1;
use bongsu_proto::v1::audience::Kind;
use bongsu_store::ProviderKind;

use super::provider::Provider;
use crate::client::Client;
use crate::error::Failure;
use crate::stack::PROVIDER;

pub const TITLE: &str = "봉수";
pub const BODY: &str = "남산에 불이 올랐습니다";
/// Any odd number whose multiples are spread over all numbers.
pub const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Rows in one message of the import.
const CHUNK: usize = 5_000;

pub fn token(n: u64) -> String {
    format!("device-{n}")
}

/// What devices are registered with.
#[derive(Clone, Debug)]
pub enum Tokens {
    /// Any text.
    Plain,
    /// The digits of it.
    Hex,
    /// Browsers that have one pair of keys: push resources below this address, with these keys.
    Browsers { resources: String, keys: serde_json::Value },
}

impl Tokens {
    /// As a kind of provider has them at the simulator.
    pub async fn new(kind: ProviderKind, provider: &Provider, address: SocketAddr) -> anyhow::Result<Self> {
        Ok(match kind {
            ProviderKind::Webhook | ProviderKind::Fcm => Self::Plain,
            ProviderKind::Apns => Self::Hex,
            ProviderKind::WebPush => {
                let subscription = provider.web_push_subscription("any").await?;
                let resources = format!("https://{address}/webpush/");
                Self::Browsers { resources, keys: subscription["keys"].clone() }
            }
        })
    }

    fn token(&self, n: u64) -> String {
        match self {
            Self::Plain => token(n),
            // As long as most are, 32 bytes.
            Self::Hex => format!("{:0<64}", token(n).bytes().map(|b| format!("{b:02x}")).collect::<String>()),
            Self::Browsers { resources, keys } => {
                serde_json::json!({ "endpoint": format!("{resources}{}", token(n)), "keys": keys })
                    .to_string()
            }
        }
    }
}

pub fn user(n: u64) -> String {
    format!("user-{n}")
}

/// Registers so many devices, each of a user of its own, with these topics.
pub async fn import(intake: &Client, devices: u64, topics: &[&str], tokens: &Tokens) -> Result<(), Failure> {
    let topics: Vec<String> = topics.iter().map(ToString::to_string).collect();
    let tokens = tokens.clone();
    let device = move |n| v1::DeviceRegistration {
        user_id: user(n),
        provider: PROVIDER.to_owned(),
        token: tokens.token(n),
        topics: topics.clone(),
        ..Default::default()
    };
    let chunks = (0..devices).step_by(CHUNK).map(move |first| {
        let last = devices.min(first + CHUNK as u64);
        v1::ImportDevicesRequest { registrations: (first..last).map(&device).collect() }
    });
    // Not under the client's time-out: a million devices take longer than a call may.
    let report = intake.devices().import_devices(tokio_stream::iter(chunks)).await;
    let report = report.map_err(|status| intake.failed(status))?.into_inner();
    if report.rejected > 0 {
        let first = report.errors.first();
        return Err(anyhow::anyhow!("{} devices were rejected: {first:?}", report.rejected).into());
    }
    Ok(())
}

pub fn everyone() -> Kind {
    Kind::Everyone(v1::EveryoneAudience {})
}

/// One of the imported devices, by its user.
pub fn one_user(n: u64) -> Kind {
    Kind::Users(v1::UserAudience { user_ids: vec![user(n)] })
}

pub fn topic(topic: &str) -> Kind {
    Kind::Topics(v1::TopicAudience { topics: vec![topic.to_owned()] })
}

/// So many of the imported devices, by their users, in no order.
pub fn some_users(devices: u64, count: u64) -> Kind {
    Kind::Users(v1::UserAudience { user_ids: spread(devices, count).into_iter().map(user).collect() })
}

/// So many of the imported devices, in no order. Their ids are those of a fresh database, from 1 on.
pub fn some_devices(devices: u64, count: u64) -> Kind {
    let device_ids = spread(devices, count).into_iter().map(|n| n.cast_signed() + 1).collect();
    Kind::Devices(v1::DeviceAudience { device_ids })
}

/// Numbers below `of`, evenly spread, shuffled.
fn spread(of: u64, count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).map(|n| n * of / count).collect();
    numbers.sort_by_key(|n| n.wrapping_mul(SPREAD));
    numbers
}

/// A broadcast that has not been asked for before.
pub fn request(audience: Kind) -> v1::CreateBroadcastRequest {
    v1::CreateBroadcastRequest {
        idempotency_key: uuid::Uuid::new_v4().to_string(),
        title: TITLE.to_owned(),
        body: BODY.to_owned(),
        audience: Some(v1::Audience { kind: Some(audience) }),
        ..Default::default()
    }
}

/// The same to inboxes and live streams alone.
pub fn live_request(audience: Kind) -> v1::CreateBroadcastRequest {
    v1::CreateBroadcastRequest { routing: v1::Routing::Live.into(), ..request(audience) }
}
