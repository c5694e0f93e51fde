//! `bongsu bench retries`: whether retries and fresh work both advance where many calls fail.

use super::everyone;
use super::measure::measure;
use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use super::steady::Sample;
use super::world::World;
use crate::output::Output;

const DEFAULTS: Defaults = Defaults { latency_ms: 0, jitter_ms: 0, transient: 0.3, in_flight: None };
/// It is looked at while there is fresh work in plenty: until this part of what succeeds at once has.
const FRESH: f64 = 0.9;

/// One broadcast to everybody, 30 % of whose calls fail: the rates of fresh work and of retries while there are both
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub large: Large,
}

/// While both fresh work and retries were due.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Both {
    seconds: f64,
    fresh: u64,
    retried: u64,
    /// The longest time in which none of these was accepted.
    fresh_stall_s: f64,
    retried_stall_s: f64,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(DEFAULTS, output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast");
        product.add(retries(&mut world).await?);
    }
    Ok(world.report("retries", &[], vec![product], Figures::default()).await)
}

async fn retries(world: &mut World) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let measured = measure(world, everyone::send).await?;
    let ended = &measured.outcome;
    let both = both(&measured.samples);
    if both.is_none() {
        world
            .output
            .note("the fresh work was done before the first retries were due: give it more --devices");
    }
    let mut figures = Figures::default();
    figures.put("both_s", "fresh work and retries at once, s", both.map(|both| both.seconds));
    let fresh = both.map(|both| both.fresh as f64 / both.seconds);
    let retried = both.map(|both| both.retried as f64 / both.seconds);
    figures.put("fresh_per_s", "then accepted at the first call, per s", fresh);
    figures.put("retried_per_s", "then accepted at a later call, per s", retried);
    figures.put("fresh_stall_ms", "longest without the first, ms", both.map(|both| both.fresh_stall_s * 1e3));
    figures.put(
        "retried_stall_ms",
        "longest without the second, ms",
        both.map(|both| both.retried_stall_s * 1e3),
    );
    figures.put("total_s", "from answer to completed, s", ended.total_s()?);
    measured.put_steady(&mut figures, devices);
    measured.put_totals(&mut figures);
    ended.put_books(&mut figures, devices, &measured.stats)?;
    Ok(figures)
}

/// From the first retry that was accepted, as long as there is fresh work; none where that leaves not two samples.
fn both(samples: &[Sample]) -> Option<Both> {
    let fresh = |sample: &Sample| sample.done.saturating_sub(sample.retried);
    let enough = fresh(samples.last()?) as f64 * FRESH;
    let during: Vec<&Sample> =
        samples.iter().filter(|sample| sample.retried > 0 && fresh(sample) as f64 <= enough).collect();
    let (first, last) = (*during.first()?, *during.last()?);
    (last.at_s > first.at_s).then(|| Both {
        seconds: last.at_s - first.at_s,
        fresh: fresh(last) - fresh(first),
        retried: last.retried - first.retried,
        fresh_stall_s: longest_stall(&during, fresh),
        retried_stall_s: longest_stall(&during, |sample| sample.retried),
    })
}

/// The longest time between samples, the last included, in which a count did not grow.
fn longest_stall(samples: &[&Sample], count: impl Fn(&Sample) -> u64) -> f64 {
    let mut longest: f64 = 0.0;
    let mut grown_at: Option<(f64, u64)> = None;
    for sample in samples {
        match grown_at {
            Some((at, known)) if count(sample) == known => longest = longest.max(sample.at_s - at),
            _ => grown_at = Some((sample.at_s, count(sample))),
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, done: u64, retried: u64) -> Sample {
        Sample { at_s, done, retried, cpu_s: vec![], wal_bytes: 0, fanning_out: false }
    }

    #[test]
    fn it_is_looked_at_only_while_there_are_both() {
        let samples = [
            sample(0.0, 0, 0),
            sample(1.0, 100, 0),
            sample(2.0, 210, 10),
            sample(3.0, 310, 10),
            sample(4.0, 410, 10),
            sample(5.0, 600, 100),
            sample(6.0, 1_090, 90 + 100),
            sample(7.0, 1_400, 400),
        ];
        let seen = both(&samples).expect("from 2 s to 6 s");
        assert_eq!((seen.seconds, seen.fresh, seen.retried), (4.0, 700, 180));
        assert_eq!((seen.fresh_stall_s, seen.retried_stall_s), (0.0, 2.0));
        assert_eq!(both(&samples[..2]), None, "no retry was due");
        assert_eq!(both(&[]), None);
    }
}
