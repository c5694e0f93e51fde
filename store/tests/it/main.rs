//! What the store promises, on a real Postgres.

#![allow(clippy::unwrap_used)]

mod devices;
mod harness;
mod queue;
