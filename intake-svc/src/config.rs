//! What the intake is started with: read once, checked whole.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bongsu_live::LiveArgs;
use bongsu_ops::access::AccessArgs;
use bongsu_ops::database_url::DatabaseUrl;
use bongsu_ops::telemetry::{LogFormat, TelemetryArgs};
use bongsu_ops::trace::TraceArgs;
use bongsu_store::{
    DEFAULT_HISTORY_DAYS, DEFAULT_INBOX_DAYS, DEFAULT_RETENTION_DAYS, MOST_HISTORY_DAYS, MOST_RETENTION_DAYS,
};

use crate::retention::Retention;

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7070);
const DEFAULT_ADMIN_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7071);
const DEFAULT_DATABASE_CONNECTIONS: u32 = 16;
const DEFAULT_DATABASE_PATIENCE_S: u32 = 30;
const DEFAULT_DRAIN_GRACE_S: u32 = 10;
const DEFAULT_MAX_MESSAGE_BYTES: u32 = 16 * 1024 * 1024;
const DEFAULT_MAX_CALLS: u32 = 512;
const DEFAULT_FAN_OUT_WORKERS: u32 = 2;

/// Configuration of one intake.
// No argument group: it would be called `Config` and clash with every other `Config` flattened into one command.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Config {
    /// Address to serve gRPC on; port 0 takes a free one
    #[arg(long, env = "BONGSU_INTAKE_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_LISTEN)]
    pub listen: SocketAddr,

    /// Address to serve /live, /ready and /metrics on
    // Global, so that `healthcheck` takes it too.
    #[arg(long, global = true, env = "BONGSU_INTAKE_ADMIN_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_ADMIN_LISTEN)]
    pub admin_listen: SocketAddr,

    /// Where Postgres is: postgres://user:password@host:5432/database (better given in the environment: a command line
    /// can be read by every user of the host)
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<DatabaseUrl>,

    /// Connections to Postgres at most; what accepts short lists has two of its own
    #[arg(long, env = "BONGSU_INTAKE_DATABASE_CONNECTIONS", value_name = "N",
          default_value_t = DEFAULT_DATABASE_CONNECTIONS)]
    pub database_connections: u32,

    /// How many seconds to wait for Postgres at the start before giving up
    #[arg(long, env = "BONGSU_DATABASE_PATIENCE_S", value_name = "SECONDS",
          default_value_t = DEFAULT_DATABASE_PATIENCE_S)]
    pub database_patience_s: u32,

    /// Bring the schema up to date at the start
    #[arg(long, env = "BONGSU_MIGRATE")]
    pub migrate: bool,

    /// How many seconds calls in flight may take to end after SIGTERM
    #[arg(long, env = "BONGSU_DRAIN_GRACE_S", value_name = "SECONDS", default_value_t = DEFAULT_DRAIN_GRACE_S)]
    pub drain_grace_s: u32,

    /// The largest request message accepted, in bytes
    #[arg(long, env = "BONGSU_INTAKE_MAX_MESSAGE_BYTES", value_name = "BYTES",
          default_value_t = DEFAULT_MAX_MESSAGE_BYTES)]
    pub max_message_bytes: u32,

    /// Calls worked on at a time; one more is refused with RESOURCE_EXHAUSTED
    #[arg(long, env = "BONGSU_INTAKE_MAX_CALLS", value_name = "N", default_value_t = DEFAULT_MAX_CALLS)]
    pub max_calls: u32,

    /// Broadcasts turned into deliveries at a time by this process
    #[arg(long, env = "BONGSU_INTAKE_FAN_OUT_WORKERS", value_name = "N",
          default_value_t = DEFAULT_FAN_OUT_WORKERS)]
    pub fan_out_workers: u32,

    /// Days for which deliveries are kept after their broadcast's day, which goes as a whole once all its broadcasts are
    /// final; 0: for ever. Each day kept makes every delivery a little dearer
    #[arg(long, env = "BONGSU_RETENTION_DAYS", value_name = "DAYS", default_value_t = DEFAULT_RETENTION_DAYS)]
    pub retention_days: u32,

    /// Days for which broadcasts are kept without their deliveries: counts, dead letters, idempotency keys; 0: for ever
    #[arg(long, env = "BONGSU_HISTORY_DAYS", value_name = "DAYS", default_value_t = DEFAULT_HISTORY_DAYS)]
    pub history_days: u32,

    /// Days for which notifications stay in the inboxes of users; 0: as long as broadcasts are kept, which is also the most
    #[arg(long, env = "BONGSU_INBOX_DAYS", value_name = "DAYS", default_value_t = DEFAULT_INBOX_DAYS)]
    pub inbox_days: u32,

    #[command(flatten)]
    pub live: LiveArgs,

    #[command(flatten)]
    pub access: AccessArgs,

    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

impl Config {
    /// All defaults, at this database. For tests and programs that hold the service.
    pub fn at_database(url: &str) -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            admin_listen: DEFAULT_ADMIN_LISTEN,
            database_url: url.parse().ok(), // never fails
            database_connections: DEFAULT_DATABASE_CONNECTIONS,
            database_patience_s: DEFAULT_DATABASE_PATIENCE_S,
            migrate: false,
            drain_grace_s: DEFAULT_DRAIN_GRACE_S,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            max_calls: DEFAULT_MAX_CALLS,
            fan_out_workers: DEFAULT_FAN_OUT_WORKERS,
            retention_days: DEFAULT_RETENTION_DAYS,
            history_days: DEFAULT_HISTORY_DAYS,
            inbox_days: DEFAULT_INBOX_DAYS,
            live: LiveArgs::default(),
            access: AccessArgs::default(),
            telemetry: TelemetryArgs {
                log_format: LogFormat::Text,
                log: "info".into(),
                trace: TraceArgs::default(),
            },
        }
    }

    /// Checks all settings together and returns the database's URL.
    ///
    /// # Errors
    ///
    /// One error with a line per problem: which setting, what it is, and what to do.
    pub fn validate(&self) -> anyhow::Result<&DatabaseUrl> {
        let mut problems = Vec::new();
        let problem = DatabaseUrl::problem(self.database_url.as_ref());
        problems.extend(problem.map(str::to_owned));
        let ranges = [
            (
                "--database-connections (BONGSU_INTAKE_DATABASE_CONNECTIONS)",
                self.database_connections,
                2,
                500,
            ),
            ("--database-patience-s (BONGSU_DATABASE_PATIENCE_S)", self.database_patience_s, 1, 3600),
            ("--drain-grace-s (BONGSU_DRAIN_GRACE_S)", self.drain_grace_s, 0, 3600),
            (
                "--max-message-bytes (BONGSU_INTAKE_MAX_MESSAGE_BYTES)",
                self.max_message_bytes,
                65_536,
                1 << 30,
            ),
            ("--max-calls (BONGSU_INTAKE_MAX_CALLS)", self.max_calls, 1, 100_000),
            ("--fan-out-workers (BONGSU_INTAKE_FAN_OUT_WORKERS)", self.fan_out_workers, 0, 64),
            ("--retention-days (BONGSU_RETENTION_DAYS)", self.retention_days, 0, MOST_RETENTION_DAYS),
            ("--history-days (BONGSU_HISTORY_DAYS)", self.history_days, 0, MOST_HISTORY_DAYS),
            ("--inbox-days (BONGSU_INBOX_DAYS)", self.inbox_days, 0, MOST_HISTORY_DAYS),
        ];
        for (setting, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                problems.push(format!("{setting} is {value}: give it {least} to {most}"));
            }
        }
        if self.fan_out_workers >= self.database_connections {
            problems.push(format!(
                "--fan-out-workers (BONGSU_INTAKE_FAN_OUT_WORKERS) is {}, which leaves calls none of the {} connections: \
                 give --database-connections (BONGSU_INTAKE_DATABASE_CONNECTIONS) more",
                self.fan_out_workers, self.database_connections,
            ));
        }
        if self.history_days > 0 && self.history_days < self.retention_days {
            problems.push(format!(
                "--history-days (BONGSU_HISTORY_DAYS) is {}, and deliveries are kept for {}: broadcasts outlive them, so give                  it at least --retention-days (BONGSU_RETENTION_DAYS)",
                self.history_days, self.retention_days,
            ));
        }
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            problems.push(format!(
                "--listen (BONGSU_INTAKE_LISTEN) and --admin-listen (BONGSU_INTAKE_ADMIN_LISTEN) are both {}: give one \
                 of them another port",
                self.listen,
            ));
        }
        problems.extend(self.access.problems(self.listen, "--listen (BONGSU_INTAKE_LISTEN)"));
        problems.extend(self.telemetry.trace.problem());
        match &self.database_url {
            Some(url) if problems.is_empty() => Ok(url),
            _ => anyhow::bail!("the configuration is wrong:\n  {}", problems.join("\n  ")),
        }
    }

    pub(crate) fn database_patience(&self) -> Duration {
        Duration::from_secs(self.database_patience_s.into())
    }

    pub(crate) fn retention(&self) -> Retention {
        Retention { deliveries: self.retention_days, history: self.history_days, inbox: self.inbox_days }
    }

    pub(crate) fn drain_grace(&self) -> Duration {
        Duration::from_secs(self.drain_grace_s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_at_once_and_the_url_is_not_shown() {
        let mut config = Config::at_database("mysql://root:hunter2@db/x");
        config.database_connections = 1;
        config.fan_out_workers = 65;
        config.history_days = 13;
        config.admin_listen = config.listen;
        let error = config.validate().expect_err("six problems").to_string();
        assert_eq!(error.lines().count(), 7, "{error}");
        for part in [
            "BONGSU_DATABASE_URL",
            "--database-connections",
            "--fan-out-workers",
            "--history-days",
            "127.0.0.1:7070",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("hunter2") && !format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn the_defaults_need_only_a_database() {
        let url = "postgres://localhost/bongsu";
        assert_eq!(Config::at_database(url).validate().expect("valid").expose(), url);
    }
}
