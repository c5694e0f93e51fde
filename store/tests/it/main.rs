//! What the store promises, on a real Postgres.

#![allow(clippy::unwrap_used)]

mod accepting;
mod devices;
mod harness;
mod queue;
mod stage;
