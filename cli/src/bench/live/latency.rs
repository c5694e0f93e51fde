//! From CreateBroadcast's call to the clients: notices to one user each at a rate, and one to all.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use anyhow::ensure;

use super::connect::pid;
use super::{Args, PATIENCE};
use crate::bench::audience::{everyone as to_everyone, live_request, one_user};
use crate::bench::callers::{Callers, Calls, put_quantiles};
use crate::bench::everyone::unix_ms;
use crate::bench::kernel::{Watched, cpu_seconds};
use crate::bench::quantile::quantile;
use crate::bench::report::Figures;
use crate::bench::world::World;
use crate::live::crowd::Crowd;
use crate::live::record::Record;
use crate::stack::Process;

/// Calls under way at most.
const CALLERS: u32 = 64;

/// Notices to one user each.
pub async fn notices(
    world: &World,
    crowd: &Crowd,
    senders: &[Process],
    args: &Args,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let callers = Callers {
        count: CALLERS,
        rate: Some(args.rate.into()),
        length: Duration::from_secs(args.seconds),
        users: world.devices,
        seed: world.conditions.seed,
        request: |user| live_request(one_user(user)),
    };
    let clients = world.connections().await?;
    let (received, cpu) = (crowd.received(), cpu(senders)?);
    let calls = callers.call(&clients).await?;
    let all = calls.calls.len();
    crowd.until("every notice received", PATIENCE, |crowd| crowd.received() >= received + all).await?;
    figures.count("notices", "one-user notices", all as u64);
    figures.put("notices_per_s", "one-user notices, per s", all as f64 / calls.seconds);
    let mut latencies = latencies(&calls, &crowd.records());
    ensure!(latencies.len() == all, "{} of {all} notices came", latencies.len());
    put_quantiles(figures, "notice", "a notice from call to client", &mut latencies);
    let used = self::cpu(senders)? - cpu;
    figures.put("notice_cpu_us", "CPU µs each: senders, connections included", used * 1e6 / all as f64);
    Ok(())
}

/// One to all.
pub async fn everyone(
    world: &World,
    crowd: &Crowd,
    senders: &[Process],
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let cpu = cpu(senders)?;
    let mut waited = to_all(world, crowd).await?;
    for (share, name, label) in [
        (0.0, "everyone_first_ms", "one to all from call to client, ms: first"),
        (0.5, "everyone_p50_ms", "one to all from call to client, ms: median"),
        (1.0, "everyone_last_ms", "one to all from call to client, ms: last"),
    ] {
        figures.put(name, label, quantile(&mut waited, share));
    }
    let used = self::cpu(senders)? - cpu;
    figures.put("everyone_cpu_us", "CPU µs each of one to all: senders", used * 1e6 / world.devices as f64);
    Ok(())
}

/// One to all: how long it took until each client had it, from the call, in milliseconds.
pub async fn to_all(world: &World, crowd: &Crowd) -> anyhow::Result<Vec<f64>> {
    let (all, received) = (usize::try_from(world.devices)?, crowd.received());
    let called_at = SystemTime::now();
    let accepted = world.create_as(live_request(to_everyone())).await?;
    crowd
        .until("the broadcast at every client", PATIENCE, |crowd| crowd.received() >= received + all)
        .await?;
    let waited: Vec<f64> =
        received_at(&crowd.records(), accepted.id).map(|at| at - unix_ms(called_at)).collect();
    ensure!(waited.len() == all, "the broadcast came to {} of {all}", waited.len());
    Ok(waited)
}

/// When each client got it, in milliseconds since 1970.
pub fn received_at(records: &[Record], notification: i64) -> impl Iterator<Item = f64> {
    records.iter().filter_map(move |record| Some(unix_ms(record.receipt(notification)?.at)))
}

/// In milliseconds, of those that came.
fn latencies(calls: &Calls, records: &[Record]) -> Vec<f64> {
    let receipts = records.iter().flat_map(|record| &record.receipts);
    let at: HashMap<i64, f64> = receipts.map(|receipt| (receipt.notification, unix_ms(receipt.at))).collect();
    calls.calls.iter().filter_map(|call| Some(at.get(&call.broadcast)? - unix_ms(call.sent_at))).collect()
}

/// Processor time of all senders so far, in seconds.
fn cpu(senders: &[Process]) -> anyhow::Result<f64> {
    let of = |sender: &Process| {
        cpu_seconds(&Watched { name: sender.name().to_owned(), pid: pid(sender)?, family: false })
    };
    senders.iter().map(of).sum()
}
