//! Forged tokens and tickets, rotation of keys, and what browsers ask.

mod forged;
mod signers;
mod web;
