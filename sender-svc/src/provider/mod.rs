//! Providers: the ways out of Bongsu. A folder member per kind turns a delivery into a call and its answer into an
//! [`Answer`]; what follows from an answer is decided in one place, [`crate::engine::judge`].

pub mod answer;
mod http2;
mod turns;
pub mod webhook;

pub use answer::{Answer, Trouble};
