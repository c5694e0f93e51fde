//! Names of the metrics of the bus, and the only place that writes them. Both services describe them.

use bongsu_ops::metric::Metric;
use metrics::{counter, gauge};

const UP: &str = "bongsu_live_bus_up";
const BREAKS: &str = "bongsu_live_bus_breaks_total";

/// docs/metrics.md is checked against it.
pub const METRICS: [Metric; 2] = [
    Metric::gauge(
        UP,
        &[],
        "1 while this process can tell others of new notifications and hears what they tell; absent until it had to",
    ),
    Metric::counter(BREAKS, &[], "Times that it could not any more"),
];

pub(crate) fn bus_works() {
    gauge!(UP).set(1.0);
}

pub(crate) fn bus_broke() {
    gauge!(UP).set(0.0);
    counter!(BREAKS).increment(1);
}
