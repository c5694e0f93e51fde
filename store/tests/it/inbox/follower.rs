//! A client that follows the rules – it gives back the last event id, and lists after a gap – misses nothing that is kept and sees no
//! number twice, whatever happens between.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// So many events, some of them more than a stream begins with.
    Happen(usize),
    /// The client acknowledges the last so many that it has seen.
    Acknowledge(usize),
    /// So many of the oldest are not kept any more; or one in the middle.
    Prune(usize),
    PruneOne(usize),
    /// It reads so many as they come, where it is connected.
    Read(i64),
    Disconnect,
    Connect,
    /// The app is installed anew: it has nothing.
    Forget,
    NewEpoch,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..20_usize).prop_map(Step::Happen),
        1 => (900..1_300_usize).prop_map(Step::Happen),
        3 => (1..30_usize).prop_map(Step::Acknowledge),
        2 => (1..40_usize).prop_map(Step::Prune),
        1 => any::<usize>().prop_map(Step::PruneOne),
        6 => (1..30_i64).prop_map(Step::Read),
        4 => Just(Step::Disconnect),
        6 => Just(Step::Connect),
        1 => Just(Step::Forget),
        1 => Just(Step::NewEpoch),
    ]
}

struct World {
    store: Store,
    broadcasts: Vec<BroadcastId>,
    user: String,
    number: UserNo,
    happened: i64,
    kept: BTreeSet<i64>,
    client: Client,
}

/// What the app remembers.
#[derive(Debug, Default)]
struct Client {
    last: Option<EventId>,
    /// By streams, in order; begun anew where the rules say that numbers may come again.
    streamed: Vec<i64>,
    /// By streams and lists.
    seen: BTreeSet<i64>,
    /// The number that its connection has reached, and with what ids begin there.
    connected: Option<(i64, i64)>,
}

impl World {
    async fn new(store: &Store, broadcasts: &[BroadcastId], user: String) -> Self {
        Self {
            store: store.clone(),
            broadcasts: broadcasts.to_vec(),
            number: join(store, &user).await,
            user,
            happened: 0,
            kept: BTreeSet::new(),
            client: Client::default(),
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Happen(n) => {
                let from = usize::try_from(self.happened).unwrap();
                let until = (from + n).min(self.broadcasts.len());
                events(&self.store, &self.user, &self.broadcasts[from..until]).await;
                let before = self.happened;
                self.happened = i64::try_from(until).unwrap();
                self.kept.extend(before + 1..=self.happened);
            }
            Step::Acknowledge(n) => {
                let last = self.client.seen.iter().rev().take(n).map(i64::to_string).collect::<Vec<_>>();
                if !last.is_empty() {
                    acknowledge(&self.store, self.number, &format!("seq IN ({})", last.join(","))).await;
                }
            }
            Step::Prune(n) => {
                if let Some(until) = self.kept.iter().nth(n).copied() {
                    prune(&self.store, self.number, &format!("seq < {until}")).await;
                    self.kept.retain(|seq| *seq >= until);
                }
            }
            Step::PruneOne(n) => {
                if let Some(one) = self.kept.iter().nth(n % self.kept.len().max(1)).copied() {
                    prune(&self.store, self.number, &format!("seq = {one}")).await;
                    self.kept.remove(&one);
                }
            }
            Step::Read(n) => self.read(n).await,
            Step::Disconnect => self.client.connected = None,
            Step::Connect => self.connect().await,
            Step::Forget => self.client = Client::default(),
            Step::NewEpoch => {
                self.store.new_inbox_epoch().await.unwrap();
            }
        }
    }

    async fn connect(&mut self) {
        let after = self.client.last.map_or(After::Start, After::Event);
        let backlog = beginning(&self.store, self.number, after).await;
        if backlog.gap == Some(GapReason::UnknownEventId) {
            // Ids of another epoch: what they number is something else.
            self.client.streamed.clear();
        }
        self.client.connected = Some((backlog.reached, backlog.epoch));
        for event in &backlog.events {
            self.see(event.seq, backlog.epoch);
        }
        // An app that has nothing shows the list, as after a gap: a stream begins with what nobody acknowledged.
        if backlog.gap.is_some() || after == After::Start {
            self.list().await;
        }
    }

    fn see(&mut self, seq: i64, epoch: i64) {
        self.client.streamed.push(seq);
        self.client.seen.insert(seq);
        self.client.last = Some(EventId { epoch, seq });
    }

    async fn list(&mut self) {
        let mut before = None;
        loop {
            let page = self.store.list_inbox(self.number, before, false, 100).await.unwrap();
            self.client.seen.extend(page.notifications.iter().map(|(event, _)| event.seq));
            before = page.next;
            if before.is_none() {
                return;
            }
        }
    }

    async fn read(&mut self, n: i64) {
        let Some((reached, epoch)) = self.client.connected else { return };
        let more = self.store.inbox_after(&[(self.number, reached)], n).await.unwrap();
        for event in more {
            self.see(event.seq, epoch);
            self.client.connected = Some((event.seq, epoch));
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let streamed = &self.client.streamed;
        let ascending = streamed.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(ascending, "out of order, or twice: {streamed:?}");
        let Some((reached, _)) = self.client.connected else { return Ok(()) };
        let missed: Vec<_> =
            self.kept.iter().filter(|seq| **seq <= reached && !self.client.seen.contains(*seq)).collect();
        prop_assert!(missed.is_empty(), "missed {missed:?}, at {reached} of {}", self.happened);
        Ok(())
    }
}

#[test]
fn a_client_that_follows_the_rules_misses_nothing_and_sees_no_number_twice() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (store, broadcasts) = runtime.block_on(async {
        let store = harness::store().await;
        let broadcasts = broadcasts(&store, 4_000).await;
        (store, broadcasts)
    });
    let config = Config {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(24),
        max_shrink_iters: 200,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    };
    // Each case has a user of its own.
    let cases = Cell::new(0);
    let steps = prop::collection::vec(step(), 1..40);
    TestRunner::new(config)
        .run(&steps, |steps| {
            cases.set(cases.get() + 1);
            let user = format!("user-{}", cases.get());
            runtime.block_on(async {
                let mut world = World::new(&store, &broadcasts, user).await;
                for step in steps.into_iter().chain([Step::Disconnect, Step::Connect, Step::Read(10_000)]) {
                    let what = format!("{step:?}");
                    world.step(step).await;
                    world.check().map_err(|e| TestCaseError::fail(format!("after {what}: {e}")))?;
                }
                prop_assert_eq!(world.client.connected.map(|(reached, _)| reached), Some(world.happened));
                Ok(())
            })
        })
        .unwrap();
}
