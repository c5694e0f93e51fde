//! The steady part of a run: between a tenth and nine tenths of what there is to do, so that neither start nor end counts, and
//! after the fan-out, which does not last.

/// The shares of the work between which a run is steady.
const FROM: f64 = 0.1;
const TO: f64 = 0.9;

/// A look at a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since any moment that is the same for all samples.
    pub at_s: f64,
    /// How much of the work is done: deliveries accepted by the provider, or calls.
    pub done: u64,
    /// Of that, what a call had failed for before.
    pub retried: u64,
    /// Processor time of each watched process so far, in seconds, in their order.
    pub cpu_s: Vec<f64>,
    /// Where the write-ahead log is, in bytes; 0 where there is no database.
    pub wal_bytes: i64,
    /// Whether deliveries were still being made.
    pub fanning_out: bool,
}

/// What happened between two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub seconds: f64,
    pub done: u64,
    /// Processor time of each watched process, in seconds.
    pub cpu_s: Vec<f64>,
    pub wal_bytes: i64,
}

impl Window {
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.seconds
    }

    /// Microseconds of the nth watched process for one piece of work.
    pub fn cpu_us_each(&self, nth: usize) -> f64 {
        self.cpu_s.get(nth).copied().unwrap_or(f64::NAN) * 1e6 / self.done as f64
    }

    pub fn wal_bytes_each(&self) -> f64 {
        self.wal_bytes as f64 / self.done as f64
    }
}

/// From the first sample to the last.
pub fn whole(samples: &[Sample]) -> Option<Window> {
    between(samples.first()?, samples.last()?)
}

/// The widest window between samples that lies within the steady part of `total` pieces of work; none where the work was
/// done too fast for two samples there.
pub fn steady(samples: &[Sample], total: u64) -> Option<Window> {
    let within = |sample: &&Sample| {
        let share = sample.done as f64 / total as f64;
        (FROM..=TO).contains(&share) && !sample.fanning_out
    };
    let first = samples.iter().find(within)?;
    let last = samples.iter().rfind(within)?;
    between(first, last)
}

fn between(first: &Sample, last: &Sample) -> Option<Window> {
    (last.done > first.done && last.at_s > first.at_s).then(|| Window {
        seconds: last.at_s - first.at_s,
        done: last.done - first.done,
        cpu_s: last.cpu_s.iter().zip(&first.cpu_s).map(|(last, first)| last - first).collect(),
        wal_bytes: last.wal_bytes - first.wal_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(done: &[u64]) -> Vec<Sample> {
        let sample = |(n, &done): (usize, &u64)| Sample {
            at_s: n as f64 / 10.0,
            done,
            retried: 0,
            cpu_s: vec![n as f64 / 100.0],
            wal_bytes: done as i64 * 7,
            fanning_out: false,
        };
        done.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn start_and_end_do_not_count() {
        let window =
            steady(&samples(&[0, 5, 20, 50, 80, 95, 100, 100]), 100).expect("three samples are within");
        assert_eq!((window.done, window.wal_bytes), (60, 420));
        assert!((window.seconds - 0.2).abs() < 1e-9 && (window.per_second() - 300.0).abs() < 1e-6);
        assert!((window.cpu_us_each(0) - 20_000.0 / 60.0).abs() < 1e-6, "{}", window.cpu_us_each(0));
        assert!(window.cpu_us_each(1).is_nan(), "nobody of that number was watched");
    }

    #[test]
    fn the_fan_out_does_not_count() {
        let mut samples = samples(&[0, 5, 20, 50, 80, 95]);
        samples[2].fanning_out = true;
        assert_eq!(steady(&samples, 100).expect("two samples are after it").done, 30);
        samples[3].fanning_out = true;
        assert_eq!(steady(&samples, 100), None);
    }

    #[test]
    fn the_whole_has_start_and_end() {
        let window = whole(&samples(&[0, 5, 50, 100, 100])).expect("something was done");
        assert_eq!((window.done, window.wal_bytes), (100, 700));
        assert_eq!((whole(&samples(&[3, 3])), whole(&[])), (None, None));
    }

    #[test]
    fn a_run_that_was_too_fast_has_no_steady_part() {
        for done in [&[][..], &[0, 100], &[0, 50, 100], &[50, 50], &[0, 0]] {
            assert_eq!(steady(&samples(done), 100), None, "{done:?}");
        }
        assert_eq!(steady(&samples(&[0, 0]), 0), None);
    }
}
