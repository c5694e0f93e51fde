//! What a sender is started with: read once, checked whole.

pub mod common;
mod invalidation;
mod slow_tier;

pub mod providers;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_live::LiveArgs;
use bongsu_ops::access::AccessArgs;
use bongsu_ops::database_url::DatabaseUrl;
use bongsu_ops::telemetry::{LogFormat, TelemetryArgs};
use bongsu_ops::trace::TraceArgs;

use self::common::Common;
use self::providers::{Kind, Provider};
use crate::engine::doubt::MassInvalidation;
use crate::engine::judge::RetrySchedule;
use crate::engine::slow_tier::SlowTier;
use crate::engine::{LEASE_MARGIN, Limits};
use crate::live::LiveConfig;
use crate::provider::webhook::{Endpoint, Settings};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7080);
const DEFAULT_ADMIN_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7081);
/// Beside the calls under way, answers that wait for their flush.
const UNRECORDED_SPARE: u32 = 2_000;
/// A lease is renewed this many times before calls under it have to stop.
const RENEWALS: u32 = 2;
/// Leases are renewed every fifth of their length, but never more seldom than this: it is also how long a sender leaves
/// others' work alone after Postgres was away.
const RENEW_AT_LEAST_EVERY: Duration = Duration::from_secs(4);
const DEFAULT_SLOW_TIER_EVERY_MS: u64 = slow_tier::DEFAULT_EVERY.as_secs() * 1_000;

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

    /// The providers to call, in TOML: a table [providers.NAME] for each, with its kind and settings (docs/providers.md)
    #[arg(long, env = "BONGSU_PROVIDERS", value_name = "FILE")]
    pub providers: Option<PathBuf>,

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

    /// Calls under way to each provider at most, unless --providers says otherwise for one; so are the time-out, the retries
    /// and --never-park
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

    /// Replay what used up its attempts by itself, in this many rounds at most, while its broadcast has not expired; 0: never
    #[arg(long, env = "BONGSU_SLOW_TIER_ROUNDS", value_name = "N", default_value_t = 0)]
    pub slow_tier_rounds: u32,

    /// How long after a broadcast, or the round before, has ended a round of the slow tier begins, in milliseconds
    #[arg(long, env = "BONGSU_SLOW_TIER_EVERY_MS", value_name = "MS", default_value_t = DEFAULT_SLOW_TIER_EVERY_MS)]
    pub slow_tier_every_ms: u64,

    /// How many seconds beside the longest call a stop may take after SIGTERM
    #[arg(long, env = "BONGSU_DRAIN_GRACE_S", value_name = "SECONDS", default_value_t = 10)]
    pub drain_grace_s: u32,

    /// Have /metrics say where the queue stands and how the database fares, too, which asks it at each scrape, once a second at
    /// most. All senders say the same: with many of them, a few are enough
    #[arg(long, env = "BONGSU_DATABASE_METRICS", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub database_metrics: bool,

    #[command(flatten)]
    pub channel: LiveConfig,

    #[command(flatten)]
    pub access: AccessArgs,

    #[command(flatten)]
    pub live: LiveArgs,

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
        providers::check_name(name)?;
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
            providers: None,
            webhooks: vec![webhook],
            in_flight: 512,
            unrecorded: None,
            call_timeout_ms: 10_000,
            lease_ms: 20_000,
            retry_initial_ms: 2_000,
            retry_factor: 3.0,
            max_attempts: 4,
            never_park: false,
            slow_tier_rounds: 0,
            slow_tier_every_ms: DEFAULT_SLOW_TIER_EVERY_MS,
            drain_grace_s: 10,
            channel: LiveConfig::default(),
            access: AccessArgs::default(),
            live: LiveArgs::default(),
            database_metrics: true,
            telemetry: TelemetryArgs {
                log_format: LogFormat::Text,
                log: "info".into(),
                trace: TraceArgs::default(),
            },
        }
    }

    /// Reads the providers and checks all settings together.
    ///
    /// # Errors
    ///
    /// One error with a line per problem: which setting, what it is, and what to do.
    pub fn validate(&self) -> anyhow::Result<Checked<'_>> {
        let mut problems = Vec::new();
        problems.extend(DatabaseUrl::problem(self.database_url.as_ref()).map(str::to_owned));
        self.check_ranges(&mut problems);
        let providers = self.read_providers(&mut problems);
        self.check_providers(&providers, &mut problems);
        self.check_lease(&providers, &mut problems);
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            problems.push(format!(
                "--listen (BONGSU_SENDER_LISTEN) and --admin-listen (BONGSU_SENDER_ADMIN_LISTEN) are both {}: give one \
                 of them another port",
                self.listen,
            ));
        }
        problems.extend(self.access.problems(self.listen, "--listen (BONGSU_SENDER_LISTEN)"));
        problems.extend(self.channel.problems(
            &self.access,
            &[
                ("--listen (BONGSU_SENDER_LISTEN)", self.listen),
                ("--admin-listen (BONGSU_SENDER_ADMIN_LISTEN)", self.admin_listen),
            ],
        ));
        problems.extend(self.telemetry.trace.problem());
        match &self.database_url {
            Some(database_url) if problems.is_empty() => {
                Ok(Checked { database_url, limits: self.limits(&providers), providers })
            }
            _ => anyhow::bail!("the configuration is wrong:\n  {}", problems.join("\n  ")),
        }
    }

    fn check_ranges(&self, problems: &mut Vec<String>) {
        let ranges: [(&str, u64, u64, u64); 4] = [
            (
                "--database-connections (BONGSU_SENDER_DATABASE_CONNECTIONS)",
                self.database_connections.into(),
                2,
                500,
            ),
            ("--database-patience-s (BONGSU_DATABASE_PATIENCE_S)", self.database_patience_s.into(), 1, 3_600),
            ("--lease-ms (BONGSU_LEASE_MS)", self.lease_ms, 2_000, 3_600_000),
            ("--drain-grace-s (BONGSU_DRAIN_GRACE_S)", self.drain_grace_s.into(), 0, 3_600),
        ];
        for (setting, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                problems.push(format!("{setting} is {value}: give it {least} to {most}"));
            }
        }
        problems.extend(self.common().problems(&[
            "--in-flight (BONGSU_IN_FLIGHT)",
            "--call-timeout-ms (BONGSU_CALL_TIMEOUT_MS)",
            "--retry-initial-ms (BONGSU_RETRY_INITIAL_MS)",
            "--max-attempts (BONGSU_MAX_ATTEMPTS)",
            "--retry-factor (BONGSU_RETRY_FACTOR)",
        ]));
        let names = [
            "--slow-tier-every-ms (BONGSU_SLOW_TIER_EVERY_MS)",
            "--slow-tier-rounds (BONGSU_SLOW_TIER_ROUNDS)",
        ];
        problems.extend(self.slow_tier().into_iter().flat_map(|tier| slow_tier::problems(tier, names)));
    }

    /// Those of the file, and those of the command line.
    fn read_providers(&self, problems: &mut Vec<String>) -> Vec<Provider> {
        let common = self.common();
        let mut all = match &self.providers {
            None => vec![],
            Some(path) => providers::read(path, &common).unwrap_or_else(|errors| {
                let at = format!("--providers (BONGSU_PROVIDERS) {}", path.display());
                problems.extend(errors.iter().map(|error| format!("{at}: {error:#}")));
                vec![]
            }),
        };
        all.extend(self.webhooks.iter().map(|WebhookArg { name, endpoint }| Provider {
            name: name.clone(),
            kind: Kind::Webhook(Settings::new(endpoint.clone())),
            common: common.clone(),
        }));
        all
    }

    fn check_providers(&self, providers: &[Provider], problems: &mut Vec<String>) {
        // Else one provider that hangs would hold what the others need.
        let least = all_in_flight(providers);
        if let Some(unrecorded) = self.unrecorded.filter(|n| *n < least) {
            problems.push(format!(
                "--unrecorded (BONGSU_UNRECORDED) is {unrecorded}, less than what may be under way to all providers: give \
                 it at least {least}, or --in-flight (BONGSU_IN_FLIGHT) less"
            ));
        }
        if self.webhooks.is_empty() && self.providers.is_none() {
            problems.push(
                "no provider is configured: give --providers FILE (BONGSU_PROVIDERS), or --webhook NAME=URL \
                 (BONGSU_WEBHOOKS), for example push=https://push.example/send"
                    .to_owned(),
            );
        } else if providers.is_empty() && problems.is_empty() {
            problems
                .push("--providers (BONGSU_PROVIDERS) has no table [providers.NAME]: give one".to_owned());
        }
        for (i, provider) in providers.iter().enumerate() {
            if providers[..i].iter().any(|other| other.name == provider.name) {
                problems.push(format!(
                    "{:?} is two providers (--providers, BONGSU_PROVIDERS; --webhook, BONGSU_WEBHOOKS): give each a \
                     name of its own",
                    provider.name
                ));
            }
        }
    }

    /// A lease that can end while a call under it is still under way would let two senders call for one delivery.
    fn check_lease(&self, providers: &[Provider], problems: &mut Vec<String>) {
        let call_timeout = self.longest_call(providers);
        let least = call_timeout + LEASE_MARGIN + self.renew_every() * RENEWALS;
        if self.lease() < least {
            problems.push(format!(
                "--lease-ms (BONGSU_LEASE_MS) is {}, too short for calls of up to {} ms (--call-timeout-ms, \
                 BONGSU_CALL_TIMEOUT_MS, or a provider's call_timeout_ms): give it at least {}",
                self.lease_ms,
                call_timeout.as_millis(),
                least_lease(call_timeout + LEASE_MARGIN).as_millis() + 1,
            ));
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// How long a call to any of them may take.
    fn longest_call(&self, providers: &[Provider]) -> Duration {
        let longest = providers.iter().map(|provider| provider.common.call_timeout).max();
        longest.unwrap_or(Duration::from_millis(self.call_timeout_ms))
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

    /// What a provider is told that is told nothing else.
    fn common(&self) -> Common {
        Common {
            rate_per_second: None,
            in_flight: self.in_flight,
            call_timeout: Duration::from_millis(self.call_timeout_ms),
            never_park: self.never_park,
            slow_tier: self.slow_tier(),
            mass_invalidation: Some(MassInvalidation::default()),
            schedule: RetrySchedule {
                initial: Duration::from_millis(self.retry_initial_ms),
                factor: self.retry_factor,
                floor: Duration::ZERO,
                max_attempts: i32::try_from(self.max_attempts).unwrap_or(i32::MAX),
            },
        }
    }

    /// None where it is off.
    fn slow_tier(&self) -> Option<SlowTier> {
        let every = Duration::from_millis(self.slow_tier_every_ms);
        Some(SlowTier { every, rounds: self.slow_tier_rounds }).filter(|tier| tier.rounds > 0)
    }

    fn limits(&self, providers: &[Provider]) -> Limits {
        Limits {
            lease: self.lease(),
            renew_every: self.renew_every(),
            call_timeout: self.longest_call(providers),
            unrecorded: self.unrecorded.unwrap_or(all_in_flight(providers).saturating_add(UNRECORDED_SPARE))
                as usize,
            drain_grace: self.drain_grace(),
        }
    }
}

/// A configuration without mistakes.
#[derive(Debug)]
pub struct Checked<'a> {
    pub database_url: &'a DatabaseUrl,
    pub providers: Vec<Provider>,
    pub limits: Limits,
}

/// Calls under way to all of them at most.
fn all_in_flight(providers: &[Provider]) -> u32 {
    providers.iter().fold(0, |all, provider| all.saturating_add(provider.common.in_flight))
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
        for part in ["--database-url", "--providers", "--in-flight", "--retry-factor"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn one_provider_that_hangs_cannot_hold_what_the_others_need() {
        let mut config = config();
        config.webhooks.push("other=https://other.example".parse().expect("valid"));
        assert_eq!(config.validate().expect("valid").limits.unrecorded, 2 * 512 + 2_000);
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
