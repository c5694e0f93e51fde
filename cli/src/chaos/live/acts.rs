//! What is done to the processes of a live trial.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bongsu_ops::local_postgres::Shutdown;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::super::plan::Scale;
use super::super::trial::Directory;
use super::super::world::World;
use super::plan::{Act, Plan};
use super::redis::Redis;
use crate::live::network::Network;

/// Between two looks whether Postgres answers again.
const LOOK: Duration = Duration::from_millis(50);
/// How long Postgres may take to come back.
const POSTGRES_PATIENCE: Duration = Duration::from_secs(60);
/// How long a sender may drain beyond its calls.
const DRAIN_PATIENCE: Duration = Duration::from_secs(20);

/// Does what the plan says, each act at its time or after the one before; clients and callers learn where things are.
pub async fn do_all(
    world: &mut World,
    plan: &Plan,
    scale: Scale,
    directory: &Directory,
    network: &Network,
) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x5eed);
    let began = Instant::now();
    for (when, act) in &plan.acts {
        tokio::time::sleep(when.saturating_sub(began.elapsed())).await;
        let victim = rng.random_range(0..world.senders.len());
        act.play(world, victim, scale, directory, network).await.with_context(|| format!("{act:?}"))?;
    }
    Ok(())
}

/// Tells callers and clients where things are now.
pub fn note(world: &World, directory: &Directory, network: &Network) -> anyhow::Result<()> {
    directory.note(world);
    network.set(world.live_urls()?);
    Ok(())
}

impl Act {
    async fn play(
        self,
        world: &mut World,
        victim: usize,
        scale: Scale,
        directory: &Directory,
        network: &Network,
    ) -> anyhow::Result<()> {
        match self {
            Self::KillSender { restart_after } => {
                world.senders.remove(victim).process.kill9().await.context("killing a sender")?;
                note(world, directory, network)?;
                tokio::time::sleep(restart_after).await;
                world.fill_up().await?;
            }
            Self::FreezeSender { beyond_lease } => {
                world.freeze(victim, true);
                tokio::time::sleep(scale.lease + beyond_lease).await;
                world.freeze(victim, false);
            }
            Self::DrainSender => {
                let mut leaving = world.senders.remove(victim);
                note(world, directory, network)?;
                let patience = scale.call_timeout * 4 + DRAIN_PATIENCE;
                crate::stack::stop_all([&mut leaving.process], patience).await;
                world.fill_up().await?;
            }
            Self::KillIntake => world.restart_intake().await?,
            Self::RestartPostgres { crash } => restart_postgres(world, crash).await?,
            Self::KillRedis { down_for } => redis(world)?.kill(down_for).await?,
            Self::PauseRedis { length } => redis(world)?.pause(length).await?,
        }
        note(world, directory, network)
    }
}

fn redis(world: &World) -> anyhow::Result<&Redis> {
    world.redis.as_ref().context("acts of Redis are drawn only where there is one")
}

async fn restart_postgres(world: &World, crash: bool) -> anyhow::Result<()> {
    let postgres = world.stack.postgres().context("a run has a private PostgreSQL")?.clone();
    let shutdown = if crash { Shutdown::Immediate } else { Shutdown::Fast };
    // Blocks for about a second, while clients and callers go on.
    tokio::task::spawn_blocking(move || postgres.restart_server(shutdown)).await??;
    let deadline = Instant::now() + POSTGRES_PATIENCE;
    while let Err(error) = world.store.senders().await {
        anyhow::ensure!(Instant::now() < deadline, "Postgres does not come back: {error}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
