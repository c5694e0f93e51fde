//! `bongsu bench small`: many broadcasts to one user each, as services send them.

use std::time::{Duration, SystemTime};

use anyhow::ensure;
use bongsu_store::Store;

use super::audience::{one_user, request};
use super::callers::{Callers, Calls};
use super::everyone::unix_ms;
use super::measure::measure;
use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// One-user broadcasts from many callers: how many are accepted in a second, how long callers wait, how fast they are done
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Calls begun in a second [default: as many as go]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,

    /// For how long
    #[arg(long, default_value_t = 20, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    /// Hold an old snapshot for so many seconds from the first call on, as a forgotten session does
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    snapshot: Option<u64>,

    /// Calls under way at most
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    callers: u32,

    /// Users, of one device each, among whom they are sent
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    #[command(flatten)]
    pub options: Options,
}

/// What there was to see.
#[derive(Debug)]
struct Sent {
    calls: Calls,
    /// When none of them was open any more.
    done_at: SystemTime,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = World::start(args.options.resolve(Defaults::default())?, args.devices, output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "broadcasts to one user each");
        product.add(small(&mut world, args).await?);
    }
    Ok(world
        .report(
            "small",
            &[
                ("rate", args.rate.into()),
                ("seconds", args.seconds.into()),
                ("callers", args.callers.into()),
                ("snapshot", args.snapshot.into()),
            ],
            vec![product],
            Figures::default(),
        )
        .await)
}

async fn small(world: &mut World, args: &Args) -> anyhow::Result<Figures> {
    let callers = Callers {
        count: args.callers,
        rate: args.rate.map(f64::from),
        length: Duration::from_secs(args.seconds),
        users: args.devices,
        seed: world.conditions.seed,
        request: |user| request(one_user(user)),
    };
    let measured = measure(world, async |world| {
        let clients = world.connections().await?;
        let calls = async {
            let calls = callers.call(&clients).await?;
            Ok::<_, anyhow::Error>((calls, world.none_open().await?))
        };
        let snapshot = args.snapshot.map(Duration::from_secs);
        let (calls, done_at) = beside_snapshot(&world.store, snapshot, calls).await?;
        Ok(Sent { calls, done_at })
    })
    .await?;
    let Sent { calls, done_at } = &measured.outcome;
    let created = calls.calls.len() as u64;
    let accepted = measured.stats.accepted;
    ensure!(
        accepted == created,
        "{created} broadcasts were created, and {accepted} accepted by the provider"
    );
    let broken = world.store.broken_invariants().await?;
    ensure!(broken.is_empty(), "the books do not balance: {broken:?}");

    let mut figures = Figures::default();
    calls.put_accept(&mut figures);
    let whole_s = (unix_ms(*done_at) - unix_ms(calls.began)) / 1e3;
    figures.put("completed_per_s", "broadcasts completed, per s", created as f64 / whole_s);
    let accepted_unix_us = world.provider.first_acceptances().await?;
    calls.put_latency(&mut figures, &accepted_unix_us);
    calls.put_decay(&mut figures, callers.length, &accepted_unix_us);
    measured.put_steady(&mut figures, created);
    figures.count("created", "broadcasts created", created);
    measured.put_totals(&mut figures);
    Ok(figures)
}

/// Does the work while a snapshot is held, for `length` or until the work is done.
async fn beside_snapshot<T>(
    store: &Store,
    length: Option<Duration>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let Some(length) = length else { return work.await };
    let snapshot = store.hold_snapshot().await?;
    let mut work = std::pin::pin!(work);
    let early = tokio::select! {
        done = &mut work => Some(done),
        () = tokio::time::sleep(length) => None,
    };
    snapshot.end().await?;
    match early {
        Some(done) => done,
        None => work.await,
    }
}
