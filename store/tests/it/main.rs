//! What the store promises, on a real Postgres.

#![allow(clippy::unwrap_used)]

mod accepting;
mod acknowledging;
mod answering;
mod at_most_once;
mod capping;
mod controlling;
mod devices;
mod gauges;
mod harness;
mod history;
mod hygiene;
mod inbox;
mod inboxes_add_up;
mod listing;
mod live;
mod model;
mod outage;
mod pacing;
mod plans;
mod preflight;
mod purging;
mod queue;
mod replaying;
mod retention;
mod scheduling;
mod sharding;
mod slow_tier;
mod stage;
mod sweeping;
mod takeover;
