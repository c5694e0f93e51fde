//! Bounds of the live channel.

use std::time::Duration;

use super::LiveConfig;
use super::config::DEFAULT_MAX_CONNECTIONS;
use super::listener::SPARE_CONNECTIONS;

/// Events that wait for a client to take them; more stay in the database until there is room.
pub const QUEUE_EVENTS: usize = 64;
/// A client that takes nothing for so long while its queue is full is disconnected.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// How often everybody's inbox is looked at, for what no hint came of; and how often presence is said again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Worth a warning to who asked for more than the default.
const FEW_FILES: &str = "the system allows fewer open files than --live-max-connections (BONGSU_LIVE_MAX_CONNECTIONS) needs: raise the \
    hard limit (`ulimit -Hn`, LimitNOFILE= of systemd, --ulimit nofile= of Docker), or ask for fewer";

/// What the hub is told.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub heartbeat: Duration,
    /// Streams at most, connections beside theirs, and streams of one user.
    pub connections: usize,
    pub spare_connections: usize,
    pub connections_per_user: usize,
    pub look_every: Duration,
    pub stalled_after: Duration,
}

impl Settings {
    /// Open files for all connections that `config` asks for.
    pub fn files(config: &LiveConfig) -> u64 {
        u64::from(config.max_connections) + SPARE_CONNECTIONS as u64
    }

    /// With so many open files: where they are fewer than [`Settings::files`], there are fewer streams. One more would take the file
    /// that a call to a provider needs.
    pub fn new(config: &LiveConfig, files: u64) -> Self {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let spare_connections = SPARE_CONNECTIONS.min(files / 4);
        let connections = (config.max_connections as usize).min(files - spare_connections).max(1);
        if connections < config.max_connections as usize {
            if config.max_connections == DEFAULT_MAX_CONNECTIONS {
                tracing::info!(streams = connections, "{FEW_FILES}");
            } else {
                tracing::warn!(streams = connections, asked = config.max_connections, "{FEW_FILES}");
            }
        }
        Self {
            heartbeat: Duration::from_secs(config.heartbeat_s.into()),
            connections,
            spare_connections,
            connections_per_user: config.max_user_connections as usize,
            look_every: LOOK_EVERY,
            stalled_after: STALLED_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_streams_as_asked_for_or_as_open_files_allow() {
        let config = LiveConfig { max_connections: 5_000, ..LiveConfig::default() };
        let streams = |files| {
            let settings = Settings::new(&config, files);
            let all = (settings.connections + settings.spare_connections) as u64;
            assert!(files == 0 || all <= files);
            settings.connections
        };
        assert_eq!(streams(Settings::files(&config)), 5_000);
        assert_eq!(streams(5_999), 4_999);
        assert_eq!(streams(1_024), 768);
        assert_eq!(streams(0), 1);
        assert_eq!(Settings::new(&config, u64::MAX).connections, 5_000);
    }
}
