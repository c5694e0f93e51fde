//! What the intake promises over gRPC: a real server on a real Postgres.

mod access;
mod broadcasts;
mod devices;
mod harness;
mod hygiene;
mod live;
mod preflight;
mod scheduling;
mod service;
