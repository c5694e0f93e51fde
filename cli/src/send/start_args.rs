//! When a broadcast is to start.

use std::time::Duration;

use crate::times::{from_now, parse_span, parse_time};

/// At most one of them: at a moment, or so long from now.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct StartArgs {
    /// When to start, at most 30 days ahead; whoever is registered then gets it
    #[arg(long, value_name = "RFC3339", value_parser = parse_time, conflicts_with = "in_span")]
    at: Option<prost_types::Timestamp>,

    /// How long from now to start, such as 2h. Every call means another moment: to ask again with a --key of yours, give --at
    #[arg(long = "in", id = "in_span", value_name = "TIME", value_parser = parse_span)]
    span: Option<Duration>,
}

impl StartArgs {
    /// The moment, by the clock of this machine; none where none was asked for.
    pub fn time(&self) -> Option<prost_types::Timestamp> {
        self.at.or_else(|| self.span.map(from_now))
    }
}
