//! How the processes of Bongsu find the connections of a user: who has one (presence), and that there is something new for them
//! (the bus).
//!
//! Both are hints. What a user is to see is in their inbox in Postgres, and whether a push waits for an acknowledgement is decided
//! again at its deadline; so a lost message costs time, and never a notification. Both are kept in Postgres, or in Redis where one
//! is configured.

mod args;
mod backoff;
mod bus;
mod error;
mod link;
mod metrics;
mod presence;

pub use args::{LiveArgs, RedisUrl};
pub use bus::{Bus, Heard};
pub use error::LiveError;
pub use metrics::METRICS;
pub use presence::Presence;
