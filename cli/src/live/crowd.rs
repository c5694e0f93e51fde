//! Many users' clients at once, each with its habits, and a record of what each one got.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::client::{Acknowledger, Client, Happened};
use super::network::{Network, Problem};
use super::record::Record;

/// Between two attempts to acknowledge.
const ACKNOWLEDGE_AGAIN: Duration = Duration::from_millis(200);
/// How often it is looked whether what is waited for has come.
const LOOK: Duration = Duration::from_millis(10);

/// How a client behaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Habits {
    /// It connects so long after it was told to.
    pub comes_after: Duration,
    /// It acknowledges what it got so long after; none: never.
    pub acknowledges_after: Option<Duration>,
    /// In order of time.
    pub leaves: Vec<Leave>,
}

/// A client hangs up and comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leave {
    /// So long after it was told to connect.
    pub at: Duration,
    pub away: Duration,
    /// With its last event's id, or as an app that was started anew.
    pub resume: bool,
}

/// Dropping it disconnects all.
#[derive(Debug)]
pub struct Crowd {
    network: Network,
    members: Vec<Arc<Member>>,
    clients: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Member {
    record: Mutex<Record>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connected: AtomicUsize,
    received: AtomicUsize,
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
}

impl Crowd {
    pub fn new(network: Network) -> Self {
        Self { network, members: Vec::new(), clients: JoinSet::new(), counts: Arc::default() }
    }

    /// One more client, which connects by itself; records are in the order in which they joined.
    pub fn join(&mut self, token: String, habits: Habits) {
        let record = Mutex::default();
        let member = Arc::new(Member { record, counts: self.counts.clone() });
        self.members.push(member.clone());
        self.clients.spawn(attend(Client::new(self.network.clone(), token), habits, member));
    }

    /// Where clients that connect from now on go.
    pub fn go_to(&self, addresses: Vec<String>) {
        self.network.set(addresses);
    }

    /// How many are connected now.
    pub fn connected(&self) -> usize {
        self.counts.connected.load(Ordering::Relaxed)
    }

    /// Notifications that clients have got, by their own count: once each.
    pub fn received(&self) -> usize {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Of those, how many were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.counts.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until something holds.
    ///
    /// # Errors
    ///
    /// When a client was refused for good, or after `patience`.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        while !holds(self) {
            if self.counts.refused.load(Ordering::Relaxed) > 0 {
                let refusal = self.records().into_iter().find_map(|record| record.refused);
                anyhow::bail!("a client was refused: {}", refusal.unwrap_or_default());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "{what} is not so after {} s: {} of {} clients are connected, {} notifications came, {} were acknowledged",
                patience.as_secs(),
                self.connected(),
                self.members.len(),
                self.received(),
                self.acknowledged()
            );
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// What each one got so far.
    pub fn records(&self) -> Vec<Record> {
        self.members.iter().map(|member| member.record().clone()).collect()
    }

    /// Disconnects all; returns what each one got.
    pub async fn leave(mut self) -> Vec<Record> {
        self.clients.shutdown().await;
        self.records()
    }
}

impl Member {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disconnected(&self) {
        if self.record().disconnected(SystemTime::now()) {
            self.counts.connected.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn refused(&self, problem: &Problem) {
        self.record().refused = Some(problem.to_string());
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does what a client does, until it is stopped or refused for good.
async fn attend(mut client: Client, habits: Habits, member: Arc<Member>) {
    let began = Instant::now();
    sleep(habits.comes_after).await;
    let mut leaves = habits.leaves.iter().copied();
    let mut leave = leaves.next();
    let mut acknowledging = JoinSet::new();
    loop {
        let time_to_leave = async {
            match leave {
                Some(leave) => sleep_until(began + leave.at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            happened = client.next() => match happened {
                Ok(happened) => {
                    let got = note(&member, happened);
                    if let (Some(id), Some(after)) = (got, habits.acknowledges_after) {
                        acknowledging.spawn(acknowledge(client.acknowledger(), id, after, member.clone()));
                    }
                }
                Err(problem) => return member.refused(&problem),
            },
            () = time_to_leave => {
                let Some(now) = leave.take() else { continue };
                client.hang_up(now.resume);
                member.disconnected();
                if !now.resume {
                    acknowledging.abort_all(); // the app is gone, and what it was about to say
                }
                sleep(now.away).await;
                leave = leaves.next();
            }
            Some(_) = acknowledging.join_next(), if !acknowledging.is_empty() => {}
        }
    }
}

/// Writes down what happened; returns the id of a notification that is to be acknowledged.
fn note(member: &Member, happened: Happened) -> Option<i64> {
    let now = SystemTime::now();
    match happened {
        Happened::Connected { address } => {
            member.record().connected(address, now);
            member.counts.connected.fetch_add(1, Ordering::Relaxed);
        }
        Happened::Notification { notification, again } => {
            let id = notification.id()?;
            if member.record().received(id, &notification.event_id, again, now) {
                member.counts.received.fetch_add(1, Ordering::Relaxed);
            }
            return Some(id);
        }
        Happened::Gap { reason } => member.record().gaps.push(reason),
        Happened::SentAway { .. } => member.disconnected(),
        Happened::Lost { because, .. } => {
            member.disconnected();
            member.record().lost(because);
        }
    }
    None
}

/// Tries until a server has it.
async fn acknowledge(acknowledger: Acknowledger, id: i64, after: Duration, member: Arc<Member>) {
    sleep(after).await;
    loop {
        match acknowledger.acknowledge(&[id]).await {
            Ok(()) => {
                if member.record().acknowledged(id, SystemTime::now()) {
                    member.counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
            Err(problem) if problem.is_final() => return member.refused(&problem),
            Err(_) => sleep(ACKNOWLEDGE_AGAIN).await,
        }
    }
}
