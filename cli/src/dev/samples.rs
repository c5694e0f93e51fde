//! A few devices to send to, some of which the simulator treats badly by the beginning of their tokens.

use std::time::Duration;

use bongsu_proto::v1;

use crate::client::{Address, Client};
use crate::error::Failure;
use crate::stack::{PROVIDER, Stack};

/// Whose live notifications can be looked at.
pub const LIVE_USER: &str = "minji";

/// User, token, topics.
const DEVICES: [(&str, &str, &[&str]); 7] = [
    (LIVE_USER, "minji-phone", &["news", "weather"]),
    (LIVE_USER, "minji-tablet", &["news"]),
    ("joon", "joon-phone", &["weather"]),
    ("alice", "alice-phone", &["news"]),
    ("bob", "throttled-bob", &["news"]), // answered 429 once, then accepted
    ("carol", "expired-carol", &["news"]), // 410: a dead letter, and the device is retired
    ("dave", "rejected-dave", &["weather"]), // 400: a dead letter
];

/// Registers them; a database that has them already stays as it is.
pub async fn register(stack: &Stack, timeout: Duration) -> Result<(), Failure> {
    let address: Address = stack.intake.url().parse().map_err(anyhow::Error::msg)?;
    let client = Client::connect(&address, timeout, "it has just been started: see its log").await?;
    for (user, token, topics) in DEVICES {
        let registration = v1::DeviceRegistration {
            user_id: user.to_owned(),
            provider: PROVIDER.to_owned(),
            token: token.to_owned(),
            installation_id: String::new(),
            consent: None,
            topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
        };
        let request = v1::RegisterDeviceRequest { registration: Some(registration) };
        client.call("register a device", client.devices().register_device(request)).await?;
    }
    Ok(())
}
