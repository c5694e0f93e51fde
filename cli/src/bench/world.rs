//! The processes of a benchmark: a private Postgres that waits for its disk, the simulator, an intake, and senders, which
//! are started anew for each run.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use bongsu_proto::v1;
use bongsu_proto::v1::audience::Kind;
use bongsu_store::Store;
use serde_json::json;
use tempfile::TempDir;

use super::audience::{self, Tokens};
use super::callers::create;
use super::kernel::Watched;
use super::options::Conditions;
use super::provider::Provider;
use super::report::{Figures, Report, Variant};
use crate::client::{Address, Client};
use crate::output::Output;
use crate::stack::{Options, Process, SenderOptions, Stack, stop_all};
use crate::table::number;

/// The same for all scenarios: memory for what is worked on, and no checkpoint in the middle for want of room.
const POSTGRES_SETTINGS: [(&str, &str); 2] = [("shared_buffers", "1GB"), ("max_wal_size", "4GB")];
/// What services log unless told otherwise: logging is part of what they cost.
const LOG_FILTER: &str = "info,sqlx=warn";
/// Our own connections: a look at a time, and one to spare.
const CONNECTIONS: u32 = 2;
/// What the provider is called where processes are told apart.
pub const SIMULATOR: &str = "simulator";
/// How long a call to the intake may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a process may take to drain.
pub const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether a broadcast has ended. Its end is told by the database, so this costs no precision.
const LOOK: Duration = Duration::from_millis(250);
/// The same where it is not told, so that it decides how precise it is.
const LOOK_FOR_OPEN: Duration = Duration::from_millis(50);
/// Connections that callers, or watchers, share.
const CALLER_CONNECTIONS: usize = 8;

#[derive(Debug)]
pub struct World {
    pub provider: Provider,
    pub store: Store,
    pub conditions: Conditions,
    /// How many devices there are.
    pub devices: u64,
    pub output: Output,
    intake: Client,
    /// Where the senders of this run are asked.
    senders: Vec<String>,
    stack: Stack,
    /// Removed with us.
    _logs: TempDir,
}

/// A broadcast that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    pub id: i64,
    /// How long its caller waited for the answer.
    pub took: Duration,
    /// When the answer came.
    pub at: SystemTime,
}

impl World {
    /// Starts everything but the senders, and imports the devices.
    pub async fn start(conditions: Conditions, devices: u64, output: Output) -> anyhow::Result<Self> {
        Self::start_with_topics(conditions, devices, &[], output).await
    }

    /// The same, with devices that all have these topics.
    pub async fn start_with_topics(
        conditions: Conditions,
        devices: u64,
        topics: &[&str],
        output: Output,
    ) -> anyhow::Result<Self> {
        let logs = tempfile::Builder::new().prefix("bongsu-bench-").tempdir()?;
        output.note("starting PostgreSQL, provider-sim and intake-svc …");
        let mut options = Options::new()?;
        options.postgres_settings =
            POSTGRES_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        options.logs = Some(logs.path().to_owned());
        options.log_filter = LOG_FILTER.to_owned();
        options.provider_sim_args = conditions.provider_args();
        options.reqwest = conditions.reqwest;
        options.kind = conditions.kind;
        options.live = conditions.live;
        // Histories are as long as a scenario wants them.
        options.intake_args = vec!["--retention-days".to_owned(), "0".to_owned()];
        let stack = Stack::start(options).await?;
        let store = Store::new(stack.database_url(), CONNECTIONS, "bongsu bench")?;
        let provider = Provider::new(stack.provider_sim.url())?;
        let intake = connect(&stack.intake.url()).await?;
        let senders = Vec::new();
        let mut world =
            Self { provider, store, conditions, devices, output, intake, senders, stack, _logs: logs };
        world.import(devices, topics).await?;
        Ok(world)
    }

    async fn import(&mut self, devices: u64, topics: &[&str]) -> anyhow::Result<()> {
        // The first sender makes the provider known, without which no device can be registered.
        let senders = self.start_senders().await?;
        Self::stop_processes(senders).await;
        let began = Instant::now();
        let tokens =
            Tokens::new(self.conditions.kind, &self.provider, self.stack.provider_sim.address()).await?;
        audience::import(&self.intake, devices, topics, &tokens).await?;
        let count = number(devices.try_into().unwrap_or(i64::MAX));
        self.output.note(&format!("imported {count} devices in {:.1} s", began.elapsed().as_secs_f64()));
        Ok(())
    }

    /// As many as asked for, fresh: what they count is of this run alone.
    pub async fn start_senders(&mut self) -> anyhow::Result<Vec<Process>> {
        let mut senders = Vec::new();
        for _ in 0..self.conditions.senders {
            senders.push(self.start_sender().await?);
        }
        self.senders = senders.iter().map(Process::url).collect();
        Ok(senders)
    }

    /// One more.
    pub async fn start_sender(&self) -> anyhow::Result<Process> {
        let args = vec!["--in-flight".to_owned(), self.conditions.in_flight.to_string()];
        self.stack.spawn_sender(SenderOptions { args, ..SenderOptions::default() }).await
    }

    /// A fresh intake in the place of the last, and others beside it: what they count, and their memory, is of what comes
    /// now. The others are the caller's, who stops them.
    pub async fn fresh_intakes(&mut self, others: u32) -> anyhow::Result<Vec<Process>> {
        self.stack.intake.stop(STOP_PATIENCE).await?;
        self.stack.intake = self.stack.spawn_intake().await?;
        self.intake = connect(&self.stack.intake.url()).await?;
        let mut intakes = Vec::new();
        for _ in 0..others {
            intakes.push(self.stack.spawn_intake().await?);
        }
        Ok(intakes)
    }

    /// The one that takes our calls.
    pub fn intake(&self) -> &Process {
        &self.stack.intake
    }

    /// Lets senders, or intakes beside the first, drain and end.
    pub async fn stop_processes(mut processes: Vec<Process>) {
        stop_all(&mut processes, STOP_PATIENCE).await;
    }

    /// Before each run: no counts of an earlier one, and nothing that the server still has to write for it.
    pub async fn settle(&self) -> anyhow::Result<()> {
        self.provider.reset().await?;
        Ok(self.store.checkpoint().await?)
    }

    /// Creates a broadcast.
    pub async fn create(&self, audience: Kind) -> anyhow::Result<Accepted> {
        self.create_as(audience::request(audience)).await
    }

    /// The same, otherwise than usual.
    pub async fn create_as(&self, request: v1::CreateBroadcastRequest) -> anyhow::Result<Accepted> {
        create(&self.intake, request).await
    }

    /// Waits until a broadcast has ended.
    pub async fn ended(&self, id: i64) -> anyhow::Result<v1::Broadcast> {
        loop {
            tokio::time::sleep(LOOK).await;
            let broadcast = self.broadcast(id).await?;
            ensure!(broadcast.state() != v1::BroadcastState::Cancelled, "nobody cancelled broadcast {id}");
            if broadcast.state() == v1::BroadcastState::Completed {
                return Ok(broadcast);
            }
        }
    }

    /// A broadcast as it is now.
    pub async fn broadcast(&self, id: i64) -> anyhow::Result<v1::Broadcast> {
        let request = v1::GetBroadcastRequest { broadcast_id: id };
        let answer = self.intake.broadcasts().get_broadcast(request).await.context("GetBroadcast")?;
        answer.into_inner().broadcast.context("the answer has no broadcast")
    }

    /// Connections to the intake, for callers that are not to wait for each other.
    pub async fn connections(&self) -> anyhow::Result<Vec<Client>> {
        connect_each(&[self.stack.intake.url()]).await
    }

    /// Connections to the senders, in turn.
    pub async fn sender_connections(&self) -> anyhow::Result<Vec<Client>> {
        connect_each(&self.senders).await
    }

    /// Waits until no broadcast is open, and says when that was seen.
    pub async fn none_open(&self) -> anyhow::Result<SystemTime> {
        let request = v1::ListBroadcastsRequest {
            states: [
                v1::BroadcastState::Accepted,
                v1::BroadcastState::FanningOut,
                v1::BroadcastState::Delivering,
            ]
            .map(i32::from)
            .to_vec(),
            page_size: 1,
            ..Default::default()
        };
        loop {
            let answer =
                self.intake.broadcasts().list_broadcasts(request.clone()).await.context("ListBroadcasts")?;
            if answer.into_inner().broadcasts.is_empty() {
                return Ok(SystemTime::now());
            }
            tokio::time::sleep(LOOK_FOR_OPEN).await;
        }
    }

    /// A token of this user for the live channel.
    pub fn live_token(&self, user: &str) -> String {
        self.stack.live_token(user)
    }

    /// Where the simulator takes pushes, as senders write it.
    pub fn webhook(&self) -> String {
        format!("{}={}", crate::stack::PROVIDER, self.stack.push_url())
    }

    /// The intake, the simulator and Postgres; senders come with their run.
    pub fn watched(&self) -> anyhow::Result<[Watched; 3]> {
        let process = |name: &str, pid: Option<u32>, family| {
            let pid = pid.with_context(|| format!("{name} is gone"))?;
            Ok::<_, anyhow::Error>(Watched { name: name.to_owned(), pid, family })
        };
        let postmaster = self.stack.postgres().and_then(|postgres| postgres.postmaster_pid());
        Ok([
            process("intake", self.stack.intake.pid(), false)?,
            process(SIMULATOR, self.stack.provider_sim.pid(), false)?,
            process("postgres", postmaster, true)?,
        ])
    }

    /// Says what comes next.
    pub fn note_run(&self, n: u32, what: &str) {
        self.output.note(&format!("run {n} of {}: {what} …", self.conditions.repeat));
    }

    /// What a report says about how it was made.
    pub fn conditions_json(&self) -> serde_json::Value {
        let mut object = json!(self.conditions);
        object["devices"] = json!(self.devices);
        object["optimised"] = json!(!cfg!(debug_assertions));
        object["cores"] = json!(std::thread::available_parallelism().map_or(0, usize::from));
        object
    }

    /// Stops everything and tells what it came to; `more` is what else was asked for.
    pub async fn report(
        self,
        scenario: &'static str,
        more: &[(&str, serde_json::Value)],
        variants: Vec<Variant>,
        compared: Figures,
    ) -> Report {
        let mut conditions = self.conditions_json();
        for (name, value) in more {
            conditions[*name] = value.clone();
        }
        self.stop().await;
        Report::new(scenario, conditions, variants, compared)
    }

    pub async fn stop(self) {
        self.store.close().await;
        self.stack.stop(Vec::new()).await;
    }
}

async fn connect_each(urls: &[String]) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::new();
    for url in urls.iter().cycle().take(CALLER_CONNECTIONS) {
        clients.push(connect(url).await?);
    }
    Ok(clients)
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let address: Address = url.parse().map_err(anyhow::Error::msg)?;
    Ok(Client::connect(&address, CALL_TIMEOUT, "it is a process of this run").await?)
}
