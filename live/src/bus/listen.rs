//! Listening: a subscription that is made anew whenever it may have missed something.

use std::time::Duration;

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::backoff::pause;
use crate::bus::Heard;
use crate::bus::health::{Half, Health};
use crate::bus::message::{Item, Message};
use crate::bus::way::{Listener, Way};

/// Messages heard and not yet worked off, at most: beyond, they become "anything".
pub(super) const HEARD: usize = 1_024;
/// Between two beats.
const BEAT: Duration = Duration::from_secs(2);
/// Whoever does not hear its own beat for so long has lost its subscription without a word, or cannot tell.
const SILENCE: Duration = Duration::from_secs(6);

pub(super) struct Listening {
    way: Way,
    health: Health,
    /// By which beats are told, as all else is.
    items: mpsc::Sender<Item>,
    heard: mpsc::Sender<Heard>,
    /// Whose beats are ours.
    id: u64,
    /// Something was not passed on, since there was no room.
    missed: bool,
    /// Subscriptions in a row that never heard their own beat.
    failures: u32,
}

impl Listening {
    pub(super) fn new(
        way: Way,
        health: Health,
        items: mpsc::Sender<Item>,
        heard: mpsc::Sender<Heard>,
    ) -> Self {
        Self { way, health, items, heard, id: rand::random(), missed: false, failures: 0 }
    }

    /// Until nobody wants to hear.
    pub(super) async fn run(mut self) {
        let wanted = self.heard.clone();
        tokio::select! {
            () = wanted.closed() => {}
            () = self.listen() => {}
        }
    }

    async fn listen(&mut self) {
        loop {
            let why = match self.way.listener().await {
                Ok(listener) => {
                    // What was said before is missed.
                    self.pass_on(Heard::Anything);
                    let beats = beat(self.items.clone(), self.id);
                    tokio::select! {
                        why = self.hear(listener) => why,
                        () = beats => String::new(), // never
                    }
                }
                Err(error) => error.to_string(),
            };
            self.failures = self.failures.saturating_add(1);
            self.health.broke(Half::Listening, &why);
            sleep(pause(self.failures, rand::random())).await;
        }
    }

    /// Passes on what is heard, until there is no trust in the subscription any more; and why.
    async fn hear(&mut self, mut listener: Listener) -> String {
        let mut heard_us_at = Instant::now();
        loop {
            match timeout_at(heard_us_at + SILENCE, listener.next()).await {
                Ok(Ok(text)) => match Message::read(&text) {
                    Some(Message::Users(users)) => self.pass_on(Heard::Users(users)),
                    Some(Message::Anything) => self.pass_on(Heard::Anything),
                    Some(Message::Beat(of)) if of == self.id => {
                        heard_us_at = Instant::now();
                        self.failures = 0;
                        self.health.works(Half::Listening);
                        self.make_up();
                    }
                    Some(Message::Beat(_)) | None => {}
                },
                Ok(Err(error)) => return error.to_string(),
                Err(_) => {} // looked at below: others may be heard all the time
            }
            if heard_us_at.elapsed() >= SILENCE {
                return format!("a message to ourselves did not arrive within {SILENCE:?}");
            }
        }
    }

    /// Never waits: a subscription that is not read fills memory here or at the server.
    fn pass_on(&mut self, heard: Heard) {
        self.make_up();
        if self.missed {
            return;
        }
        if let Err(TrySendError::Full(_)) = self.heard.try_send(heard) {
            self.missed = true;
        }
    }

    /// Says that something was missed, once there is room for that.
    fn make_up(&mut self) {
        if self.missed {
            self.missed = self.heard.try_send(Heard::Anything).is_err();
        }
    }
}

/// Says something to ourselves, for ever.
async fn beat(items: mpsc::Sender<Item>, id: u64) {
    let mut every = interval(BEAT);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        // No room, or nobody who tells: then it is not heard either.
        let _ = items.try_send(Item::Beat(id));
    }
}

#[cfg(test)]
mod tests {
    use bongsu_store::{Store, UserNo};

    use super::*;

    #[tokio::test]
    async fn whoever_listens_too_slowly_hears_that_something_was_missed_once_there_is_room() {
        let (items, _told) = mpsc::channel(1);
        let (heard, mut hears) = mpsc::channel(2);
        let way = Way::Postgres(Store::new("postgres://127.0.0.1/none", 1, "test").unwrap());
        let mut listening = Listening::new(way, Health::default(), items, heard);
        let users = |n| Heard::Users(vec![UserNo(n)]);
        for n in 1..=5 {
            listening.pass_on(users(n));
        }
        assert_eq!((hears.recv().await, hears.recv().await), (Some(users(1)), Some(users(2))));
        listening.pass_on(users(6));
        assert_eq!((hears.recv().await, hears.recv().await), (Some(Heard::Anything), Some(users(6))));
        listening.make_up();
        assert!(hears.try_recv().is_err(), "nothing is missed any more");
    }
}
