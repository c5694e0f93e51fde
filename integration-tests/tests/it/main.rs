//! What Bongsu promises, seen from outside: both services, a real Postgres, and provider-sim over real HTTP. One module per
//! promise of the design.

#![allow(clippy::unwrap_used)]

mod collector;
mod failing_database;
mod processes;
mod raw_provider;
mod refusing_provider;
mod tcp_proxy;
mod world;

mod accept_once;
mod access;
mod apns;
mod at_most_once;
mod bad_devices;
mod bench;
mod capping;
mod chaos;
mod connection_faults;
mod database_faults;
mod demo;
mod doctor;
mod explain;
mod fcm;
mod killed;
mod limits;
mod live_then_push;
mod mass_invalidation;
mod mixed;
mod monitoring;
mod nothing_lost;
mod one_delivery;
mod outage;
mod overtaking;
mod pacing;
mod parked_by_hand;
mod provider_connections;
mod provider_faults;
mod quiet_logs;
mod replay;
mod replay_killed;
mod retention;
mod sharded;
mod slow_provider;
mod slow_tier;
mod stoppable;
mod tokens;
mod traces;
mod truthful_health;
mod webhook;
mod webpush;
