//! Bounds of the live channel.

use std::time::Duration;

use super::LiveConfig;

/// Events that wait for a client to take them; more stay in the database until there is room.
pub const QUEUE_EVENTS: usize = 64;
/// A client that takes nothing for so long while its queue is full is disconnected.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// How often everybody's inbox is looked at, for what no hint came of; and how often presence is said again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What the hub is told.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub heartbeat: Duration,
    /// Streams at most, and those of one user.
    pub connections: usize,
    pub connections_per_user: usize,
    pub look_every: Duration,
    pub stalled_after: Duration,
}

impl From<&LiveConfig> for Settings {
    fn from(config: &LiveConfig) -> Self {
        Self {
            heartbeat: Duration::from_secs(config.heartbeat_s.into()),
            connections: config.max_connections as usize,
            connections_per_user: config.max_user_connections as usize,
            look_every: LOOK_EVERY,
            stalled_after: STALLED_AFTER,
        }
    }
}
