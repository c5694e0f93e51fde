//! All streams of this process, and whose inboxes are to be looked at.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bongsu_store::UserNo;
use tokio::time::Instant;

use super::super::metrics::Outcome;
use super::super::settings::Settings;
use super::connection::{Caller, Connection, End};

/// Clients that a drain sends elsewhere a second, and within which time at least and at most.
const MOVED_PER_SECOND: f64 = 500.0;
const MOVED_WITHIN_LEAST: Duration = Duration::from_secs(1);
const MOVED_WITHIN_MOST: Duration = Duration::from_secs(60);
/// The soonest that one of them comes back.
const MOVED_AFTER_LEAST: Duration = Duration::from_millis(100);

/// Users whose inboxes are looked at together.
pub type Slice = Vec<(UserNo, Option<Instant>, Vec<Arc<Connection>>)>;

#[derive(Debug, Default)]
pub struct Registry {
    next_id: u64,
    all: HashMap<u64, Arc<Connection>>,
    /// Streams by the name of their user, whom the database may not have told apart yet.
    by_name: HashMap<Arc<str>, usize>,
    by_user: HashMap<UserNo, Vec<Arc<Connection>>>,
    /// Those that were told of, and when that was heard first.
    heard: HashMap<UserNo, Instant>,
    /// Those that are looked at although nobody told of them.
    looks: HashSet<UserNo>,
    /// Those who came or went since presence was told.
    moved: HashSet<UserNo>,
    /// Whose backlog is to be read.
    joining: Vec<Arc<Connection>>,
    draining: bool,
}

impl Registry {
    /// Takes in a stream that is to be joined, unless there are too many.
    pub fn enter(&mut self, settings: &Settings, caller: Caller) -> Result<Arc<Connection>, Outcome> {
        if self.draining {
            return Err(Outcome::Draining);
        }
        if self.all.len() >= settings.connections {
            return Err(Outcome::Full);
        }
        let of_user = self.by_name.entry(Arc::clone(&caller.user)).or_default();
        if *of_user >= settings.connections_per_user {
            return Err(Outcome::UserFull);
        }
        *of_user += 1;
        self.next_id += 1;
        let connection = Arc::new(Connection::new(self.next_id, caller));
        self.all.insert(connection.id, Arc::clone(&connection));
        self.joining.push(Arc::clone(&connection));
        Ok(connection)
    }

    /// Lets one go; whether presence is to be told. None where it had left already.
    pub fn leave(&mut self, connection: &Connection) -> Option<bool> {
        self.all.remove(&connection.id)?;
        if let Some(of_user) = self.by_name.get_mut(&connection.caller.user) {
            *of_user -= 1;
            if *of_user == 0 {
                self.by_name.remove(&connection.caller.user);
            }
        }
        let Some(user) = connection.user() else { return Some(false) };
        let Some(streams) = self.by_user.get_mut(&user) else { return Some(false) };
        streams.retain(|other| other.id != connection.id);
        if !streams.is_empty() {
            return Some(false);
        }
        self.by_user.remove(&user);
        self.heard.remove(&user);
        self.looks.remove(&user);
        self.moved.insert(user);
        Some(true)
    }

    /// The next streams to be joined, at most so many.
    pub fn take_joining(&mut self, most: usize) -> Vec<Arc<Connection>> {
        let n = self.joining.len().min(most);
        self.joining.drain(..n).filter(|connection| self.all.contains_key(&connection.id)).collect()
    }

    /// Those are to be joined again.
    pub fn join_again(&mut self, connections: impl IntoIterator<Item = Arc<Connection>>) {
        self.joining.extend(connections);
    }

    /// From now on the stream gets what is told of its user. Nothing, where it has gone or is here already.
    pub fn register(&mut self, connection: &Arc<Connection>, user: UserNo) {
        if connection.user().is_some() || !self.all.contains_key(&connection.id) {
            return;
        }
        connection.known_as(user);
        let streams = self.by_user.entry(user).or_default();
        if streams.is_empty() {
            self.moved.insert(user);
        }
        streams.push(Arc::clone(connection));
    }

    /// These have something new; those who are not here are no concern of ours.
    pub fn heard(&mut self, users: impl IntoIterator<Item = UserNo>, at: Instant) {
        for user in users {
            if self.by_user.contains_key(&user) {
                self.heard.entry(user).or_insert(at);
            }
        }
    }

    /// Their inboxes are to be looked at, though nothing was heard.
    pub fn look_at(&mut self, user: UserNo) {
        if self.by_user.contains_key(&user) {
            self.looks.insert(user);
        }
    }

    pub fn look_at_all(&mut self) {
        self.looks.extend(self.by_user.keys());
    }

    /// The next users to look at: those that were heard of, and always some of the others.
    pub fn slice(&mut self, most: usize) -> Slice {
        let heard = self.heard.len().min(most - most / 4);
        let others = self.looks.len().min(most - heard);
        let mut slice: Vec<(UserNo, Option<Instant>)> =
            self.heard.iter().take(most - others).map(|(user, at)| (*user, Some(*at))).collect();
        for (user, _) in &slice {
            self.heard.remove(user);
            self.looks.remove(user);
        }
        let looked: Vec<UserNo> = self.looks.iter().take(most - slice.len()).copied().collect();
        for user in looked {
            self.looks.remove(&user);
            slice.push((user, self.heard.remove(&user)));
        }
        slice
            .into_iter()
            .filter_map(|(user, at)| Some((user, at, self.by_user.get(&user)?.clone())))
            .collect()
    }

    /// They could not be looked at.
    pub fn put_back(&mut self, slice: &Slice) {
        for (user, at, _) in slice {
            match at {
                Some(at) => self.heard([*user], *at),
                None => self.look_at(*user),
            }
        }
    }

    /// Those who came or went: who is here, and who is not. At most so many.
    pub fn take_moved(&mut self, most: usize) -> (Vec<UserNo>, Vec<UserNo>) {
        let moved: Vec<UserNo> = self.moved.iter().take(most).copied().collect();
        for user in &moved {
            self.moved.remove(user);
        }
        moved.into_iter().partition(|user| self.by_user.contains_key(user))
    }

    /// Presence does not know of them.
    pub fn moved(&mut self, users: impl IntoIterator<Item = UserNo>) {
        self.moved.extend(users);
    }

    /// Presence may have forgotten everybody.
    pub fn moved_all(&mut self) {
        self.moved.extend(self.by_user.keys());
    }

    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.all.values().cloned().collect()
    }

    /// Takes in nobody any more, and sends everybody elsewhere, spread over the time that so many need.
    pub fn drain(&mut self) {
        self.draining = true;
        let needed = Duration::from_secs_f64(self.all.len() as f64 / MOVED_PER_SECOND);
        let within = needed.clamp(MOVED_WITHIN_LEAST, MOVED_WITHIN_MOST);
        for connection in self.all.values() {
            let after = rand::random_range(MOVED_AFTER_LEAST..=within);
            connection.end(End::Draining { after });
        }
    }
}
