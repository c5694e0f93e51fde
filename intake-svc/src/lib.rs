//! gRPC in: accepts and validates broadcasts, turns them into deliveries, manages devices.
//!
//! A call is checked whole by [`validate`], which makes domain types of it; the store does the work; `convert` and
//! `status` make the answer. Beside the calls, `fan_out` makes deliveries in the background. Any number of intakes may
//! run on one Postgres: they share nothing else.

mod access;
mod broadcasts;
mod command;
mod config;
mod convert;
mod devices;
mod fan_out;
mod hash;
mod import;
mod metrics;
mod outage;
mod preflight;
mod providers;
mod restore;
mod retention;
mod server;
mod status;
mod validate;

pub use command::{Cli, Command, serve};
pub use config::Config;
pub use metrics::METRICS;
pub use server::{Listeners, run};
