//! The bus: telling whoever keeps a user's connections that something is new. At most once, and treated so: whoever listens reads
//! the inbox, and looks again after a break.
//!
//! A message that may not have arrived becomes [`Heard::Anything`], at both ends: a teller that could not tell says "anything" as soon
//! as it can, and a listener says so to itself whenever its subscription is new. That a subscription still hears shows by messages
//! that each listener sends to itself.

mod health;
mod listen;
mod message;
mod tell;
mod way;

use std::sync::Arc;

use bongsu_store::{Store, Told, UserNo};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::LiveArgs;
use crate::link::Link;
use health::Health;
use listen::{HEARD, Listening};
use message::Item;
use tell::{Teller, WAITING};
use way::Way;

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// These users have something new.
    Users(Vec<UserNo>),
    /// Something may have been missed: everybody may have something new.
    Anything,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bus {
    way: Way,
    items: mpsc::Sender<Item>,
    owing: Arc<Notify>,
    health: Health,
}

impl Bus {
    /// Tells until `shutdown`, and for some seconds after it what is still told meanwhile.
    pub fn start(args: &LiveArgs, store: Store, shutdown: CancellationToken) -> Self {
        let way = Link::new(args).map_or(Way::Postgres(store), Way::Redis);
        let (items, told) = mpsc::channel(WAITING);
        let (owing, health) = (Arc::new(Notify::new()), Health::default());
        let teller =
            Teller { speaker: way.speaker(), items: told, owing: owing.clone(), health: health.clone() };
        tokio::spawn(teller.run(shutdown));
        Self { way, items, owing, health }
    }

    /// Tells whoever keeps connections of these users. Never waits: what was told at the same time goes out together.
    pub fn tell(&self, told: Told) {
        for user in told {
            if self.items.try_send(Item::User(user)).is_err() {
                // There is no room for the rest either; and all of it is covered by this.
                self.owing.notify_one();
                break;
            }
        }
    }

    /// What is told by all processes, from now on until `shutdown`. Begins with [`Heard::Anything`] once it listens, and says so again
    /// whenever something may have been missed.
    pub fn listen(&self, shutdown: CancellationToken) -> mpsc::Receiver<Heard> {
        let (heard, hears) = mpsc::channel(HEARD);
        let listening = Listening::new(self.way.clone(), self.health.clone(), self.items.clone(), heard);
        tokio::spawn(async move {
            let _ = shutdown.run_until_cancelled(listening.run()).await;
        });
        hears
    }
}
