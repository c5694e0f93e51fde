//! The processes of a run: Postgres, the simulator, an intake and two senders, which live on from trial to trial.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bongsu_proto::v1;
use bongsu_store::{SenderId, Store};
use provider_sim::{DeliveryRecord, Stats};
use rustix::process::Signal;
use serde_json::json;

use super::live::redis::Redis;
use super::plan::{Plan, Scale};
use crate::client::{Address, Client};
use crate::live::live_url;
use crate::stack::{Options, PROVIDER, Process, SenderOptions, Stack};

/// How many senders are alive between trials.
pub const SENDERS: usize = 2;
/// Calls under way per sender, and calls that may be unrecorded: a kill repeats no more.
const IN_FLIGHT: u32 = 100;
pub const UNRECORDED: u32 = 150;
/// Devices in one message of an import.
const IMPORT_MESSAGE: usize = 2_000;
/// Topics: devices that the provider accepts, and all of them.
pub const GOOD: &str = "good";
pub const ALL: &str = "all";
/// Clients leave a sender that is silent for three of these.
const HEARTBEAT_S: u32 = 1;
/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct World {
    pub stack: Stack,
    pub senders: Vec<Sender>,
    pub store: Store,
    http: reqwest::Client,
    scale: Scale,
    live: bool,
    /// Where it tells who is connected.
    pub redis: Option<Redis>,
}

/// What a run is made of.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    pub executable: &'a Path,
    pub logs: &'a Path,
    pub scale: Scale,
    /// Whether senders keep live connections.
    pub live: bool,
    /// Whether a Redis tells who has one.
    pub redis: bool,
}

/// A sender process, and who it is in the database.
#[derive(Debug)]
pub struct Sender {
    pub process: Process,
    pub id: SenderId,
}

impl World {
    pub async fn start(setup: Setup<'_>) -> anyhow::Result<Self> {
        let Setup { executable, logs, scale, live, redis } = setup;
        let mut options = Options::new()?;
        options.executable = executable.to_owned();
        options.fsync = false; // what is killed here is not the machine
        options.logs = Some(logs.to_owned());
        options.log_filter = "info".to_owned();
        options.live = live;
        let redis = if redis { Some(Redis::start().await?) } else { None };
        options.intake_args.extend(redis.iter().flat_map(Redis::args));
        let stack = Stack::start(options).await?;
        let store = Store::new(stack.database_url(), 4, "bongsu chaos")?;
        let http = reqwest::Client::builder().no_proxy().build().context("building the HTTP client")?;
        let mut world = Self { stack, senders: Vec::new(), store, http, scale, live, redis };
        world.fill_up().await?;
        Ok(world)
    }

    /// Starts senders until all are there.
    pub async fn fill_up(&mut self) -> anyhow::Result<()> {
        while self.senders.len() < SENDERS {
            let sender = self.spawn_sender().await?;
            self.senders.push(sender);
        }
        Ok(())
    }

    pub async fn spawn_sender(&mut self) -> anyhow::Result<Sender> {
        let known: Vec<SenderId> = self.store.senders().await?.into_iter().map(|s| s.id).collect();
        let millis = |d: Duration| d.as_millis().to_string();
        let args = [
            ("--in-flight", IN_FLIGHT.to_string()),
            ("--unrecorded", UNRECORDED.to_string()),
            ("--lease-ms", millis(self.scale.lease)),
            ("--call-timeout-ms", millis(self.scale.call_timeout)),
            ("--retry-initial-ms", millis(self.scale.retry_initial)),
        ];
        let mut args: Vec<String> =
            args.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        if self.live {
            args.extend(["--live-heartbeat-s".to_owned(), HEARTBEAT_S.to_string()]);
            args.extend(self.redis.iter().flat_map(Redis::args));
        }
        let process = self.stack.spawn_sender(SenderOptions { args, ..SenderOptions::default() }).await?;
        // Only one is started at a time, so the one that is new is this one.
        let deadline = Instant::now() + CALL_TIMEOUT;
        loop {
            let new = self.store.senders().await?.into_iter().find(|s| !known.contains(&s.id));
            match new {
                Some(sender) => return Ok(Sender { process, id: sender.id }),
                None if Instant::now() > deadline => bail!("{} sends no heartbeat", process.name()),
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Batches that are in this sender's hands by the database.
    pub async fn batches_of(&self, sender: SenderId) -> anyhow::Result<i64> {
        Ok(self.store.senders().await?.iter().find(|s| s.id == sender).map_or(0, |s| s.batches))
    }

    pub async fn import(&self, good: u32, bad: u32) -> anyhow::Result<()> {
        let intake = connect(&self.stack.intake.url()).await?;
        let device = |token: String, topics: &[&str]| v1::DeviceRegistration {
            user_id: token.clone(),
            provider: PROVIDER.to_owned(),
            token,
            topics: topics.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        let good = (0..good).map(|n| device(format!("good-{n}"), &[GOOD, ALL]));
        let kinds = ["rejected", "failing"].into_iter().cycle();
        let bad = (0..bad).zip(kinds).map(|(n, kind)| device(format!("{kind}-{n}"), &[ALL]));
        let devices: Vec<_> = good.chain(bad).collect();
        let messages: Vec<_> = devices
            .chunks(IMPORT_MESSAGE)
            .map(|chunk| v1::ImportDevicesRequest { registrations: chunk.to_vec() })
            .collect();
        let report = intake.devices().import_devices(tokio_stream::iter(messages)).await?.into_inner();
        anyhow::ensure!(report.rejected == 0, "devices were refused: {:?}", report.errors);
        Ok(())
    }

    /// Sets the provider up for a trial, its counts at zero.
    pub async fn prepare_provider(&self, plan: &Plan) -> anyhow::Result<()> {
        self.behave(plan.latency, plan.transient, plan.seed, plan.dedupe).await
    }

    /// The same, by what it is to do.
    pub async fn behave(
        &self,
        latency: Duration,
        transient: f64,
        seed: u64,
        dedupe: bool,
    ) -> anyhow::Result<()> {
        let latency = latency.as_millis() as u64;
        let behaviour = json!({
            "latency_ms": latency, "jitter_ms": latency / 2, "transient": transient, "dedupe": dedupe, "seed": seed,
        });
        let url = self.stack.provider_sim.url();
        let answer = self.http.patch(format!("{url}/behaviour")).json(&behaviour).send().await?;
        answer.error_for_status().context("provider-sim")?;
        self.http.post(format!("{url}/reset")).send().await?.error_for_status().context("provider-sim")?;
        Ok(())
    }

    /// Where clients of users connect.
    pub fn live_urls(&self) -> anyhow::Result<Vec<String>> {
        self.senders.iter().map(|sender| live_url(&sender.process)).collect()
    }

    pub fn provider(&self) -> Provider {
        Provider { http: self.http.clone(), url: self.stack.provider_sim.url() }
    }

    pub async fn restart_intake(&mut self) -> anyhow::Result<()> {
        self.stack.intake.kill9().await.context("killing the intake")?;
        self.stack.intake = self.stack.spawn_intake().await?;
        Ok(())
    }

    pub fn freeze(&self, sender: usize, freeze: bool) {
        self.senders[sender].process.signal(if freeze { Signal::STOP } else { Signal::CONT });
    }

    pub async fn stop(self) {
        self.store.close().await;
        self.stack.stop(self.senders.into_iter().map(|s| s.process).collect()).await;
    }
}

/// The simulator, asked from wherever.
#[derive(Debug, Clone)]
pub struct Provider {
    http: reqwest::Client,
    url: String,
}

impl Provider {
    pub async fn stats(&self) -> anyhow::Result<Stats> {
        Ok(self.http.get(format!("{}/stats", self.url)).send().await?.error_for_status()?.json().await?)
    }

    /// What became of each key.
    pub async fn records(&self) -> anyhow::Result<Vec<DeliveryRecord>> {
        let text = self.http.get(format!("{}/deliveries", self.url)).send().await?.text().await?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}

pub async fn connect(url: &str) -> anyhow::Result<Client> {
    let address: Address = url.parse().map_err(anyhow::Error::msg)?;
    Ok(Client::connect(&address, CALL_TIMEOUT, "it is a process of this run").await?)
}
