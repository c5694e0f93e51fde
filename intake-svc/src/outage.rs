//! Background work that fails: one line when it begins to, one when it works again, and longer and longer pauses between.

use std::time::{Duration, Instant};

use bongsu_store::StoreError;
use rand::Rng as _;

use crate::metrics;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How a piece of background work has been doing.
#[derive(Debug)]
pub(crate) struct Outage {
    task: &'static str,
    since: Option<(Instant, Duration)>,
}

impl Outage {
    pub fn new(task: &'static str) -> Self {
        Self { task, since: None }
    }

    /// It worked.
    pub fn over(&mut self) {
        if let Some((since, _)) = self.since.take() {
            let seconds = since.elapsed().as_secs_f64();
            tracing::info!(task = self.task, after_seconds = seconds, "background work goes on");
        }
    }

    /// It failed; returns how long to wait before the next try.
    pub fn failed(&mut self, error: &StoreError) -> Duration {
        metrics::background_error(self.task);
        let (since, pause) = match self.since {
            Some((since, pause)) => (since, (pause * 2).min(LONGEST_PAUSE)),
            None => {
                if error.is_unavailable() {
                    tracing::warn!(task = self.task, %error, "background work waits");
                } else {
                    tracing::error!(task = self.task, %error, "background work fails; it is tried again");
                }
                (Instant::now(), FIRST_PAUSE)
            }
        };
        self.since = Some((since, pause));
        // Half of it by chance, so that workers and processes do not come back at one moment.
        rand::rng().random_range(pause / 2..=pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew_after_success() {
        let mut outage = Outage::new("test");
        let error = StoreError::Unavailable("down".into());
        let pauses: Vec<Duration> = (0..20).map(|_| outage.failed(&error)).collect();
        assert!(pauses[0] <= FIRST_PAUSE && pauses[19] >= LONGEST_PAUSE / 2, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        outage.over();
        assert!(outage.failed(&error) <= FIRST_PAUSE);
    }
}
