//! The crash of the demo: SIGKILL at the moment the provider has accepted so many.

use std::time::Duration;

use anyhow::Context as _;

use super::Args;
use super::sim::Sim;
use crate::stack::{Process, SenderOptions, Stack};

/// After the kill, what the dead sender had already written is still on its way to the provider, which reads it and
/// delivers. Only then is the stall's beginning noted.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What was seen at the kill.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// What the provider had accepted, calls not yet answered included.
    pub accepted: u64,
    /// Of that, what the database had recorded.
    pub recorded: u64,
}

/// Kills the first sender at its moment, and where it was the only one starts another after a while.
pub async fn kill_and_restart(
    args: &Args,
    stack: &mut Stack,
    senders: &mut Vec<Process>,
    sender: SenderOptions,
    sim: &Sim,
    recorded: impl AsyncFnOnce() -> anyhow::Result<u64>,
    note: impl Fn(&str),
) -> anyhow::Result<Kill> {
    sim.accepted(args.kill_after()).await?;
    let mut victim = senders.remove(0);
    victim.kill9().await.context("killing the sender")?;
    tokio::time::sleep(LAST_WORDS).await;
    let accepted = sim.mark().await?.accepted;
    let kill = Kill { accepted, recorded: recorded().await? };
    note(&format!(
        "killed {} with SIGKILL: the provider had accepted {}, {} of them were recorded",
        victim.name(),
        kill.accepted,
        kill.recorded
    ));
    if senders.is_empty() {
        tokio::time::sleep(Duration::from_secs_f64(args.restart_after_s)).await;
        senders.push(stack.spawn_sender(sender).await?);
        note("a sender was started again");
    }
    Ok(kill)
}
