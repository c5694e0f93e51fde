//! `bongsu bench control`: how soon a broadcast under way stops, goes on, and ends, after the answer that says so.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use bongsu_proto::v1;

use super::audience;
use super::everyone::unix_ms;
use super::measure::{Measured, measure};
use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::client::Client;
use crate::output::Output;

/// It is paused, and cancelled, once this part of the devices has it.
const PAUSED_AT: f64 = 0.1;
const CANCELLED_AT: f64 = 0.4;
/// What the API promises: no call begins later than this after the answer.
const BOUND: Duration = Duration::from_secs(1);
/// How often it is looked whether it is cancelled.
const LOOK: Duration = Duration::from_millis(100);
/// A provider that takes a while to answer, so that calls are in flight whenever anything is asked.
const DEFAULTS: Defaults = Defaults { latency_ms: 30, jitter_ms: 10, transient: 0.0, in_flight: Some(1_024) };

/// One broadcast that is paused, resumed and cancelled under way: when the last call began after each answer
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub large: Large,

    /// How long it stays paused, in seconds: more than the second in which calls may still begin
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    paused_s: f64,
}

/// Something that was asked, and answered.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// When it was asked and answered, in microseconds since 1970.
    asked: u64,
    answered: u64,
    took: Duration,
    /// Calls that the provider had not answered by then.
    in_flight: u64,
}

/// A broadcast that was paused, resumed and cancelled.
#[derive(Debug)]
struct Ended {
    paused: Told,
    resumed: Told,
    cancelled: Told,
    settled: Duration,
    counts: v1::DeliveryCounts,
}

/// The calls that began after an answer.
#[derive(Debug, PartialEq)]
struct After {
    calls: u64,
    /// Of those, later than [`BOUND`].
    late: u64,
    /// From the answer to the last one; none where none began.
    last: Option<Duration>,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let pause = Duration::try_from_secs_f64(args.paused_s).context("--paused-s is no length of time")?;
    ensure!(pause > BOUND, "--paused-s {} is not more than {} s", args.paused_s, BOUND.as_secs());
    let mut world = args.large.world(DEFAULTS, output).await?;
    ensure!(world.conditions.transient == 0.0, "--transient: only calls that are accepted can be told apart");
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast, paused, resumed and cancelled");
        product.add(once(&mut world, pause).await?);
    }
    let more = [("paused_s", args.paused_s.into()), ("bound_ms", (BOUND.as_millis() as u64).into())];
    Ok(world.report("control", &more, vec![product], Figures::default()).await)
}

async fn once(world: &mut World, pause: Duration) -> anyhow::Result<Figures> {
    let measured = measure(world, async |world| control(world, pause).await).await?;
    let moments = world.provider.acceptances().await?;
    let broken = world.store.broken_invariants().await?;
    ensure!(broken.is_empty(), "the books do not balance: {broken:?}");
    figures(&measured, &moments)
}

async fn control(world: &World, pause: Duration) -> anyhow::Result<Ended> {
    let client = world.connections().await?.into_iter().next().context("a connection to the intake")?;
    let part = |share: f64| (world.devices as f64 * share) as u64;
    let id = world.create(audience::everyone()).await?.id;
    world.provider.accepted(part(PAUSED_AT)).await?;
    let paused = tell(world, &client, async |client| {
        client.broadcasts().pause_broadcast(v1::PauseBroadcastRequest { broadcast_id: id }).await.map(|_| ())
    })
    .await?;
    tokio::time::sleep(pause).await;
    let resumed = tell(world, &client, async |client| {
        client
            .broadcasts()
            .resume_broadcast(v1::ResumeBroadcastRequest { broadcast_id: id })
            .await
            .map(|_| ())
    })
    .await?;
    world.provider.accepted(part(CANCELLED_AT)).await?;
    let began = Instant::now();
    let cancelled = tell(world, &client, async |client| {
        client
            .broadcasts()
            .cancel_broadcast(v1::CancelBroadcastRequest { broadcast_id: id })
            .await
            .map(|_| ())
    })
    .await?;
    loop {
        let broadcast = world.broadcast(id).await?;
        ensure!(broadcast.state() != v1::BroadcastState::Completed, "it was over before it was cancelled");
        if broadcast.state() == v1::BroadcastState::Cancelled {
            let counts = broadcast.counts.unwrap_or_default();
            return Ok(Ended { paused, resumed, cancelled, settled: began.elapsed(), counts });
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn tell(
    world: &World,
    client: &Client,
    ask: impl AsyncFnOnce(&Client) -> Result<(), tonic::Status>,
) -> anyhow::Result<Told> {
    let (asked, began) = (now_us(), Instant::now());
    ask(client).await?;
    let (answered, took) = (now_us(), began.elapsed());
    Ok(Told { asked, answered, took, in_flight: world.provider.stats().await?.open })
}

fn figures(measured: &Measured<Ended>, moments: &[u64]) -> anyhow::Result<Figures> {
    let Measured { outcome: Ended { paused, resumed, cancelled, settled, counts }, stats, .. } = measured;
    ensure!(stats.calls == stats.accepted, "of {} calls {} were accepted", stats.calls, stats.accepted);
    ensure!(counts.pending == 0 && counts.total == counts.sent + counts.cancelled, "no balance: {counts:?}");
    ensure!(
        counts.sent.unsigned_abs() == stats.accepted,
        "{} sent, {} accepted",
        counts.sent,
        stats.accepted
    );
    ensure!(stats.duplicates == 0, "{} duplicates", stats.duplicates);
    let mut figures = Figures::default();
    let (pause, cancel) =
        (after(moments, paused.answered, resumed.asked), after(moments, cancelled.answered, u64::MAX));
    for (name, told, after) in [("pause", paused, pause), ("cancel", cancelled, cancel)] {
        figures.put(format!("{name}_ms"), format!("{name}: answered after, ms"), millis(told.took));
        let last = after.last.map_or(0.0, millis);
        figures.put(
            format!("{name}_last_call_ms"),
            format!("{name}: from answer to the last call begun, ms"),
            last,
        );
        let (calls, late) = (after.calls as f64, after.late as f64);
        figures.put(format!("{name}_calls_after"), format!("{name}: calls begun after the answer"), calls);
        figures.put(format!("{name}_calls_late"), format!("{name}: of these, more than 1 s after it"), late);
        let in_flight = told.in_flight as f64;
        figures.put(format!("{name}_in_flight"), format!("{name}: calls in flight at the answer"), in_flight);
    }
    figures.put("resume_ms", "resume: answered after, ms", millis(resumed.took));
    let first = moments.iter().find(|at| **at >= resumed.asked);
    let first = first.map(|at| (*at as f64 - resumed.answered as f64) / 1e3);
    figures.put("resume_first_call_ms", "resume: from answer to the first call, ms", first);
    figures.put("settled_s", "from asking to cancel to everything final, s", settled.as_secs_f64());
    measured.put_totals(&mut figures);
    figures.count("total", "deliveries made", counts.total);
    figures.count("sent", "deliveries sent", counts.sent);
    figures.count("cancelled", "deliveries cancelled", counts.cancelled);
    Ok(figures)
}

/// Of moments in their order, those after an answer and before something else was asked.
fn after(moments: &[u64], answered: u64, until: u64) -> After {
    let began = &moments[moments.partition_point(|at| *at <= answered)..];
    let began = &began[..began.partition_point(|at| *at < until)];
    let late = began.iter().filter(|at| Duration::from_micros(*at - answered) > BOUND).count();
    let last = began.last().map(|at| Duration::from_micros(at - answered));
    After { calls: began.len() as u64, late: late as u64, last }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn now_us() -> u64 {
    (unix_ms(SystemTime::now()) * 1e3) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_began_between_an_answer_and_the_next_question_is_its_own() {
        let moments = [10, 20, 30, 1_000_025, 1_000_040, 5_000_000];
        let last = Some(Duration::from_micros(1_000_020));
        assert_eq!(after(&moments, 20, 1_000_050), After { calls: 3, late: 2, last });
        assert_eq!(after(&moments, 20, 30), After { calls: 0, late: 0, last: None });
        assert_eq!(after(&moments, 5_000_000, u64::MAX), After { calls: 0, late: 0, last: None });
    }
}
