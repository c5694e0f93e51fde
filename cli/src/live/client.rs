//! A user's client: a stream that comes back by itself, and what it brings.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout};

use super::network::{Network, Problem, Stream};
use super::notification::Notification;
use super::sse::Frame;

/// Ids that are remembered, so that what comes again is known: the newest.
const REMEMBERED: usize = 1_000;
/// How long to wait before coming back, until a server says otherwise.
const USUAL_RETRY: Duration = Duration::from_secs(1);
/// The longest wait, after many attempts in vain.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// After how many attempts in vain the wait grows no more.
const MOST_DOUBLINGS: u32 = 5;
/// A connection without a sign of life for so many heartbeats is dead.
const MISSED_HEARTBEATS: u32 = 3;
/// How long the first event may take, which comes at once.
const FIRST_EVENT: Duration = Duration::from_secs(10);

/// What happens to a client.
#[derive(Debug)]
pub enum Happened {
    Connected {
        address: String,
    },
    /// `again`: it has come before, on whichever connection, and is not to be shown.
    Notification {
        notification: Box<Notification>,
        again: bool,
    },
    /// Some are missing before the next one.
    Gap {
        reason: String,
    },
    /// The server asked us to leave, and we come back elsewhere after so long.
    SentAway {
        after: Duration,
    },
    /// There is no connection, and we come back after so long.
    Lost {
        because: String,
        after: Duration,
    },
}

/// A user's client.
#[derive(Debug)]
pub struct Client {
    network: Network,
    token: Arc<str>,
    /// Where it is connected, or was last.
    address: Option<String>,
    stream: Option<Stream>,
    last_event_id: Option<String>,
    seen: Seen,
    /// When it may connect.
    due: Instant,
    /// How long to wait, as the server said: to each client another time.
    retry: Option<Duration>,
    /// Attempts in vain since the last success.
    failures: u32,
    silence: Duration,
}

#[derive(Debug, Deserialize)]
struct Connected {
    heartbeat_ms: u64,
}

#[derive(Debug, Deserialize)]
struct Gap {
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Reconnect {
    after_ms: u64,
}

impl Client {
    pub fn new(network: Network, token: impl Into<Arc<str>>) -> Self {
        Self {
            network,
            token: token.into(),
            address: None,
            stream: None,
            last_event_id: None,
            seen: Seen::default(),
            due: Instant::now(),
            retry: None,
            failures: 0,
            silence: FIRST_EVENT,
        }
    }

    /// Waits for what happens next; connects where it has to. May be dropped while it waits, and nothing is missed.
    ///
    /// # Errors
    ///
    /// When it was refused in a way that no other server would change: there is no coming back.
    pub async fn next(&mut self) -> Result<Happened, Problem> {
        loop {
            let Some(stream) = &mut self.stream else {
                sleep_until(self.due).await;
                if let Some(lost) = self.connect().await? {
                    return Ok(lost);
                }
                continue;
            };
            let frame = match timeout(self.silence, stream.next()).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(because)) => return Ok(self.lost(because, None)),
                Err(_) => {
                    let because = format!("nothing came for {} s", self.silence.as_secs_f64());
                    return Ok(self.lost(because, None));
                }
            };
            if let Some(happened) = self.read(&frame) {
                return Ok(happened);
            }
        }
    }

    /// Hangs up, to come back at the next [`Client::next`]: where it was with `resume`, else as an app that was started anew
    /// and remembers what it has shown.
    pub fn hang_up(&mut self, resume: bool) {
        self.stream = None;
        self.due = Instant::now();
        if !resume {
            self.last_event_id = None;
        }
    }

    /// What acknowledging takes, apart from the client, which goes on reading meanwhile.
    pub fn acknowledger(&self) -> Acknowledger {
        Acknowledger {
            network: self.network.clone(),
            token: self.token.clone(),
            address: self.address.clone(),
        }
    }

    /// Says how it failed, if it did; the first event says that it did not.
    async fn connect(&mut self) -> Result<Option<Happened>, Problem> {
        // Where it failed, another server may do better.
        let failed_at = self.address.as_deref();
        let Some(address) = self.network.pick(failed_at) else {
            return Ok(Some(self.lost("there is no server".to_owned(), None)));
        };
        let opened = self.network.open(&address, &self.token, self.last_event_id.as_deref()).await;
        self.address = Some(address);
        match opened {
            Ok(stream) => {
                self.stream = Some(stream);
                self.silence = FIRST_EVENT;
                Ok(None)
            }
            Err(problem) if problem.is_final() => Err(problem),
            Err(problem) => Ok(Some(self.lost(problem.to_string(), problem.retry_after()))),
        }
    }

    fn lost(&mut self, because: String, at_least: Option<Duration>) -> Happened {
        self.stream = None;
        let doubled = 1 << self.failures.min(MOST_DOUBLINGS);
        let wait = self.retry.unwrap_or(USUAL_RETRY).saturating_mul(doubled).min(LONGEST_RETRY);
        // Everybody who lost the same server would come back at the same moment, but for what the servers said.
        let as_told = self.failures == 0 && self.retry.is_some();
        let share = if as_told { 1.0 } else { rand::random_range(0.5..=1.0) };
        self.failures += 1;
        let after = at_least.unwrap_or_default() + wait.mul_f64(share);
        self.due = Instant::now() + after;
        Happened::Lost { because, after }
    }

    /// None where there is nothing to tell.
    fn read(&mut self, frame: &Frame) -> Option<Happened> {
        self.retry = frame.retry.or(self.retry);
        let read = match frame.event.as_str() {
            "connected" => self.connected(&frame.data),
            "notification" => self.notification(frame),
            "gap" => serde_json::from_str(&frame.data).map(|Gap { reason }| Some(Happened::Gap { reason })),
            "reconnect" => self.sent_away(&frame.data),
            _ => Ok(None),
        };
        // Not the error: it may quote what the notification says.
        read.unwrap_or_else(|_| Some(self.lost(format!("a {} that is no such thing", frame.event), None)))
    }

    fn connected(&mut self, data: &str) -> serde_json::Result<Option<Happened>> {
        let Connected { heartbeat_ms } = serde_json::from_str(data)?;
        self.silence = Duration::from_millis(heartbeat_ms) * MISSED_HEARTBEATS;
        self.failures = 0;
        let address = self.address.clone().unwrap_or_default();
        Ok(Some(Happened::Connected { address }))
    }

    fn notification(&mut self, frame: &Frame) -> serde_json::Result<Option<Happened>> {
        let notification: Box<Notification> = serde_json::from_str(&frame.data)?;
        let id = notification.id().ok_or_else(|| serde::de::Error::custom("an id that is no number"))?;
        self.last_event_id = Some(frame.id.clone().unwrap_or_else(|| notification.event_id.clone()));
        let again = !self.seen.insert(id);
        Ok(Some(Happened::Notification { notification, again }))
    }

    fn sent_away(&mut self, data: &str) -> serde_json::Result<Option<Happened>> {
        let Reconnect { after_ms } = serde_json::from_str(data)?;
        self.stream = None;
        // Each client is told another time: no jitter of ours.
        let after = Duration::from_millis(after_ms);
        self.due = Instant::now() + after;
        Ok(Some(Happened::SentAway { after }))
    }
}

/// Acknowledges for a client.
#[derive(Clone, Debug)]
pub struct Acknowledger {
    network: Network,
    token: Arc<str>,
    address: Option<String>,
}

impl Acknowledger {
    /// Asks the server that the client is connected to, else another one.
    pub async fn acknowledge(&self, ids: &[i64]) -> Result<(), Problem> {
        let mut address = self.address.clone().or_else(|| self.network.pick(None)).unwrap_or_default();
        let first = self.network.acknowledge(&address, &self.token, ids).await;
        match first {
            Err(problem) if !problem.is_final() => {
                address = self.network.pick(Some(&address)).unwrap_or(address);
                self.network.acknowledge(&address, &self.token, ids).await
            }
            done => done,
        }
    }
}

/// The newest ids that came.
#[derive(Debug, Default)]
struct Seen {
    ids: HashSet<i64>,
    in_order: VecDeque<i64>,
}

impl Seen {
    /// Whether it is new.
    fn insert(&mut self, id: i64) -> bool {
        let new = self.ids.insert(id);
        if new {
            self.in_order.push_back(id);
            if self.in_order.len() > REMEMBERED {
                self.in_order.pop_front().map(|oldest| self.ids.remove(&oldest));
            }
        }
        new
    }
}

#[cfg(test)]
mod tests;
