//! What a metric is called, and what is said of it: each crate has a table of its own, from which the recorder is told and
//! docs/metrics.md, the dashboard and the alerts are checked.

use std::fmt::Write as _;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// Labels that each of its series has.
    pub labels: &'static [&'static str],
    pub meaning: &'static str,
}

/// What is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    Gauge,
    /// Durations in seconds, in buckets.
    Histogram,
}

impl Kind {
    /// As the Prometheus format spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Metric {
    /// A counter with these labels.
    pub const fn counter(name: &'static str, labels: &'static [&'static str], meaning: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels, meaning }
    }

    /// A gauge with these labels.
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], meaning: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels, meaning }
    }

    /// A histogram of seconds with these labels.
    pub const fn seconds(name: &'static str, labels: &'static [&'static str], meaning: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, labels, meaning }
    }
}

/// Tells the process's recorder what these mean.
pub fn describe(metrics: &[Metric]) {
    for metric in metrics {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.meaning),
            Kind::Gauge => describe_gauge!(metric.name, metric.meaning),
            Kind::Histogram => describe_histogram!(metric.name, Unit::Seconds, metric.meaning),
        }
    }
}

/// Writes what is known of some gauges in the Prometheus format, without a recorder: series that were not seen this time are
/// not there this time.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Adds a gauge with its series: the values of its labels, in their order, and its own.
    pub fn gauge(&mut self, metric: &Metric, series: &[(&[&str], f64)]) {
        if series.is_empty() {
            return;
        }
        let Metric { name, kind, labels, meaning } = metric;
        // Writing to a String never fails.
        let _ = writeln!(self.0, "# HELP {name} {meaning}\n# TYPE {name} {}", kind.word());
        for (values, value) in series {
            let labelled: Vec<_> = labels
                .iter()
                .zip(*values)
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            let of = if labelled.is_empty() { String::new() } else { format!("{{{}}}", labelled.join(",")) };
            let _ = writeln!(self.0, "{name}{of} {value}");
        }
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_written_as_prometheus_reads_them() {
        let parked = Metric::gauge("parked", &["provider", "why"], "1 while it is");
        let mut text = Exposition::default();
        text.gauge(&parked, &[(&["push", "a \"b\" \\\n"], 1.0), (&["other", ""], 0.5)]);
        text.gauge(&Metric::gauge("up", &[], "Whether"), &[(&[], 1.0)]);
        text.gauge(&Metric::gauge("unseen", &[], "Nothing"), &[]);
        let expected = "# HELP parked 1 while it is\n# TYPE parked gauge\n\
                        parked{provider=\"push\",why=\"a \\\"b\\\" \\\\\\n\"} 1\nparked{provider=\"other\",why=\"\"} 0.5\n\
                        # HELP up Whether\n# TYPE up gauge\nup 1\n";
        assert_eq!(text.into_text(), expected);
    }
}
