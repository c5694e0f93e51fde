//! What the simulator promises to those who test with it, asked over real HTTP.

mod apns;
mod control;
mod fcm;
mod load;
mod push;
mod shutdown;
mod support;
mod webpush;
