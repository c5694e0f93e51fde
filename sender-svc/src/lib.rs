//! Out to people: claims batches, calls providers, records outcomes, and answers what happened.
//!
//! [`engine`] does the work, [`provider`] knows the protocols, [`rpc`] answers. Any number of senders may run on one
//! Postgres: they share nothing else.

mod access;
mod command;
mod config;
mod engine;
mod gauges;
pub mod live;
mod metrics;
pub mod provider;
mod rpc;
mod server;

pub use command::{Cli, Command, serve};
pub use config::{Config, WebhookArg};
pub use server::{Listeners, run};

/// What a sender's `/metrics` has: what it counts, what it asks the database, and what it and the bus count of the live channel.
pub const METRICS: [&[bongsu_ops::metric::Metric]; 4] =
    [&metrics::METRICS, &gauges::METRICS, &live::METRICS, &bongsu_live::METRICS];
