//! One broadcast to every device, from CreateBroadcast to the last outcome, and what must hold of it.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use bongsu_proto::v1;
use provider_sim::Stats;

use super::audience;
use super::measure::{Measured, measure};
use super::report::Figures;
use super::world::{Accepted, World};

/// A broadcast that has ended.
#[derive(Debug)]
pub struct Ended {
    pub accepted: Accepted,
    broadcast: v1::Broadcast,
}

/// Sends to everyone and waits for the end.
pub async fn send(world: &World) -> anyhow::Result<Ended> {
    let accepted = world.create(audience::everyone()).await?;
    wait(world, accepted).await
}

/// Waits for the end of one that was accepted.
pub async fn wait(world: &World, accepted: Accepted) -> anyhow::Result<Ended> {
    Ok(Ended { accepted, broadcast: world.ended(accepted.id).await? })
}

/// Creates so many broadcasts to everyone, one right after the other.
pub async fn create(world: &World, broadcasts: u8) -> anyhow::Result<Vec<Accepted>> {
    let mut accepted = Vec::new();
    for _ in 0..broadcasts {
        accepted.push(world.create(audience::everyone()).await?);
    }
    Ok(accepted)
}

/// Waits for the end of all.
pub async fn wait_all(world: &World, accepted: Vec<Accepted>) -> anyhow::Result<Vec<Ended>> {
    let mut ended = Vec::new();
    for accepted in accepted {
        ended.push(wait(world, accepted).await?);
    }
    Ok(ended)
}

/// Sends to everyone, and nothing else, and measures.
pub async fn run(world: &mut World) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let measured = measure(world, send).await?;
    figures(&measured, devices)
}

fn figures(measured: &Measured<Ended>, devices: u64) -> anyhow::Result<Figures> {
    let Measured { outcome: ended, stats, .. } = measured;
    let total_s = ended.total_s()?;
    let mut figures = Figures::default();
    figures.put("end_to_end_per_s", "end to end, per s", devices as f64 / total_s);
    measured.put_steady(&mut figures, devices);
    figures.put("total_s", "from answer to completed, s", total_s);
    figures.put("accept_ms", "accept, ms", ended.accepted.took.as_secs_f64() * 1e3);
    let first = stats.first_accepted_unix_ms.map(|at| at as f64 - unix_ms(ended.accepted.at));
    figures.put("first_accepted_ms", "from answer to first acceptance, ms", first);
    measured.put_totals(&mut figures);
    ended.put_books(&mut figures, devices, stats)?;
    Ok(figures)
}

impl Ended {
    /// From the answer to CreateBroadcast until the broadcast was completed, both by the clock of this machine.
    pub fn total_s(&self) -> anyhow::Result<f64> {
        let settled = self.broadcast.settle_time.context("it has ended without a time")?;
        let settled_ms = settled.seconds as f64 * 1e3 + f64::from(settled.nanos) / 1e6;
        Ok((settled_ms - unix_ms(self.accepted.at)) / 1e3)
    }

    pub fn counts(&self) -> v1::DeliveryCounts {
        self.broadcast.counts.unwrap_or_default()
    }

    /// What became of the deliveries; where the books do not balance, no other number means anything. `stats` may count
    /// acceptances of other broadcasts as well.
    pub fn put_books(&self, figures: &mut Figures, devices: u64, stats: &Stats) -> anyhow::Result<()> {
        let counts = self.counts();
        ensure!(counts.total.unsigned_abs() == devices, "{} deliveries for {devices} devices", counts.total);
        put_counts(figures, counts, devices, stats)
    }
}

/// The same of several broadcasts to all `devices`.
pub fn put_all_books(
    figures: &mut Figures,
    ended: &[Ended],
    devices: u64,
    stats: &Stats,
) -> anyhow::Result<()> {
    let mut sum = v1::DeliveryCounts::default();
    for counts in ended.iter().map(Ended::counts) {
        ensure!(counts.total.unsigned_abs() == devices, "{} deliveries for {devices} devices", counts.total);
        sum.total += counts.total;
        sum.sent += counts.sent;
        sum.dead += counts.dead;
    }
    put_counts(figures, sum, devices * ended.len() as u64, stats)
}

fn put_counts(
    figures: &mut Figures,
    counts: v1::DeliveryCounts,
    deliveries: u64,
    stats: &Stats,
) -> anyhow::Result<()> {
    ensure!(counts.sent + counts.dead == counts.total, "sent and dead are not all: {counts:?}");
    let lost = deliveries.saturating_sub(stats.accepted + counts.dead.unsigned_abs());
    ensure!(lost == 0, "{lost} deliveries are neither accepted nor dead: {counts:?}");
    figures.count("sent", "deliveries sent", counts.sent);
    figures.count("dead", "deliveries dead", counts.dead);
    figures.count("lost", "deliveries lost", lost);
    Ok(())
}

pub fn unix_ms(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
