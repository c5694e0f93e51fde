//! `bongsu bench watchers`: what it costs that many people watch.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use bongsu_proto::v1;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::equal;
use super::everyone;
use super::measure::measure;
use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::client::Client;
use crate::output::Output;

/// Streams that are being opened at a time: a sender works on so many calls at most, and refuses what is more.
const OPENING: usize = 64;

/// Several broadcasts to everybody at the same time, alternately without and with many streams of their status
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Devices of each broadcast
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    /// Broadcasts
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=50))]
    broadcasts: u8,

    /// Streams, spread evenly over the broadcasts; one sender serves 2,000
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8_000))]
    watchers: u32,

    #[command(flatten)]
    pub options: Options,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let conditions = args.options.resolve(Defaults::default())?;
    let mut world = World::start(conditions, args.devices, output).await?;
    let mut without = Variant::new("without", "WITHOUT");
    let mut with = Variant::new("with", "WATCHED");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcasts without, then with watchers");
        without.add(watched(&mut world, args.broadcasts, 0).await?);
        with.add(watched(&mut world, args.broadcasts, args.watchers).await?);
    }
    let mut compared = Figures::default();
    compared.put_losses(&with, &without);
    let more = [("broadcasts", args.broadcasts.into()), ("watchers", args.watchers.into())];
    Ok(world.report("watchers", &more, vec![without, with], compared).await)
}

async fn watched(world: &mut World, broadcasts: u8, watchers: u32) -> anyhow::Result<Figures> {
    let all = world.devices * u64::from(broadcasts);
    let measured = measure(world, async |world| {
        let clients = world.sender_connections().await?;
        let accepted = everyone::create(world, broadcasts).await?;
        let opening = Arc::new(Semaphore::new(OPENING));
        let mut streams = JoinSet::new();
        for (client, (of, _)) in clients.iter().cycle().zip(accepted.iter().cycle().zip(0..watchers)) {
            streams.spawn(watch(client.clone(), of.id, opening.clone()));
        }
        let ended = everyone::wait_all(world, accepted).await?;
        let mut messages = 0;
        while let Some(watched) = streams.join_next().await {
            messages += watched??;
        }
        Ok((ended, messages))
    })
    .await?;
    let (ended, messages) = &measured.outcome;
    let last_s = equal::seconds_from_first_answer(ended)?.into_iter().fold(0.0, f64::max);
    let mut figures = Figures::default();
    figures.put("end_to_end_per_s", "end to end, per s", all as f64 / last_s);
    measured.put_steady(&mut figures, all);
    figures.put("total_s", "from first answer to all completed, s", last_s);
    figures.put("statuses_per_s", "statuses that the watchers got, per s", *messages as f64 / last_s);
    measured.put_totals(&mut figures);
    everyone::put_all_books(&mut figures, ended, world.devices, &measured.stats)?;
    Ok(figures)
}

/// Watches a broadcast to its end, and says how often it was told of.
async fn watch(client: Client, id: i64, opening: Arc<Semaphore>) -> anyhow::Result<u64> {
    let turn = opening.acquire_owned().await?;
    let request = v1::StreamStatusRequest { broadcast_id: id };
    let mut stream = client.deliveries().stream_status(request).await.context("StreamStatus")?.into_inner();
    drop(turn);
    let (mut messages, mut last) = (0, None);
    while let Some(message) = stream.message().await.context("a status")? {
        messages += 1;
        last = message.status;
    }
    let last = last.context("a stream without a status")?;
    ensure!(last.state() == v1::BroadcastState::Completed, "a stream ended at {:?}", last.state());
    Ok(messages)
}
