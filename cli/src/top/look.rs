//! Looking: what the API says now, and how fast it changes.

use std::collections::HashMap;
use std::time::Instant;

use bongsu_proto::v1::{self, BroadcastState, DeliveryCounts};

use crate::Context;
use crate::client::Client;
use crate::error::Failure;

/// Open broadcasts in a look, and the last ones whatever their state.
const MOST_OPEN: i32 = 50;
const MOST_LATEST: i32 = 20;
/// Of so many of them it is asked which providers they are at: a call for each.
const MOST_ASKED: usize = 10;
/// How much of a rate is what it was before.
const INERTIA: f64 = 0.5;

/// States that are not final.
const OPEN: [BroadcastState; 5] = [
    BroadcastState::Scheduled,
    BroadcastState::Accepted,
    BroadcastState::FanningOut,
    BroadcastState::Delivering,
    BroadcastState::Cancelling,
];

/// What a frame shows.
#[derive(Debug, Default)]
pub struct Seen {
    /// Open ones first, newest first.
    pub broadcasts: Vec<SeenBroadcast>,
    pub providers: Vec<SeenProvider>,
    pub senders: Vec<v1::Sender>,
    /// Why the rest is old.
    pub problem: Option<String>,
}

#[derive(Debug, Default)]
pub struct SeenBroadcast {
    pub id: i64,
    pub title: String,
    pub state: i32,
    pub paused: bool,
    pub counts: DeliveryCounts,
    /// Deliveries settled a second; none before the second look.
    pub rate: Option<f64>,
}

#[derive(Debug, Default)]
pub struct SeenProvider {
    pub provider: v1::Provider,
    /// Of the open broadcasts that were asked for.
    pub pending: i64,
    pub rate: Option<f64>,
}

/// What settled deliveries are counted of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Of {
    Broadcast(i64),
    Provider(i64, String),
}

/// Who looks.
#[derive(Debug)]
pub struct Watcher {
    intake: Client,
    sender: Client,
    seen: Seen,
    pace: Pace,
}

/// How fast deliveries are settled, by what was settled at the last look.
#[derive(Debug, Default)]
struct Pace {
    settled: HashMap<Of, i64>,
    rates: HashMap<Of, f64>,
    looked: Option<Instant>,
}

impl Pace {
    /// Takes in how many were settled now.
    fn measure(&mut self, settled: HashMap<Of, i64>, now: Instant) {
        if let Some(looked) = self.looked {
            let seconds = (now - looked).as_secs_f64().max(0.001);
            let rates = settled.iter().filter_map(|(of, count)| {
                let latest = (count - self.settled.get(of)?).max(0) as f64 / seconds;
                let before = self.rates.get(of).copied().unwrap_or(latest);
                Some((of.clone(), before * INERTIA + latest * (1.0 - INERTIA)))
            });
            self.rates = rates.collect();
        }
        (self.settled, self.looked) = (settled, Some(now));
    }

    fn of_broadcast(&self, id: i64) -> Option<f64> {
        self.rates.get(&Of::Broadcast(id)).copied()
    }

    /// Of all its broadcasts together.
    fn of_provider(&self, name: &str) -> Option<f64> {
        let of_name = |of: &Of| matches!(of, Of::Provider(_, provider) if provider == name);
        self.rates.iter().filter(|(of, _)| of_name(of)).map(|(_, rate)| *rate).reduce(|a, b| a + b)
    }
}

impl Watcher {
    pub async fn connect(context: &Context) -> Result<Self, Failure> {
        Ok(Self {
            intake: context.servers.intake().await?,
            sender: context.servers.sender().await?,
            seen: Seen::default(),
            pace: Pace::default(),
        })
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Looks again; what was seen before stays where that fails.
    pub async fn look_or_say_why(&mut self) {
        if let Err(failure) = self.look().await {
            self.seen.problem = Some(failure.message());
        }
    }

    pub async fn look(&mut self) -> Result<(), Failure> {
        let mut broadcasts = self.list(&OPEN, MOST_OPEN).await?;
        let latest = self.list(&[], MOST_LATEST).await?;
        broadcasts.retain(is_open);
        // One that ended in between is among the latest.
        broadcasts.extend(latest.into_iter().filter(|broadcast| !is_open(broadcast)));
        let request = v1::ListProvidersRequest {};
        let listed =
            self.sender.call("list providers", self.sender.providers().list_providers(request)).await?;
        let request = v1::ListSendersRequest {};
        let senders =
            self.sender.call("list senders", self.sender.deliveries().list_senders(request)).await?.senders;
        let mut settled = HashMap::new();
        let mut pending: HashMap<String, i64> = HashMap::new();
        for broadcast in broadcasts.iter().filter(|broadcast| is_open(broadcast)).take(MOST_ASKED) {
            for at in self.providers_of(broadcast.id).await? {
                let counts = at.counts.unwrap_or_default();
                *pending.entry(at.provider.clone()).or_default() += counts.pending;
                settled.insert(Of::Provider(broadcast.id, at.provider), counts.total - counts.pending);
            }
        }
        for broadcast in &broadcasts {
            let counts = broadcast.counts.unwrap_or_default();
            settled.insert(Of::Broadcast(broadcast.id), counts.total - counts.pending);
        }
        self.pace.measure(settled, Instant::now());
        self.seen = Seen {
            broadcasts: broadcasts.into_iter().map(|broadcast| self.broadcast(broadcast)).collect(),
            providers: listed
                .providers
                .into_iter()
                .map(|provider| SeenProvider {
                    pending: pending.get(&provider.name).copied().unwrap_or_default(),
                    rate: self.pace.of_provider(&provider.name),
                    provider,
                })
                .collect(),
            senders,
            problem: None,
        };
        Ok(())
    }

    async fn list(&self, states: &[BroadcastState], page_size: i32) -> Result<Vec<v1::Broadcast>, Failure> {
        let states = states.iter().map(|state| *state as i32).collect();
        let request = v1::ListBroadcastsRequest { states, page_size, page_token: String::new() };
        let mut broadcasts = self.intake.broadcasts();
        let answer = self.intake.call("list broadcasts", broadcasts.list_broadcasts(request)).await?;
        Ok(answer.broadcasts)
    }

    async fn providers_of(&self, broadcast_id: i64) -> Result<Vec<v1::ProviderStatus>, Failure> {
        let request = v1::GetStatusRequest { broadcast_id };
        let answer = self.sender.call("get the status", self.sender.deliveries().get_status(request)).await?;
        Ok(answer.status.unwrap_or_default().providers)
    }

    fn broadcast(&self, broadcast: v1::Broadcast) -> SeenBroadcast {
        let open = is_open(&broadcast);
        SeenBroadcast {
            rate: self.pace.of_broadcast(broadcast.id).filter(|_| open),
            id: broadcast.id,
            title: broadcast.title,
            state: broadcast.state,
            paused: broadcast.paused,
            counts: broadcast.counts.unwrap_or_default(),
        }
    }
}

fn is_open(broadcast: &v1::Broadcast) -> bool {
    !matches!(broadcast.state(), BroadcastState::Completed | BroadcastState::Cancelled)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_follows_what_is_settled_and_is_that_of_all_broadcasts_at_a_provider() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let push = |id| Of::Provider(id, "push".into());
        let look = |n| HashMap::from([(Of::Broadcast(1), n), (push(1), n), (push(2), 2 * n)]);
        pace.measure(look(0), start);
        assert_eq!((pace.of_broadcast(1), pace.of_provider("push")), (None, None), "one look tells no rate");
        pace.measure(look(100), start + Duration::from_secs(1));
        assert_eq!((pace.of_broadcast(1), pace.of_provider("push")), (Some(100.0), Some(300.0)));
        pace.measure(look(500), start + Duration::from_secs(3));
        assert_eq!(pace.of_broadcast(1), Some(150.0), "half of what it was, half of what it is");
        assert_eq!(pace.of_provider("apns"), None);
        pace.measure(HashMap::new(), start + Duration::from_secs(4));
        assert_eq!(pace.of_broadcast(1), None, "what is not seen any more has none");
    }
}
