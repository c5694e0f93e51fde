//! `bongsu bench senders`: several senders at the same broadcast, and some that come and go.

use anyhow::{Context as _, ensure};

use super::audience;
use super::everyone::{self, Ended};
use super::measure::{SENDER_CALLS, measure};
use super::observe::Observer;
use super::options::{Defaults, Large};
use super::provider::{counter, metrics};
use super::report::{Figures, Report, Variant};
use super::steady::steady;
use super::world::{STOP_PATIENCE, World};
use crate::output::Output;
use crate::stack::Process;

/// A sender is added once this part of the devices has it, and another is told to end once that part has.
const ADDED: f64 = 0.3;
const REMOVED: f64 = 0.6;

/// One broadcast to everybody with one, two and four senders in turn; and with two of which one leaves, after a third has come
///
/// `--senders` is not looked at.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub large: Large,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(Defaults::default(), output).await?;
    let mut one = Variant::new("one", "1 SENDER");
    let mut two = Variant::new("two", "2 SENDERS");
    let mut four = Variant::new("four", "4 SENDERS");
    let mut change = Variant::new("change", "2, 3, 2");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast with one, two, four senders, and with some that come and go");
        for (senders, variant) in [(1, &mut one), (2, &mut two), (4, &mut four)] {
            world.conditions.senders = senders;
            variant.add(shared(&mut world).await?);
        }
        world.conditions.senders = 2;
        change.add(changing(&mut world).await?);
    }
    let mut compared = Figures::default();
    for (variant, name, label) in [
        (&two, "two_loss_percent", "loss of the steady rate with two, %"),
        (&four, "four_loss_percent", "loss of the steady rate with four, %"),
    ] {
        compared.put(name, label, variant.loss_percent(&one, "steady_per_s"));
    }
    let more = [("senders", serde_json::Value::Null)];
    Ok(world.report("senders", &more, vec![one, two, four, change], compared).await)
}

async fn shared(world: &mut World) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let measured = measure(world, everyone::send).await?;
    let ended = &measured.outcome;
    let mut figures = Figures::default();
    figures.put("end_to_end_per_s", "end to end, per s", devices as f64 / ended.total_s()?);
    measured.put_steady(&mut figures, devices);
    let stall = world.provider.longest_stall_ms().await?;
    figures.put("longest_stall_ms", "longest between two acceptances, ms", stall);
    measured.put_shares(&mut figures);
    measured.put_totals(&mut figures);
    ended.put_books(&mut figures, devices, &measured.stats)?;
    Ok(figures)
}

/// What there was to see while senders came and went.
struct Changed {
    ended: Ended,
    /// What the provider had accepted when one was told to end.
    accepted_then: u64,
    /// How long it took to end.
    leaving_s: f64,
    /// By sender: the one that left, the one that stayed, the one that came.
    calls: [f64; 3],
}

async fn changing(world: &mut World) -> anyhow::Result<Figures> {
    let devices = world.devices;
    world.settle().await?;
    let mut senders = world.start_senders().await?;
    let observer = Observer {
        provider: &world.provider,
        store: None,
        watched: Vec::new(),
        done: |stats| stats.accepted,
    };
    let (changed, samples) = observer.during(change(world, &mut senders)).await?;
    World::stop_processes(senders).await;
    let stats = world.provider.stats().await?;
    ensure!(stats.duplicates == 0, "{} deliveries were made twice", stats.duplicates);
    if changed.accepted_then >= devices {
        world.output.note("the broadcast ended before a sender left: give it more --devices");
    }
    let mut figures = Figures::default();
    figures.put("end_to_end_per_s", "end to end, per s", devices as f64 / changed.ended.total_s()?);
    figures.put(
        "steady_per_s",
        "steady rate, per s",
        steady(&samples, devices).map(|window| window.per_second()),
    );
    let stall = world.provider.longest_stall_ms().await?;
    figures.put("longest_stall_ms", "longest between two acceptances, ms", stall);
    figures.put("leaving_s", "from SIGTERM to its end, s", changed.leaving_s);
    let [left, stayed, came] = changed.calls;
    figures.put("left_calls", "calls of the sender that left", left);
    figures.put("stayed_calls", "calls of the sender that stayed", stayed);
    figures.put("came_calls", "calls of the sender that came", came);
    figures.count("calls", "calls at the provider", stats.calls);
    figures.count("accepted", "accepted by the provider", stats.accepted);
    figures.count("duplicates", "duplicates", stats.duplicates);
    changed.ended.put_books(&mut figures, devices, &stats)?;
    Ok(figures)
}

/// The broadcast, in whose middle one comes and then the first leaves.
async fn change(world: &World, senders: &mut Vec<Process>) -> anyhow::Result<Changed> {
    let accepted = world.create(audience::everyone()).await?;
    let change = async {
        world.provider.accepted((world.devices as f64 * ADDED) as u64).await?;
        senders.push(world.start_sender().await?);
        let then = world.provider.accepted((world.devices as f64 * REMOVED) as u64).await?;
        let mut leaving = senders.remove(0);
        let left = calls(&leaving).await?;
        let began = std::time::Instant::now();
        let status = leaving.stop(STOP_PATIENCE).await?;
        ensure!(status.success(), "the sender that left ended with {status}");
        Ok((then.accepted, left, began.elapsed().as_secs_f64()))
    };
    let (ended, (accepted_then, left, leaving_s)) =
        tokio::try_join!(everyone::wait(world, accepted), change)?;
    let [stayed, came] = &senders[..] else { anyhow::bail!("two senders are left") };
    let calls = [left, calls(stayed).await?, calls(came).await?];
    Ok(Changed { ended, accepted_then, leaving_s, calls })
}

/// The calls that a sender has made.
async fn calls(sender: &Process) -> anyhow::Result<f64> {
    let admin = sender.admin().context("a sender has an admin port")?;
    Ok(counter(&metrics(admin).await?, SENDER_CALLS))
}
