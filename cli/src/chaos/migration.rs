//! A migration that is killed in its middle: the next one finishes it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_store::Store;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::process::Command;

use super::world::World;

/// A whole migration takes about as long.
const LONGEST_MICROS: u64 = 250_000;

/// Plays it on a database of its own; returns what is wrong afterwards.
pub async fn play(world: &World, executable: &Path, seed: u64) -> anyhow::Result<Vec<String>> {
    let server = world.stack.postgres().context("a run has a private PostgreSQL")?;
    let name = format!("migrated_{seed}");
    bongsu_store::create_database(&server.url("postgres"), &name, None).await?;
    let url = server.url(&name);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut victim = Command::new(executable)
        .arg("migrate")
        .env("BONGSU_DATABASE_URL", &url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting a migration")?;
    tokio::time::sleep(Duration::from_micros(rng.random_range(0..LONGEST_MICROS))).await;
    victim.kill().await.context("killing the migration")?;

    let store = Store::new(&url, 2, "bongsu chaos")?;
    let mut mistakes = Vec::new();
    if let Err(error) = store.migrate().await {
        mistakes.push(format!("after a killed migration the next one fails: {error}"));
    } else if store.migrate().await? != 0 {
        mistakes.push("after a killed migration and a whole one, a third finds something to do".to_owned());
    }
    mistakes
        .extend(store.broken_invariants().await?.into_iter().map(|f| format!("{} {}", f.subject, f.detail)));
    store.close().await;
    Ok(mistakes)
}
