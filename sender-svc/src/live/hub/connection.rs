//! One stream of a user: what waits to be sent, and how far it is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bongsu_store::{After, Backlog, Event, GapReason, UserNo};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::metrics::{Ended, Transport};
use super::super::render::Text;
use super::super::settings::QUEUE_EVENTS;

/// With so many left in the queue, a client that took the rest gets more.
const REFILL_AT: usize = QUEUE_EVENTS / 2;

/// What a client is sent.
#[derive(Debug, Clone)]
pub enum Item {
    Event(Event, Arc<Text>),
    Gap(GapReason),
    Heartbeat,
    /// The last one.
    End(End),
}

/// Why a stream ends that its client did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client does not take what there is.
    Slow,
    /// The token has expired.
    Expired,
    /// This process stops; the client is to come back after so long, elsewhere.
    Draining { after: Duration },
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        match end {
            End::Slow => Self::Slow,
            End::Expired => Self::Expired,
            End::Draining { .. } => Self::Draining,
        }
    }
}

/// Who connects, and how.
#[derive(Debug)]
pub struct Caller {
    pub user: Arc<str>,
    pub after: After,
    pub transport: Transport,
    pub expires_at: Option<Instant>,
    /// Ends the TCP connection below, where a client does not even take that its stream has ended; none where others' streams go
    /// over the same.
    pub cut: Option<CancellationToken>,
}

#[derive(Debug)]
pub struct Connection {
    pub id: u64,
    pub caller: Caller,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    user: Option<UserNo>,
    /// What the stream begins with, as far as it is not in the queue yet.
    backlog: VecDeque<Event>,
    /// The number up to which everything is sent, queued or in the backlog; none until the backlog was read.
    cursor: Option<i64>,
    queue: VecDeque<Item>,
    /// There is more than fits into the queue.
    behind: bool,
    heartbeat: bool,
    end: Option<End>,
    end_taken: bool,
    /// When the client last took something.
    taken_at: Instant,
    waker: Option<Waker>,
}

/// What a stream lacks.
#[derive(Debug)]
pub enum Want {
    Nothing,
    /// These, of its backlog.
    Backlog(Vec<Event>),
    /// What comes after this number.
    After(i64),
}

/// What became of handing events to a stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Handed {
    pub events: u64,
    /// There is room, and may be more.
    pub more: bool,
}

impl Connection {
    pub fn new(id: u64, caller: Caller) -> Self {
        let line = Line {
            user: None,
            backlog: VecDeque::new(),
            cursor: None,
            queue: VecDeque::new(),
            behind: false,
            heartbeat: false,
            end: None,
            end_taken: false,
            taken_at: Instant::now(),
            waker: None,
        };
        Self { id, caller, line: Mutex::new(line) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn user(&self) -> Option<UserNo> {
        self.line().user
    }

    pub fn known_as(&self, user: UserNo) {
        self.line().user = Some(user);
    }

    /// Begins the stream with what was missed.
    pub fn join(&self, backlog: Backlog) {
        let mut line = self.line();
        line.queue.extend(backlog.gap.map(Item::Gap));
        line.backlog = backlog.events.into();
        line.cursor = Some(backlog.reached);
        line.wake();
    }

    /// What is to be read for it now. Where there is no room, whoever takes something from the queue asks for more.
    pub fn want(&self) -> Want {
        let mut line = self.line();
        let Some(cursor) = line.cursor.filter(|_| line.end.is_none()) else { return Want::Nothing };
        let room = line.room();
        if room == 0 {
            line.behind = true;
            Want::Nothing
        } else if line.backlog.is_empty() {
            Want::After(cursor)
        } else {
            Want::Backlog(line.backlog.iter().take(room).cloned().collect())
        }
    }

    /// Queues what fits of its backlog.
    pub fn hand_backlog(&self, text: impl Fn(&Event) -> Option<Arc<Text>>) -> Handed {
        let mut line = self.line();
        let mut handed = Handed::default();
        while line.room() > 0
            && let Some(event) = line.backlog.pop_front()
        {
            handed.events += line.push(event, &text);
        }
        handed.more = true;
        line.wake();
        handed
    }

    /// Queues those of `events`, which are in order and without gaps from its cursor or before, that come after its cursor.
    pub fn hand(&self, events: &[Event], text: impl Fn(&Event) -> Option<Arc<Text>>) -> Handed {
        let mut line = self.line();
        let mut handed = Handed::default();
        let Some(cursor) = line.cursor else { return handed };
        if !line.backlog.is_empty() {
            return handed;
        }
        for event in events.iter().filter(|event| event.seq > cursor) {
            if line.room() == 0 {
                line.behind = true;
                break;
            }
            line.cursor = Some(event.seq);
            handed.events += line.push(event.clone(), &text);
        }
        handed.more = !line.behind;
        line.wake();
        handed
    }

    /// Ends the stream after what is queued; a slow one at once.
    pub fn end(&self, end: End) {
        let mut line = self.line();
        if line.end.is_some() {
            return;
        }
        line.end = Some(end);
        line.backlog.clear();
        if end == End::Slow {
            line.queue.clear();
        }
        line.wake();
    }

    pub fn ended(&self) -> Option<End> {
        self.line().end
    }

    /// Ends it where its time has come, and sees that it is heard of at least every `heartbeat`. Whether its client takes nothing any
    /// more.
    pub fn look(&self, now: Instant, heartbeat: Duration, stalled_after: Duration) -> bool {
        let expired = self.caller.expires_at.is_some_and(|at| at <= now);
        let mut line = self.line();
        let silent = now.saturating_duration_since(line.taken_at);
        let full = line.room() == 0 || line.end.is_some();
        if full && silent > stalled_after {
            drop(line);
            self.end(End::Slow);
            if let Some(cut) = &self.caller.cut {
                cut.cancel();
            }
            return true;
        }
        if expired {
            drop(line);
            self.end(End::Expired);
        } else if silent >= heartbeat && line.queue.is_empty() {
            line.heartbeat = true;
            line.wake();
        }
        false
    }

    /// The next item for the client, and whether the queue wants to be filled again.
    pub fn poll_next(&self, cx: &Context<'_>) -> (Poll<Option<Item>>, bool) {
        let mut line = self.line();
        let item = match line.queue.pop_front() {
            Some(item) => Some(item),
            None if line.end_taken => return (Poll::Ready(None), false),
            None => line.end.map(Item::End).or_else(|| line.heartbeat.then_some(Item::Heartbeat)),
        };
        let Some(item) = item else {
            line.waker = Some(cx.waker().clone());
            return (Poll::Pending, false);
        };
        line.end_taken = matches!(item, Item::End(_));
        line.heartbeat = false;
        line.taken_at = Instant::now();
        let refill = line.behind && line.queue.len() <= REFILL_AT;
        if refill {
            line.behind = false;
        }
        if line.queue.is_empty() && line.queue.capacity() > 4 {
            // Most of the time nothing waits, in any of twenty thousand.
            line.queue = VecDeque::new();
        }
        (Poll::Ready(Some(item)), refill)
    }
}

impl Line {
    fn room(&self) -> usize {
        QUEUE_EVENTS.saturating_sub(self.queue.len())
    }

    /// How many events were queued: none where it is not to be shown any more.
    fn push(&mut self, event: Event, text: impl Fn(&Event) -> Option<Arc<Text>>) -> u64 {
        match text(&event).filter(|text| !text.is_over()) {
            Some(text) if self.end.is_none() => {
                self.queue.push_back(Item::Event(event, text));
                1
            }
            _ => 0,
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
