//! Connects all clients, and says what that took.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::PATIENCE;
use super::latency::to_all;
use crate::bench::audience::user;
use crate::bench::kernel::memory_bytes;
use crate::bench::quantile::quantile;
use crate::bench::report::Figures;
use crate::bench::world::World;
use crate::live::crowd::{Crowd, Habits};
use crate::live::live_url;
use crate::live::network::Network;
use crate::stack::Process;

/// Clients that are connecting at a time.
const CONNECTING: usize = 256;
/// How long an answer may take to begin: while a machine is busy with thousands of others, long.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// As many clients as there are devices, each of the user of one.
pub async fn all(
    world: &World,
    senders: &[Process],
    acknowledge: bool,
    figures: &mut Figures,
) -> anyhow::Result<Crowd> {
    let addresses = senders.iter().map(live_url).collect::<anyhow::Result<Vec<_>>>()?;
    let count = usize::try_from(world.devices)?;
    // Signed before, since that is not what is measured.
    let tokens: Vec<String> = (0..world.devices).map(|n| world.live_token(&user(n))).collect();
    let habits = Habits { acknowledges_after: acknowledge.then_some(Duration::ZERO), ..Habits::default() };
    let before = memory(senders)?;
    let began = Instant::now();
    let mut crowd = Crowd::new(Network::new(addresses, ANSWER_PATIENCE, None)?);
    for (joined, token) in tokens.into_iter().enumerate() {
        crowd.until("connecting", PATIENCE, |crowd| crowd.connected() + CONNECTING > joined).await?;
        crowd.join(token, habits.clone());
    }
    crowd.until("connected", PATIENCE, |crowd| crowd.connected() == count).await?;
    let took = began.elapsed().as_secs_f64();
    figures.count("connections", "connections", world.devices);
    figures.put("connect_per_s", "connected, per s", world.devices as f64 / took);
    // A stream has its first event before its inbox was read. Notices would wait for that, and what they take is another question.
    let mut waited = to_all(world, &crowd).await?;
    let ready = quantile(&mut waited, 1.0).map(|ms| ms / 1e3);
    figures.put("ready_s", "connected, until a first broadcast is at all, s", ready);
    let grown = memory(senders)?.saturating_sub(before) as f64 / world.devices as f64;
    figures.put("connection_bytes", "sender's memory, bytes per connection", grown);
    Ok(crowd)
}

/// Of all of them, in bytes.
fn memory(senders: &[Process]) -> anyhow::Result<u64> {
    senders.iter().map(|sender| memory_bytes(pid(sender)?)).sum()
}

pub fn pid(sender: &Process) -> anyhow::Result<u32> {
    sender.pid().with_context(|| format!("{} is gone", sender.name()))
}
