//! What a sender is started with: read once, checked whole.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_ops::database_url::DatabaseUrl;
use bongsu_ops::telemetry::{LogFormat, TelemetryArgs};

use crate::engine::judge::RetrySchedule;
use crate::engine::{LEASE_MARGIN, Limits};
use crate::provider::webhook::Endpoint;

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7080);
const DEFAULT_ADMIN_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7081);
/// Beside the calls under way, answers that wait for their flush.
const UNRECORDED_SPARE: u32 = 2_000;
/// A lease is renewed this many times before calls under it have to stop.
const RENEWALS: u32 = 2;
/// Leases are renewed every fifth of their length, but never more seldom than this: it is also how long a sender leaves
/// others' work alone after Postgres was away.
const RENEW_AT_LEAST_EVERY: Duration = Duration::from_secs(4);

/// Configuration of one sender.
// No argument group: it would be called `Config` and clash with every other `Config` flattened into one command.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Config {
    /// Address to serve gRPC on; port 0 takes a free one
    #[arg(long, env = "BONGSU_SENDER_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_LISTEN)]
    pub listen: SocketAddr,

    /// Address to serve /live, /ready and /metrics on
    #[arg(long, env = "BONGSU_SENDER_ADMIN_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_ADMIN_LISTEN)]
    pub admin_listen: SocketAddr,

    /// Where Postgres is: postgres://user:password@host:5432/database (better given in the environment: a command line
    /// can be read by every user of the host). A direct connection: behind a pooler in transaction mode the session
    /// settings and the lock that shows this sender alive do not hold
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<DatabaseUrl>,

    /// Connections to Postgres for status and sweeps at most; claims, flushes and heartbeats have three of their own
    #[arg(long, env = "BONGSU_SENDER_DATABASE_CONNECTIONS", value_name = "N", default_value_t = 5)]
    pub database_connections: u32,

    /// How many seconds to wait for Postgres at the start before giving up
    #[arg(long, env = "BONGSU_DATABASE_PATIENCE_S", value_name = "SECONDS", default_value_t = 30)]
    pub database_patience_s: u32,

    /// Bring the schema up to date at the start
    #[arg(long, env = "BONGSU_MIGRATE")]
    pub migrate: bool,

    /// A webhook provider under a name; repeat it, or separate several by commas. Each delivery is one POST of JSON.
    /// https:// negotiates HTTP/2, http:// is HTTP/1.1, h2c:// is HTTP/2 without TLS
    #[arg(
        long = "webhook",
        env = "BONGSU_WEBHOOKS",
        value_name = "NAME=URL",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub webhooks: Vec<WebhookArg>,

    /// Calls under way to each provider at most
    #[arg(long, env = "BONGSU_IN_FLIGHT", value_name = "N", default_value_t = 512)]
    pub in_flight: u32,

    /// Calls started and not yet recorded, over all providers, at most: as many can be made again after a crash [default:
    /// what is under way to all providers, and 2000]
    #[arg(long, env = "BONGSU_UNRECORDED", value_name = "N")]
    pub unrecorded: Option<u32>,

    /// How long one call may take, in milliseconds
    #[arg(long, env = "BONGSU_CALL_TIMEOUT_MS", value_name = "MS", default_value_t = 10_000)]
    pub call_timeout_ms: u64,

    /// How long a claimed batch is this sender's unless renewed, in milliseconds. Work of a host that vanished resumes
    /// elsewhere after this
    #[arg(long, env = "BONGSU_LEASE_MS", value_name = "MS", default_value_t = 20_000)]
    pub lease_ms: u64,

    /// Delay before the second attempt, in milliseconds
    #[arg(long, env = "BONGSU_RETRY_INITIAL_MS", value_name = "MS", default_value_t = 2_000)]
    pub retry_initial_ms: u64,

    /// Each further delay is this many times the one before
    #[arg(long, env = "BONGSU_RETRY_FACTOR", value_name = "X", default_value_t = 3.0)]
    pub retry_factor: f64,

    /// Attempts that may fail before a delivery is a dead letter
    #[arg(long, env = "BONGSU_MAX_ATTEMPTS", value_name = "N", default_value_t = 4)]
    pub max_attempts: u32,

    /// Never find that a provider fails as a whole: its deliveries use up their attempts, outage or not. For providers whose
    /// answers are mostly those of many unrelated receivers
    #[arg(long, env = "BONGSU_NEVER_PARK")]
    pub never_park: bool,

    /// How many seconds beside the longest call a stop may take after SIGTERM
    #[arg(long, env = "BONGSU_DRAIN_GRACE_S", value_name = "SECONDS", default_value_t = 10)]
    pub drain_grace_s: u32,

    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// `NAME=URL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookArg {
    pub name: String,
    pub endpoint: Endpoint,
}

impl FromStr for WebhookArg {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, url) =
            text.split_once('=').context("give NAME=URL, for example push=https://push.example/send")?;
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        anyhow::ensure!(
            (1..=64).contains(&name.len()) && name.chars().all(fine),
            "the name {name:?} must be 1 to 64 of A-Z a-z 0-9 - _ ."
        );
        let endpoint = url.parse().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(Self { name: name.to_owned(), endpoint })
    }
}

impl Config {
    /// All defaults, at this database, with one webhook provider. For tests and programs that hold the service.
    pub fn at_database(url: &str, webhook: WebhookArg) -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            admin_listen: DEFAULT_ADMIN_LISTEN,
            database_url: url.parse().ok(),
            database_connections: 5,
            database_patience_s: 30,
            migrate: false,
            webhooks: vec![webhook],
            in_flight: 512,
            unrecorded: None,
            call_timeout_ms: 10_000,
            lease_ms: 20_000,
            retry_initial_ms: 2_000,
            retry_factor: 3.0,
            max_attempts: 4,
            never_park: false,
            drain_grace_s: 10,
            telemetry: TelemetryArgs { log_format: LogFormat::Text, log: "info".into() },
        }
    }

    /// Checks all settings together and returns the database's URL.
    ///
    /// # Errors
    ///
    /// One error with a line per problem: which setting, what it is, and what to do.
    pub fn validate(&self) -> anyhow::Result<&DatabaseUrl> {
        let mut problems = Vec::new();
        problems.extend(DatabaseUrl::problem(self.database_url.as_ref()).map(str::to_owned));
        self.check_ranges(&mut problems);
        self.check_providers(&mut problems);
        self.check_lease(&mut problems);
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            problems.push(format!(
                "--listen (BONGSU_SENDER_LISTEN) and --admin-listen (BONGSU_SENDER_ADMIN_LISTEN) are both {}: give one \
                 of them another port",
                self.listen,
            ));
        }
        match &self.database_url {
            Some(url) if problems.is_empty() => Ok(url),
            _ => anyhow::bail!("the configuration is wrong:\n  {}", problems.join("\n  ")),
        }
    }

    fn check_ranges(&self, problems: &mut Vec<String>) {
        let ranges: [(&str, u64, u64, u64); 8] = [
            (
                "--database-connections (BONGSU_SENDER_DATABASE_CONNECTIONS)",
                self.database_connections.into(),
                2,
                500,
            ),
            ("--database-patience-s (BONGSU_DATABASE_PATIENCE_S)", self.database_patience_s.into(), 1, 3_600),
            ("--in-flight (BONGSU_IN_FLIGHT)", self.in_flight.into(), 1, 100_000),
            ("--call-timeout-ms (BONGSU_CALL_TIMEOUT_MS)", self.call_timeout_ms, 10, 600_000),
            ("--lease-ms (BONGSU_LEASE_MS)", self.lease_ms, 2_000, 3_600_000),
            ("--retry-initial-ms (BONGSU_RETRY_INITIAL_MS)", self.retry_initial_ms, 10, 86_400_000),
            ("--max-attempts (BONGSU_MAX_ATTEMPTS)", self.max_attempts.into(), 1, 20),
            ("--drain-grace-s (BONGSU_DRAIN_GRACE_S)", self.drain_grace_s.into(), 0, 3_600),
        ];
        for (setting, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                problems.push(format!("{setting} is {value}: give it {least} to {most}"));
            }
        }
        if !(1.0..=100.0).contains(&self.retry_factor) {
            problems.push(format!(
                "--retry-factor (BONGSU_RETRY_FACTOR) is {}: give it 1 to 100",
                self.retry_factor
            ));
        }
    }

    fn check_providers(&self, problems: &mut Vec<String>) {
        // Else one provider that hangs would hold what the others need.
        let least = self.all_in_flight();
        if let Some(unrecorded) = self.unrecorded.filter(|n| *n < least) {
            problems.push(format!(
                "--unrecorded (BONGSU_UNRECORDED) is {unrecorded}, less than what may be under way to all providers: give \
                 it at least {least}, or --in-flight (BONGSU_IN_FLIGHT) less"
            ));
        }
        if self.webhooks.is_empty() {
            problems.push(
                "no provider is configured: give --webhook NAME=URL (BONGSU_WEBHOOKS), for example \
                 push=https://push.example/send"
                    .to_owned(),
            );
        }
        for (i, webhook) in self.webhooks.iter().enumerate() {
            if self.webhooks[..i].iter().any(|other| other.name == webhook.name) {
                problems.push(format!(
                    "--webhook (BONGSU_WEBHOOKS) names {:?} twice: give each provider a name of its own",
                    webhook.name
                ));
            }
        }
    }

    /// A lease that can end while a call under it is still under way would let two senders call for one delivery.
    fn check_lease(&self, problems: &mut Vec<String>) {
        let least = self.call_timeout() + LEASE_MARGIN + self.renew_every() * RENEWALS;
        if self.lease() < least {
            problems.push(format!(
                "--lease-ms (BONGSU_LEASE_MS) is {}, too short for calls of up to {} ms (--call-timeout-ms, \
                 BONGSU_CALL_TIMEOUT_MS): give it at least {}",
                self.lease_ms,
                self.call_timeout_ms,
                least_lease(self.call_timeout() + LEASE_MARGIN).as_millis() + 1,
            ));
        }
    }

    /// Calls under way to all providers at most.
    fn all_in_flight(&self) -> u32 {
        let providers = u32::try_from(self.webhooks.len()).unwrap_or(u32::MAX);
        self.in_flight.saturating_mul(providers)
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.call_timeout_ms)
    }

    fn renew_every(&self) -> Duration {
        (self.lease() / 5).min(RENEW_AT_LEAST_EVERY)
    }

    pub(crate) fn database_patience(&self) -> Duration {
        Duration::from_secs(self.database_patience_s.into())
    }

    pub(crate) fn drain_grace(&self) -> Duration {
        Duration::from_secs(self.drain_grace_s.into())
    }

    pub(crate) fn schedule(&self) -> RetrySchedule {
        RetrySchedule {
            initial: Duration::from_millis(self.retry_initial_ms),
            factor: self.retry_factor,
            max_attempts: self.max_attempts.cast_signed(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            lease: self.lease(),
            renew_every: self.renew_every(),
            call_timeout: self.call_timeout(),
            unrecorded: self.unrecorded.unwrap_or(self.all_in_flight().saturating_add(UNRECORDED_SPARE))
                as usize,
            drain_grace: self.drain_grace(),
        }
    }
}

/// The shortest lease that leaves `call` and the renewals: lease = call + RENEWALS × min(lease ÷ 5, the longest interval),
/// solved for the lease.
fn least_lease(call: Duration) -> Duration {
    (call * 5 / (5 - RENEWALS)).min(call + RENEW_AT_LEAST_EVERY * RENEWALS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let webhook = "push=https://push.example/send".parse().expect("valid");
        Config::at_database("postgres://localhost/bongsu", webhook)
    }

    #[test]
    fn the_defaults_are_valid() {
        assert!(config().validate().is_ok());
    }

    #[test]
    fn a_lease_shorter_than_a_call_refuses_to_start_and_the_length_it_names_is_enough() {
        for call_timeout_ms in [500, 10_000, 60_000] {
            let mut config = config();
            config.call_timeout_ms = call_timeout_ms;
            config.lease_ms = 2_000.max(call_timeout_ms);
            let error = config.validate().expect_err("too short").to_string();
            assert!(error.contains("--lease-ms"), "{error}");
            let enough = error.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number at the end");
            config.lease_ms = enough;
            assert!(config.validate().is_ok(), "{call_timeout_ms}: {enough}");
            config.lease_ms = enough - 2;
            assert!(config.validate().is_err(), "{call_timeout_ms}: {enough}");
        }
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let mut config = config();
        config.database_url = None;
        config.webhooks.clear();
        config.in_flight = 0;
        config.retry_factor = f64::NAN;
        let error = config.validate().expect_err("wrong").to_string();
        for part in ["--database-url", "--webhook", "--in-flight", "--retry-factor"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn one_provider_that_hangs_cannot_hold_what_the_others_need() {
        let mut config = config();
        config.webhooks.push("other=https://other.example".parse().expect("valid"));
        assert_eq!(config.limits().unrecorded, 2 * 512 + 2_000);
        config.unrecorded = Some(1_023);
        let error = config.validate().expect_err("too few").to_string();
        assert!(error.contains("--unrecorded") && error.contains("1024"), "{error}");
    }

    #[test]
    fn a_webhook_is_a_name_and_a_url() {
        for bad in ["", "push", "=https://x.example", "a b=https://x.example", "push=x.example"] {
            assert!(bad.parse::<WebhookArg>().is_err(), "{bad}");
        }
    }
}
