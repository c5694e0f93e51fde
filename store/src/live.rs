//! The live channel: one event per broadcast and user, numbered by user, in the user's inbox.
//!
//! Events are made in the transactions that make deliveries, so that a broadcast has both or neither. Who is told of them, and
//! when, is not decided here: a stream reads what comes after the last event that it has sent, whatever woke it.

mod acknowledge;
mod backlog;
mod bus;
mod due;
mod event;
mod events;
mod join;
mod list;
mod presence;
#[cfg(feature = "testing")]
pub(crate) mod testing;

pub use acknowledge::MOST_ACKNOWLEDGED;
pub use backlog::{After, BACKLOG_EVENTS, Backlog, GapReason};
pub use bus::{BusListener, BusSpeaker};
pub use due::DueEvent;
pub use event::{Content, Event, EventId, NoEventId, UserNo};
pub use events::Told;
pub(crate) use events::{make, make_unseen};
pub use list::{InboxPage, MOST_UNREAD};
