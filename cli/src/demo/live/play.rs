//! The play of the live demo, from an empty machine to the last delivery.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use bongsu_proto::v1;
use bongsu_store::Store;

use super::super::sim::Sim;
use super::super::{Args, audience as devices, play as demo};
use super::SENDERS;
use super::audience::Connected;
use super::crash::kill_one;
use super::facts::{Facts, Seen};
use crate::Context;
use crate::client::{Address, Client};
use crate::error::Failure;
use crate::live::crowd::Crowd;
use crate::live::network::Network;
use crate::live::record::Record;
use crate::live::verdict::Pushes;
use crate::live::{live_url, open_files};
use crate::output::Output;
use crate::stack::{Process, SenderOptions, Stack};
use crate::table::number;

/// How long anything that clients do may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client waits for an answer to begin.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Our own connections to the database.
const CONNECTIONS: u32 = 2;

pub async fn play(args: &Args, context: &Context) -> Result<Facts, Failure> {
    let output = context.output;
    open_files::allow(args.live.connected.into())?;
    let logs = tempfile::Builder::new().prefix("bongsu-demo-").tempdir().map_err(anyhow::Error::from)?;
    output.note(&format!("starting PostgreSQL, provider-sim, intake-svc and {SENDERS} sender-svc …"));
    let mut options = demo::options(args, logs.path())?;
    options.live = true;
    let stack = Stack::start(options).await?;
    let mut senders = start_senders(args, &stack).await?;
    let address: Address = stack.intake.url().parse().map_err(anyhow::Error::msg)?;
    let intake = Client::connect(&address, context.servers.timeout, "it has just been started").await?;
    output.note(&format!("registering {} devices, of a user each …", number(args.devices.into())));
    devices::import(args, &intake).await?;
    let store = Store::new(stack.database_url(), CONNECTIONS, "bongsu demo").map_err(anyhow::Error::from)?;
    let connected = Connected::new(args);
    let crowd = connect(&stack, &senders, connected, &store, output).await?;

    let sim = Sim::new(&stack)?;
    let called_at = SystemTime::now();
    let id = press(args, &intake).await?;
    let accepted_at = Instant::now();
    output.note(&format!("broadcast {id} accepted"));
    let crash = async {
        let recorded = async || {
            let (_, counts) = demo::counts_of(&intake, id).await.map_err(anyhow::Error::from)?;
            Ok(counts.sent.unsigned_abs())
        };
        let third = (args.live.connected as usize).div_ceil(3);
        let crash = kill_one(third, &crowd, &mut senders, &sim, recorded).await?;
        output.note(&format!("killed a sender with SIGKILL as {} clients had it", unsigned(crash.received)));
        Ok(crash)
    };
    let (_, crash) = tokio::try_join!(demo::watch(&intake, id, context), crash)?;
    let total_ms = u64::try_from(accepted_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let clients = args.live.connected as usize;
    let all_have_it =
        |crowd: &Crowd| crowd.received() == clients && crowd.acknowledged() == connected.acknowledging();
    crowd.until("every client having it", PATIENCE, all_have_it).await?;
    // Those who had it before the kill have nothing to wait for, and come back all the same.
    crowd.until("every client being back", PATIENCE, |crowd| crowd.connected() == clients).await?;
    let records: HashMap<String, Record> = connected.names().zip(crowd.leave().await).collect();

    let mut facts = facts(args, total_ms);
    let pushes = Pushes::of(id, &store, &sim.deliveries().await?).await?;
    let (stats, broadcast) = (sim.stats().await?, get(&intake, id).await?);
    let seen = Seen {
        broadcast: &broadcast,
        called_at,
        records: &records,
        pushes: &pushes,
        stats: &stats,
        crash: &crash,
    };
    facts.add(&seen, (0..args.devices).map(devices::user));
    let broken = store.broken_invariants().await.map_err(anyhow::Error::from)?;
    facts.mistakes.extend(broken.iter().map(|f| format!("{}: {} {}", f.check, f.subject, f.detail)));
    store.close().await;
    stack.stop(senders).await;
    Ok(facts)
}

async fn start_senders(args: &Args, stack: &Stack) -> anyhow::Result<Vec<Process>> {
    let sender = SenderOptions {
        args: vec!["--in-flight".into(), args.in_flight.to_string()],
        ..SenderOptions::default()
    };
    let mut senders = Vec::new();
    for _ in 0..SENDERS {
        senders.push(stack.spawn_sender(sender.clone()).await?);
    }
    Ok(senders)
}

/// Connects the clients, and waits until the senders know that they are there.
async fn connect(
    stack: &Stack,
    senders: &[Process],
    connected: Connected,
    store: &Store,
    output: Output,
) -> anyhow::Result<Crowd> {
    let addresses = senders.iter().map(live_url).collect::<anyhow::Result<Vec<_>>>()?;
    output.note("connecting clients …");
    let began = Instant::now();
    let crowd = connected.connect(stack, Network::new(addresses, ANSWER_PATIENCE, None)?).await?;
    let names: Vec<String> = connected.names().collect();
    let users = store.live_join(&names).await?;
    while store.present_users(&users).await?.len() < users.len() {
        anyhow::ensure!(began.elapsed() < PATIENCE, "senders do not say who is connected to them");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    output.note(&format!(
        "{} clients connected in {:.1} s",
        unsigned(names.len()),
        began.elapsed().as_secs_f64()
    ));
    Ok(crowd)
}

async fn press(args: &Args, intake: &Client) -> Result<i64, Failure> {
    let request = v1::CreateBroadcastRequest {
        routing: v1::Routing::LiveThenPush.into(),
        ack_timeout: Some(prost_types::Duration {
            seconds: (args.live.ack_timeout_ms / 1_000).into(),
            nanos: (args.live.ack_timeout_ms % 1_000).cast_signed() * 1_000_000,
        }),
        ..demo::request(demo::BODY)
    };
    let answer = intake.call("create the broadcast", intake.broadcasts().create_broadcast(request)).await?;
    Ok(answer.broadcast.map_or(0, |broadcast| broadcast.id))
}

async fn get(intake: &Client, id: i64) -> Result<v1::Broadcast, Failure> {
    let request = v1::GetBroadcastRequest { broadcast_id: id };
    let answer = intake.call("get the broadcast", intake.broadcasts().get_broadcast(request)).await?;
    Ok(answer.broadcast.unwrap_or_default())
}

fn facts(args: &Args, total_ms: u64) -> Facts {
    Facts {
        users: args.devices,
        connected: args.live.connected,
        senders: SENDERS,
        ack_timeout_ms: args.live.ack_timeout_ms,
        total_ms,
        ..Facts::default()
    }
}

fn unsigned(value: usize) -> String {
    number(i64::try_from(value).unwrap_or(i64::MAX))
}
