//! Looking at a run while it goes on: what the provider has accepted, and what each process has used for it.

use std::convert::Infallible;
use std::time::Duration;

use bongsu_store::Store;
use provider_sim::Stats;
use tokio::time::{Instant, MissedTickBehavior};

use super::kernel::{self, Watched};
use super::provider::Provider;
use super::steady::Sample;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What to look at.
#[derive(Debug)]
pub struct Observer<'a> {
    pub provider: &'a Provider,
    /// Where the write-ahead log is read; none where no database is at work.
    pub store: Option<&'a Store>,
    pub watched: Vec<Watched>,
    /// What counts as done.
    pub done: fn(&Stats) -> u64,
}

impl Observer<'_> {
    /// Looks until `work` has ended.
    pub async fn during<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(T, Vec<Sample>)> {
        let mut samples = Vec::new();
        let worked = tokio::select! {
            worked = work => worked?,
            failed = self.look(&mut samples) => match failed? {},
        };
        Ok((worked, samples))
    }

    async fn look(&self, samples: &mut Vec<Sample>) -> anyhow::Result<Infallible> {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let stats = self.provider.stats().await?;
            let (done, retried) = ((self.done)(&stats), stats.transient_recovered);
            // Right after the count, which all else is divided by.
            let at_s = began.elapsed().as_secs_f64();
            let cpu_s = self.watched.iter().map(kernel::cpu_seconds).collect::<anyhow::Result<_>>()?;
            let (wal_bytes, fanning_out) = match self.store {
                Some(store) => (store.wal_position().await?, store.is_fanning_out().await?),
                None => (0, false),
            };
            samples.push(Sample { at_s, done, retried, cpu_s, wal_bytes, fanning_out });
        }
    }
}
