//! What presence and bus promise, on a real Redis and a real Postgres.

#![allow(clippy::unwrap_used)]

mod admission;
mod breaking;
mod harness;
mod presence;
mod swallowing;
mod telling;
