//! Probing parked providers: one call at a time, over all senders, tells whether a provider works again.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{Probe, Result};
use tokio::time::Instant;

use super::call::Ready;
use super::claim::Claimer;
use super::flush::Settled;
use super::health;
use super::line::Line;

/// How much longer than a call a probe may take before another sender tries.
const SPARE: Duration = Duration::from_secs(2);
/// Where nothing but retries is left to probe with, the failures may be the devices' own: after this long they are tried,
/// and counted, like any others.
const RETRIES_ONLY: Duration = Duration::from_secs(300);

impl Claimer {
    /// Makes the probes that are due.
    pub(super) async fn probe(&mut self) -> Result<()> {
        let due: Vec<_> = self.engine.lines.iter().filter(|line| line.take_probe_due()).cloned().collect();
        for line in due {
            let patience = self.engine.limits.call_timeout + SPARE;
            let Some(probe) = self.engine.store.take_probe(line.provider, patience).await? else {
                continue; // somebody else makes it
            };
            if !self.probe_line(&line, probe).await? {
                // Nothing to probe with.
                self.engine.store.postpone_probe(probe).await?;
            }
        }
        Ok(())
    }

    /// False where no call was made.
    async fn probe_line(&mut self, line: &Arc<Line>, probe: Probe) -> Result<bool> {
        let lease = self.engine.limits.lease;
        let sent = Instant::now();
        let reclaim = self.may_reclaim();
        let held = self.engine.holdings.leases();
        let Some(batch) = self.lane.claim_probe(line.provider, lease, reclaim, &held).await? else {
            return Ok(false);
        };
        let Some((_, held, due)) = self.take_in(&[batch], sent).await?.pop() else { return Ok(false) };
        let mut jobs = self.settle_or_queue(&held, due).await;
        if batch.failures > 0 && probe.parked >= RETRIES_ONLY && !probe.doubted {
            health::resume(&self.engine, line, probe);
            if !jobs.is_empty() {
                line.queue.push(held, jobs);
            }
            return Ok(true);
        }
        // Any of them: the same one every time might be the one that always fails.
        let chosen = jobs.swap_remove_front(rand::random_range(0..jobs.len().max(1)));
        for job in jobs {
            self.settle(Settled::Back(job.held)).await;
        }
        let Some(job) = chosen else { return Ok(false) };
        // Beside the bounds of other calls: where those are all taken, the provider must be tried all the same.
        self.calls
            .begin(Ready {
                line: line.clone(),
                job,
                unrecorded: None,
                flight: None,
                slot: None,
                place: None,
                probe: Some(probe),
            })
            .await;
        Ok(true)
    }
}
