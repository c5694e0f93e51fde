//! Medians and quantiles: of values that we have, and of histograms that a process offers.

use std::collections::BTreeMap;

/// The middle value, or the mean of the two in the middle; none of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len().is_multiple_of(2) {
        Some(sorted[sorted.len() / 2 - 1].midpoint(upper))
    } else {
        Some(upper)
    }
}

/// The least value that the given share of the values does not exceed; none of none.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

/// A histogram as Prometheus reads it: how many values are at most so much.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds and how many values are no greater, in order.
    buckets: Vec<(f64, f64)>,
}

impl Histogram {
    /// The histogram of this name in what `/metrics` answered, summed over all its labels.
    pub fn read(metrics: &str, name: &str) -> Self {
        let mut counts: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, count)) = line
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix("_bucket{"))
                .and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let bound = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next());
            let (Some(Ok(bound)), Ok(count)) = (bound.map(str::parse::<f64>), count.trim().parse::<f64>())
            else {
                continue;
            };
            // Bounds are no less than zero, and such numbers are ordered like their bits.
            counts.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += count;
        }
        Self { buckets: counts.into_values().collect() }
    }

    /// Adds what another process has counted in the same buckets.
    pub fn add(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
    }

    /// About the value that the given share does not exceed: within its bucket, values are taken to be spread evenly. Of
    /// what is beyond the last bound, that bound.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = self.buckets.last().map(|(_, count)| count * share).filter(|wanted| *wanted > 0.0)?;
        let (mut below, mut counted) = (0.0, 0.0);
        for &(bound, count) in &self.buckets {
            if count >= wanted {
                let part = (wanted - counted) / (count - counted);
                return Some(if bound.is_finite() { below + (bound - below) * part } else { below });
            }
            (below, counted) = (bound, count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let mut of = |share| quantile(&mut values, share);
        assert_eq!([of(0.0), of(0.5), of(0.99), of(1.0)], [Some(1.0), Some(50.0), Some(99.0), Some(100.0)]);
        assert_eq!(quantile(&mut [7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    const METRICS: &str = "# TYPE x_seconds histogram\n\
        x_seconds_bucket{provider=\"a\",le=\"0.001\"} 10\n\
        x_seconds_bucket{provider=\"a\",le=\"0.01\"} 90\n\
        x_seconds_bucket{provider=\"a\",le=\"+Inf\"} 99\n\
        x_seconds_bucket{provider=\"b\",le=\"0.001\"} 0\n\
        x_seconds_bucket{provider=\"b\",le=\"0.01\"} 0\n\
        x_seconds_bucket{provider=\"b\",le=\"+Inf\"} 1\n\
        x_seconds_sum 3\nx_seconds_count 100\nxx_seconds_bucket{le=\"0.001\"} 5\n";

    #[test]
    fn a_histogram_is_summed_over_its_labels() {
        let histogram = Histogram::read(METRICS, "x_seconds");
        assert_eq!(histogram.buckets, [(0.001, 10.0), (0.01, 90.0), (f64::INFINITY, 100.0)]);
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(twice.quantile(0.5), histogram.quantile(0.5));
        assert_eq!(Histogram::read(METRICS, "y_seconds"), Histogram::default());
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let histogram = Histogram::read(METRICS, "x_seconds");
        let half = histogram.quantile(0.5).expect("it has values");
        assert!((half - 0.0055).abs() < 1e-9, "{half}");
        assert_eq!(histogram.quantile(0.99), Some(0.01), "more than the last bound is not known");
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
