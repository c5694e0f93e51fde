//! `bongsu demo --live`: live first, push for those who are not there, with a crash among those who are.
//!
//! * [`play`] plays it and measures, [`audience`] are the users and their clients, [`crash`] kills a sender
//! * [`facts`] is what was measured and what must hold, [`story`] tells it to people

mod audience;
mod crash;
mod facts;
mod play;
mod story;

use super::Args;
use crate::Context;
use crate::error::Failure;
use facts::Facts;

/// Senders, of which one is killed.
const SENDERS: usize = 3;

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct LiveArgs {
    /// Play the live channel instead: some users are connected, and get it by stream; a push goes to those who are not, and to
    /// those whose client does not acknowledge in time
    #[arg(long)]
    pub live: bool,

    /// With --live: users who are connected, of as many as there are devices
    #[arg(long, requires = "live", default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connected: u32,

    /// With --live: of these, how many have a client that does not acknowledge
    #[arg(long, requires = "live", default_value_t = 100, value_name = "N")]
    pub silent: u32,

    /// With --live: how long a connected user has to acknowledge, in milliseconds
    #[arg(long, requires = "live", default_value_t = 3_000, value_name = "MS", value_parser = clap::value_parser!(u32).range(1_000..=3_600_000))]
    pub ack_timeout_ms: u32,
}

impl LiveArgs {
    /// What does not fit together.
    pub fn check(&self, devices: u32) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.live || self.connected <= devices,
            "--connected {} is more than --devices {devices}",
            self.connected
        );
        anyhow::ensure!(
            !self.live || self.silent <= self.connected,
            "--silent {} is more than --connected {}",
            self.silent,
            self.connected
        );
        Ok(())
    }
}

/// Plays it, tells it, and returns the promises that were not kept.
pub async fn show(args: &Args, context: &Context) -> Result<Vec<String>, Failure> {
    let facts: Facts = play::play(args, context).await?;
    context.output.either(&facts, || story::tell(&facts))?;
    Ok(facts.broken_promises())
}
