//! An instance is killed, and all its clients come to another one.

use std::collections::HashMap;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};

use super::PATIENCE;
use super::latency::received_at;
use crate::bench::audience::{everyone, live_request};
use crate::bench::callers::put_quantiles;
use crate::bench::everyone::unix_ms;
use crate::bench::report::Figures;
use crate::bench::world::World;
use crate::live::crowd::Crowd;
use crate::live::live_url;
use crate::live::record::Record;
use crate::stack::Process;

/// Kills the first sender, and sends to all at the same moment; ends when all are back and have it. Returns what each got.
pub async fn storm(
    world: &World,
    crowd: Crowd,
    senders: &mut Vec<Process>,
    figures: &mut Figures,
) -> anyhow::Result<Vec<Record>> {
    senders.push(world.start_sender().await?);
    let mut victim = senders.remove(0);
    let dead = live_url(&victim)?;
    crowd.go_to(senders.iter().map(live_url).collect::<anyhow::Result<Vec<_>>>()?);
    let all = usize::try_from(world.devices)?;
    let received = crowd.received();
    let breaks_before: u32 = crowd.records().iter().map(|record| record.breaks).sum();
    let killed_at = SystemTime::now();
    victim.kill9().await.context("killing a sender")?;
    let accepted = world.create_as(live_request(everyone())).await?;
    let over = |crowd: &Crowd| crowd.connected() == all && crowd.received() >= received + all;
    crowd.until("every client being back, with the broadcast", PATIENCE, over).await?;
    let records = crowd.leave().await;

    let since = |at: SystemTime| unix_ms(at) - unix_ms(killed_at);
    let cut_off: Vec<&Record> = records.iter().filter(|record| record.was_at(&dead, killed_at)).collect();
    let mut back: Vec<f64> =
        cut_off.iter().filter_map(|record| Some(since(record.connected_after(killed_at)?))).collect();
    ensure!(back.len() == cut_off.len(), "{} of {} clients came back", back.len(), cut_off.len());
    let mut stalls: Vec<f64> = received_at(&records, accepted.id).map(|at| at - unix_ms(killed_at)).collect();
    figures.count("cut_off", "connections of the killed sender", cut_off.len() as u64);
    put_quantiles(figures, "back", "from the kill until connected again", &mut back);
    put_quantiles(figures, "stall", "from the kill until a broadcast of that moment came", &mut stalls);
    let breaks: u32 = records.iter().map(|record| record.breaks).sum();
    // One break each is the kill itself.
    let in_vain = i64::from(breaks - breaks_before) - i64::try_from(cut_off.len())?;
    figures.count("attempts_in_vain", "attempts in vain to connect again", in_vain);
    if in_vain > 0 {
        world.output.note(&format!("the most frequent break: {}", most_frequent_break(&records)));
    }
    Ok(records)
}

/// Of those that broke more than once, the last.
fn most_frequent_break(records: &[Record]) -> String {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for record in records.iter().filter(|record| record.breaks > 1) {
        *counts.entry(record.last_break.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(because, count)| format!("{because} ({count} clients)")).unwrap_or_default()
}
