//! The processes of a benchmark: a private Postgres that waits for its disk, the simulator, an intake, and senders, which
//! are started anew for each run.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use bongsu_proto::v1;
use bongsu_proto::v1::audience::Kind;
use bongsu_store::Store;
use serde_json::json;
use tempfile::TempDir;

use super::audience;
use super::kernel::Watched;
use super::options::Conditions;
use super::provider::Provider;
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
/// How long senders may take to drain.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether a broadcast has ended. Its end is told by the database, so this costs no precision.
const LOOK: Duration = Duration::from_millis(250);
/// The same where it is not told, so that it decides how precise it is.
const LOOK_FOR_OPEN: Duration = Duration::from_millis(50);
/// Connections that the callers of one-user broadcasts share.
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
        let logs = tempfile::Builder::new().prefix("bongsu-bench-").tempdir()?;
        output.note("starting PostgreSQL, provider-sim and intake-svc …");
        let mut options = Options::new()?;
        options.postgres_settings =
            POSTGRES_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        options.logs = Some(logs.path().to_owned());
        options.log_filter = LOG_FILTER.to_owned();
        options.provider_sim_args = conditions.provider_args();
        let stack = Stack::start(options).await?;
        let store = Store::new(stack.database_url(), CONNECTIONS, "bongsu bench")?;
        let provider = Provider::new(stack.provider_sim.url())?;
        let intake = connect(&stack).await?;
        let mut world = Self { provider, store, conditions, devices, output, intake, stack, _logs: logs };
        world.import(devices).await?;
        Ok(world)
    }

    async fn import(&mut self, devices: u64) -> anyhow::Result<()> {
        // The first sender makes the provider known, without which no device can be registered.
        let senders = self.start_senders().await?;
        Self::stop_senders(senders).await;
        let began = Instant::now();
        audience::import(&self.intake, devices).await?;
        let count = number(devices.try_into().unwrap_or(i64::MAX));
        self.output.note(&format!("imported {count} devices in {:.1} s", began.elapsed().as_secs_f64()));
        Ok(())
    }

    /// As many as asked for, fresh: what they count is of this run alone.
    pub async fn start_senders(&mut self) -> anyhow::Result<Vec<Process>> {
        let args = vec!["--in-flight".to_owned(), self.conditions.in_flight.to_string()];
        let mut senders = Vec::new();
        for _ in 0..self.conditions.senders {
            let options = SenderOptions { args: args.clone(), ..SenderOptions::default() };
            senders.push(self.stack.spawn_sender(options).await?);
        }
        Ok(senders)
    }

    pub async fn stop_senders(mut senders: Vec<Process>) {
        stop_all(&mut senders, STOP_PATIENCE).await;
    }

    /// Before each run: no counts of an earlier one, and nothing that the server still has to write for it.
    pub async fn settle(&self) -> anyhow::Result<()> {
        self.provider.reset().await?;
        Ok(self.store.checkpoint().await?)
    }

    /// Creates a broadcast.
    pub async fn create(&self, audience: Kind) -> anyhow::Result<Accepted> {
        create(&self.intake, audience).await
    }

    /// Waits until a broadcast has ended.
    pub async fn ended(&self, id: i64) -> anyhow::Result<v1::Broadcast> {
        loop {
            tokio::time::sleep(LOOK).await;
            let request = v1::GetBroadcastRequest { broadcast_id: id };
            let answer = self.intake.broadcasts().get_broadcast(request).await.context("GetBroadcast")?;
            let broadcast = answer.into_inner().broadcast.context("the answer has no broadcast")?;
            ensure!(broadcast.state() != v1::BroadcastState::Cancelled, "nobody cancelled broadcast {id}");
            if broadcast.state() == v1::BroadcastState::Completed {
                return Ok(broadcast);
            }
        }
    }

    /// Connections for callers that are not to wait for each other.
    pub async fn connections(&self) -> anyhow::Result<Vec<Client>> {
        let mut clients = Vec::new();
        for _ in 0..CALLER_CONNECTIONS {
            clients.push(connect(&self.stack).await?);
        }
        Ok(clients)
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

    pub async fn stop(self) {
        self.store.close().await;
        self.stack.stop(Vec::new()).await;
    }
}

async fn connect(stack: &Stack) -> anyhow::Result<Client> {
    let address: Address = stack.intake.url().parse().map_err(anyhow::Error::msg)?;
    Ok(Client::connect(&address, CALL_TIMEOUT, "it is a process of this run").await?)
}

/// Creates a broadcast, for callers on connections of their own.
pub async fn create(intake: &Client, audience: Kind) -> anyhow::Result<Accepted> {
    let request = audience::request(audience);
    let began = Instant::now();
    let answer = intake.broadcasts().create_broadcast(request).await.context("CreateBroadcast")?;
    let (took, at) = (began.elapsed(), SystemTime::now());
    let broadcast = answer.into_inner().broadcast.context("the answer has no broadcast")?;
    Ok(Accepted { id: broadcast.id, took, at })
}
