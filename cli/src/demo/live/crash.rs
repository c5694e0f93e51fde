//! The crash of the live demo: SIGKILL for a sender while those who are connected to it are getting the broadcast.

use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use super::super::sim::Sim;
use super::play::PATIENCE;
use crate::live::crowd::Crowd;
use crate::live::live_url;
use crate::live::record::Record;
use crate::stack::Process;

/// What the dead sender had already written is still on its way to the provider.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What was seen at the kill.
#[derive(Debug, Clone)]
pub struct Crash {
    /// Where its clients were connected.
    pub address: String,
    pub at: SystemTime,
    /// Clients that had got the broadcast by then, of any sender.
    pub received: usize,
    /// What the provider had accepted.
    pub accepted: u64,
    /// What the database had recorded a moment before.
    pub recorded: u64,
}

/// Kills the first sender once so many clients have got the broadcast.
pub async fn kill_one(
    after: usize,
    crowd: &Crowd,
    senders: &mut Vec<Process>,
    sim: &Sim,
    recorded: impl AsyncFnOnce() -> anyhow::Result<u64>,
) -> anyhow::Result<Crash> {
    crowd.until("the kill", PATIENCE, |crowd| crowd.received() >= after).await?;
    // Before the kill: afterwards the others go on recording, and what is unrecorded would look like less.
    let recorded = recorded().await?;
    let mut victim = senders.remove(0);
    let received = crowd.received();
    let at = SystemTime::now();
    victim.kill9().await.context("killing the sender")?;
    tokio::time::sleep(LAST_WORDS).await;
    let accepted = sim.mark().await?.accepted;
    let address = live_url(&victim)?;
    Ok(Crash { address, at, received, accepted, recorded })
}

impl Crash {
    /// How long it took until each of the clients that were connected there was connected again; none of one that is not.
    pub fn absences(&self, records: &[Record]) -> Vec<Option<Duration>> {
        let absence = |record: &Record| {
            let back = record.connected_after(self.at);
            back.and_then(|back| back.duration_since(self.at).ok())
        };
        records.iter().filter(|record| record.was_at(&self.address, self.at)).map(absence).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn an_absence_is_from_the_kill_until_the_next_connection_of_those_who_were_there() {
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(second);
        let record = |connections: &[(&str, u64, Option<u64>)]| {
            let mut record = Record::default();
            for (address, from, to) in connections {
                record.connected((*address).to_owned(), at(*from));
                to.map(|to| record.disconnected(at(to)));
            }
            record
        };
        let crash = Crash { address: "a".to_owned(), at: at(10), received: 0, accepted: 0, recorded: 0 };
        let records = [
            record(&[("a", 1, Some(10)), ("b", 12, None)]),
            record(&[("b", 1, None)]),
            record(&[("a", 1, Some(5)), ("b", 6, None)]),
            record(&[("a", 1, Some(11))]),
        ];
        assert_eq!(crash.absences(&records), [Some(Duration::from_secs(2)), None]);
    }
}
