//! Each step, done to the store and to the model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bongsu_store::{
    Acceptance, Audience, BroadcastId, BroadcastState, Controlled, DeadLetterMatch, DeadReason,
    DeliveryFilter, DeliveryState, DeviceId, Due, FanOut, Flush, Guarantee, LeasedBatch, NewReplay, Outcome,
    ProviderId, Replay, ReplayLetters, Store, Verdict,
};

use super::expected::{Broadcast, Delivery, Lease, Model, Recorded};
use super::{Answer, Step};
use crate::harness::sql;
use crate::stage::{HOUR, LEASE, Sender, new_broadcast, stage_on};

/// Devices that exist.
const DEVICES: usize = 8;

pub(super) type Check = Result<(), String>;

pub struct Machine {
    pub(super) store: Store,
    pub(super) model: Model,
    senders: Vec<Hand>,
    devices: Vec<DeviceId>,
    pub(super) made: usize,
    /// At most once: attempts that somebody was allowed to call.
    called: BTreeMap<(BroadcastId, DeviceId, i32), (usize, i64)>,
}

/// A sender, and what it believes to hold.
struct Hand {
    sender: Sender,
    held: Vec<Held>,
}

#[derive(Clone)]
struct Held {
    leased: LeasedBatch,
    lease: Lease,
    /// Not answered yet: the device, and whether it is to be called, skipped, or was interrupted.
    left: Vec<(DeviceId, Left)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Left {
    Call,
    Skip,
    Interrupted,
    Marked,
}

impl Machine {
    pub async fn new(senders: usize, shards: i16) -> Self {
        let (store, provider) = stage_on(shards, DEVICES).await;
        let first = sql(&store, "SELECT min(id) FROM device").await;
        let devices = (0..DEVICES as i64).map(|n| DeviceId(first + n)).collect();
        let senders =
            (0..senders).map(|_| Hand { sender: Sender::new(&store, provider), held: vec![] }).collect();
        let _: ProviderId = provider;
        Self { store, model: Model::default(), senders, devices, made: 0, called: BTreeMap::new() }
    }

    pub async fn step(&mut self, step: &Step) -> Check {
        match step {
            Step::Accept { at_most_once, devices } => self.accept(*at_most_once, *devices).await,
            Step::Schedule { at_most_once } => self.schedule(*at_most_once).await,
            Step::Start => self.start().await,
            Step::FanOut => self.fan_out().await.map(|_| ()),
            Step::Claim { sender } => self.claim(*sender).await,
            Step::Mark { sender, batch, deliveries } => self.mark(*sender, *batch, *deliveries).await,
            Step::Record { sender, batch, answers } => self.record(*sender, *batch, answers, false).await,
            Step::Close { sender, batch } => self.record(*sender, *batch, &[], true).await,
            Step::Renew { sender } => self.renew(*sender).await,
            Step::Release { sender } => self.release(*sender).await,
            Step::RunOut { sender, often } => self.run_out(*sender, *often).await,
            Step::RetriesDue => self.retries_due().await,
            Step::Pause { broadcast } => self.pause(*broadcast, true).await,
            Step::Resume { broadcast } => self.pause(*broadcast, false).await,
            Step::Cancel { broadcast } => self.cancel(*broadcast).await,
            Step::Expire { broadcast } => self.expire(*broadcast).await,
            Step::Replay { broadcast } => self.replay(*broadcast).await,
            Step::WithdrawConsent { device } => self.withdraw(*device).await,
            Step::Sweep => self.sweep().await,
            Step::Complete => self.complete().await,
        }
    }

    /// Compares every delivery with the model, and asks for the invariants.
    pub async fn check(&mut self) -> Check {
        for id in self.model.broadcasts.keys() {
            let state = self.store.status(*id).await.unwrap().unwrap().state;
            self.model_final(*id, state.is_final())?;
            let filter =
                DeliveryFilter { broadcast: *id, states: vec![], provider: None, after: None, limit: 1_000 };
            let found: BTreeMap<DeviceId, Delivery> = self
                .store
                .list_deliveries(&filter)
                .await
                .unwrap()
                .into_iter()
                .map(|d| (d.device, Delivery { state: d.state, attempts: d.attempts }))
                .collect();
            let expected: BTreeMap<DeviceId, Delivery> = self
                .model
                .deliveries
                .iter()
                .filter(|((b, _), _)| b == id)
                .map(|((_, d), x)| (*d, *x))
                .collect();
            same(&format!("deliveries of {id}"), &found, &expected)?;
        }
        let broken = self.store.broken_invariants().await.unwrap();
        if broken.is_empty() { Ok(()) } else { Err(format!("{broken:?}")) }
    }

    fn model_final(&self, id: BroadcastId, found: bool) -> Check {
        let open = self.model.deliveries.iter().any(|((b, _), d)| *b == id && d.is_open());
        if found && open { Err(format!("{id} is final, and something is open")) } else { Ok(()) }
    }

    /// Lets everything come to its end: nothing may be left.
    pub async fn finish(&mut self) -> Check {
        for sender in 0..self.senders.len() {
            self.run_out(sender, false).await?;
        }
        let all: Vec<BroadcastId> = self.model.broadcasts.keys().copied().collect();
        for n in 0..all.len() {
            self.pause(n, false).await?;
        }
        self.start().await?;
        for _ in 0..40 {
            while self.fan_out().await? {}
            self.retries_due().await?;
            self.claim(0).await?;
            while let Some(held) = self.senders[0].held.first().cloned() {
                let all = vec![Answer::Sent; held.left.len()];
                self.mark(0, 0, held.left.len()).await?;
                self.record(0, 0, &all, true).await?;
            }
            self.sweep().await?;
            if self.model.broadcasts.values().all(|b| b.is_final) {
                break;
            }
        }
        self.check().await?;
        for id in all {
            let status = self.store.status(id).await.unwrap().unwrap();
            let expected = if self.model.broadcasts[&id].cancelled {
                BroadcastState::Cancelled
            } else {
                BroadcastState::Completed
            };
            same(&format!("end of {id}"), &status.state, &expected)?;
        }
        Ok(())
    }

    async fn accept(&mut self, at_most_once: bool, devices: usize) -> Check {
        self.made += 1;
        let chosen = (0..devices).map(|n| self.devices[(self.made + n) % DEVICES]).collect();
        let guarantee = if at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce };
        // An odd one is fanned out by pages, an even one in the transaction that accepts it.
        let audience = if self.made % 2 == 1 { Audience::Everyone } else { Audience::devices(chosen) };
        let key = format!("k{}", self.made);
        let new = bongsu_store::NewBroadcast { guarantee, ..new_broadcast(&key, audience) };
        let Acceptance::New(broadcast) = self.store.accept(&new).await.unwrap() else {
            return Err("not new".into());
        };
        self.model.broadcasts.insert(broadcast.id, Broadcast { at_most_once, ..Broadcast::default() });
        self.learn(broadcast.id).await;
        // One to devices that cannot be reached ends as it is accepted.
        self.note_final().await;
        Ok(())
    }

    /// Fan-out decides who is in: new deliveries are taken over from the store, pending and never called.
    async fn learn(&mut self, id: BroadcastId) {
        let filter =
            DeliveryFilter { broadcast: id, states: vec![], provider: None, after: None, limit: 1_000 };
        for d in self.store.list_deliveries(&filter).await.unwrap() {
            let new = Delivery { state: DeliveryState::Pending, attempts: 0 };
            self.model.deliveries.entry((id, d.device)).or_insert(new);
        }
    }

    async fn fan_out(&mut self) -> Result<bool, String> {
        let FanOut::Page { broadcast, .. } = self.store.fan_out_page().await.unwrap() else {
            return Ok(false);
        };
        if self.model.broadcasts[&broadcast].scheduled {
            return Err(format!("{broadcast} is fanned out before its time"));
        }
        self.learn(broadcast).await;
        self.note_final().await;
        let replay_of = match self.store.broadcast(broadcast).await.unwrap().unwrap().audience {
            bongsu_store::AudienceSummary::DeadLetters(of) => of,
            _ => return Ok(true),
        };
        let taken: Vec<DeviceId> =
            self.model.deliveries.keys().filter(|(b, _)| *b == broadcast).map(|(_, d)| *d).collect();
        for device in taken {
            // Only one replay may take it, and only a failed one.
            let original = self.model.deliveries[&(replay_of, device)];
            if !matches!(original.state, DeliveryState::Dead | DeliveryState::Unconfirmed) {
                return Err(format!("replayed {original:?}"));
            }
            self.model.letters.remove(&(replay_of, device));
        }
        Ok(true)
    }

    pub(super) async fn note_final(&mut self) {
        for (id, broadcast) in &mut self.model.broadcasts {
            broadcast.is_final = self.store.status(*id).await.unwrap().unwrap().state.is_final();
        }
        let finals = &self.model.broadcasts;
        self.model.leases.retain(|_, (_, lease, _)| !finals[&lease.broadcast].is_final);
    }

    async fn claim(&mut self, sender: usize) -> Check {
        let hand = &self.senders[sender];
        let held: Vec<LeasedBatch> = hand.held.iter().map(|h| h.leased).collect();
        let batches = hand.sender.claim_beside(&held).await;
        let due = hand.sender.read(&batches).await;
        for leased in batches {
            if let Some((holder, _, ran_out)) = self.model.leases.get(&leased.id)
                && !ran_out
            {
                return Err(format!("batch {} was taken from sender {holder}, whose lease holds", leased.id));
            }
            let broadcast = self.model.broadcasts[&leased.broadcast];
            if broadcast.paused || broadcast.cancelled || broadcast.expired {
                return Err(format!("batch {} of a stopped broadcast was claimed", leased.id));
            }
            let left: Vec<_> = due
                .iter()
                .filter(|d| d.batch == leased.id)
                .map(|d| {
                    let left = match d.due {
                        Due::Call(_) => Left::Call,
                        Due::Skip => Left::Skip,
                        Due::Interrupted => Left::Interrupted,
                        Due::SeenLive | Due::AwaitAck(_) => unreachable!("no event is read here"),
                    };
                    (d.device, left)
                })
                .collect();
            let lease = Lease {
                batch: leased.id,
                epoch: leased.epoch,
                broadcast: leased.broadcast,
                attempt: leased.attempt,
                deliveries: left.iter().map(|(d, _)| *d).collect(),
            };
            self.model.leases.insert(leased.id, (sender, lease.clone(), false));
            self.senders[sender].held.push(Held { leased, lease, left });
        }
        Ok(())
    }

    fn choose(&self, sender: usize, batch: usize) -> Option<usize> {
        let held = self.senders[sender].held.len();
        (held > 0).then(|| batch % held)
    }

    async fn mark(&mut self, sender: usize, batch: usize, deliveries: usize) -> Check {
        let Some(at) = self.choose(sender, batch) else { return Ok(()) };
        let held = self.senders[sender].held[at].clone();
        if !self.model.broadcasts[&held.lease.broadcast].at_most_once {
            return Ok(());
        }
        let wanted: Vec<DeviceId> = held
            .left
            .iter()
            .filter(|(_, left)| *left == Left::Call)
            .take(deliveries)
            .map(|(d, _)| *d)
            .collect();
        let asked: Vec<_> = wanted.iter().map(|d| (held.leased, *d)).collect();
        let id = self.senders[sender].sender.id;
        let found = self.store.flush_lane(id).mark_sending(&asked).await.unwrap();
        let expected: Vec<bool> = wanted.iter().map(|d| self.model.mark(sender, &held.lease, *d)).collect();
        same("marks", &found, &expected)?;
        for device in wanted.iter().zip(found).filter(|(_, may)| *may).map(|(d, _)| *d) {
            let call = (held.lease.broadcast, device, held.lease.attempt);
            if let Some(before) = self.called.insert(call, (sender, held.lease.epoch)) {
                return Err(format!("{call:?} may be called twice: before by {before:?}"));
            }
            let left = &mut self.senders[sender].held[at].left;
            left.iter_mut().filter(|(d, _)| *d == device).for_each(|(_, left)| *left = Left::Marked);
        }
        Ok(())
    }

    async fn record(&mut self, sender: usize, batch: usize, answers: &[Answer], close: bool) -> Check {
        let Some(at) = self.choose(sender, batch) else { return Ok(()) };
        let held = self.senders[sender].held[at].clone();
        let at_most_once = self.model.broadcasts[&held.lease.broadcast].at_most_once;
        let mut answers = answers.iter();
        let mut outcomes = vec![];
        let mut left = vec![];
        for (device, what) in &held.left {
            let verdict = match what {
                Left::Skip => Some(Verdict::Skipped),
                Left::Interrupted => Some(unconfirmed()),
                Left::Marked => answers.next().map(|answer| verdict(*answer, at_most_once)),
                Left::Call => match answers.next() {
                    Some(Answer::Awaited) => Some(Verdict::AwaitAck { after: HOUR }),
                    Some(Answer::Seen) => Some(Verdict::SeenLive),
                    // Only what was noted is called.
                    _ if at_most_once => None,
                    _ if held.leased.is_suspect() => Some(Verdict::Alone),
                    answer => answer.map(|answer| verdict(*answer, at_most_once)),
                },
            };
            match verdict {
                Some(verdict) => outcomes.push(Outcome { batch: held.leased, device: *device, verdict }),
                None => left.push((*device, *what)),
            }
        }
        if close && left.iter().any(|(_, what)| *what == Left::Marked) {
            return Ok(()); // a call is under way: it is not closed before its answer
        }
        let closed = if close { vec![held.leased] } else { vec![] };
        let hand = &self.senders[sender];
        let flushed = hand.sender.flush(Flush { outcomes: outcomes.clone(), closed, unfit: vec![] }).await;
        let holds = self.model.holds(sender, &held.lease);
        let mut expected = BTreeMap::from([("recorded", 0), ("fenced", 0), ("stale", 0)]);
        for outcome in &outcomes {
            let kind = match self.model.record(sender, &held.lease, outcome.device, &outcome.verdict) {
                Recorded::Counted => "recorded",
                Recorded::Fenced => "fenced",
                Recorded::Stale => "stale",
            };
            *expected.entry(kind).or_default() += 1;
        }
        let found = BTreeMap::from([
            ("recorded", flushed.recorded),
            ("fenced", flushed.fenced),
            ("stale", flushed.stale),
        ]);
        same("flush", &found, &expected)?;
        if close {
            if holds {
                self.model.leases.remove(&held.lease.batch);
            }
            self.senders[sender].held.remove(at);
        } else {
            self.senders[sender].held[at].left = left;
        }
        Ok(())
    }

    async fn renew(&mut self, sender: usize) -> Check {
        let hand = &self.senders[sender];
        let leases: Vec<LeasedBatch> = hand.held.iter().map(|h| h.leased).collect();
        let kept = self.store.control_lane(hand.sender.id).renew(&leases, LEASE).await.unwrap();
        let kept: BTreeSet<_> = kept.into_iter().collect();
        let expected: BTreeSet<_> =
            hand.held.iter().filter(|h| self.model.holds(sender, &h.lease)).map(|h| h.leased.id).collect();
        same("renewed", &kept, &expected)?;
        for id in kept {
            self.model.leases.get_mut(&id).expect("held").2 = false;
        }
        Ok(())
    }

    /// As at the end of a drain: what it did not call goes back, and it forgets all of it.
    async fn release(&mut self, sender: usize) -> Check {
        let calling = |h: &Held| h.left.iter().any(|(_, what)| *what == Left::Marked);
        if self.senders[sender].held.iter().any(calling) {
            return Ok(()); // a drain waits for its calls
        }
        let id = self.senders[sender].sender.id;
        self.store.control_lane(id).release().await.unwrap();
        self.model.leases.retain(|_, (holder, ..)| *holder != sender);
        self.senders[sender].held.clear();
        Ok(())
    }

    async fn run_out(&mut self, sender: usize, often: bool) -> Check {
        let id = self.senders[sender].sender.id.0;
        sqlx::query(
            "UPDATE batch SET lease_expires_at = now() - interval '2 minutes', \
             reclaims = CASE WHEN $2 THEN greatest(reclaims, 2) ELSE reclaims END WHERE lease_owner = $1",
        )
        .bind(id)
        .bind(often)
        .execute(self.store.test_pool())
        .await
        .unwrap();
        self.model.leases.values_mut().filter(|(holder, ..)| *holder == sender).for_each(|l| l.2 = true);
        Ok(())
    }

    async fn retries_due(&mut self) -> Check {
        sqlx::query("UPDATE batch SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")
            .execute(self.store.test_pool())
            .await
            .unwrap();
        Ok(())
    }

    fn broadcast(&self, n: usize) -> Option<BroadcastId> {
        let all: Vec<_> = self.model.broadcasts.keys().copied().collect();
        (!all.is_empty()).then(|| all[n % all.len()])
    }

    async fn pause(&mut self, n: usize, pause: bool) -> Check {
        let Some(id) = self.broadcast(n) else { return Ok(()) };
        let outcome = match pause {
            true => self.store.pause_broadcast(id).await.unwrap(),
            false => self.store.resume_broadcast(id).await.unwrap(),
        };
        let model = self.model.broadcasts.get_mut(&id).expect("known");
        let may = !model.is_final && !model.cancelled;
        same("pause", &matches!(outcome, Controlled::Done(_)), &may)?;
        let resumed = may && !pause && model.paused;
        if may {
            model.paused = pause;
        }
        if resumed {
            // A resume does for its broadcast what a sweep does for all.
            self.drop_held_leases(|broadcast| broadcast == id);
        }
        Ok(())
    }

    fn drop_held_leases(&mut self, of: impl Fn(BroadcastId) -> bool) {
        let broadcasts = &self.model.broadcasts;
        self.model.leases.retain(|_, (_, lease, ran_out)| {
            let b = broadcasts[&lease.broadcast];
            let held = b.paused || b.cancelled || b.expired;
            !(*ran_out && held && of(lease.broadcast))
        });
    }

    async fn cancel(&mut self, n: usize) -> Check {
        let Some(id) = self.broadcast(n) else { return Ok(()) };
        let outcome = self.store.cancel_broadcast(id).await.unwrap();
        if matches!(outcome, Controlled::Done(_)) {
            let model = self.model.broadcasts.get_mut(&id).expect("known");
            (model.cancelled, model.paused, model.scheduled) = (true, false, false);
        }
        self.note_final().await;
        Ok(())
    }

    async fn expire(&mut self, n: usize) -> Check {
        let Some(id) = self.broadcast(n) else { return Ok(()) };
        sqlx::query(
            "UPDATE broadcast SET created_at = created_at - interval '9 days', expires_at = now(), \
             scheduled_at = CASE WHEN scheduled_at IS NOT NULL THEN created_at - interval '8 days' END WHERE id = $1",
        )
        .bind(id.0)
        .execute(self.store.test_pool())
        .await
        .unwrap();
        self.model.broadcasts.get_mut(&id).expect("known").expired = true;
        Ok(())
    }

    async fn replay(&mut self, n: usize) -> Check {
        let Some(id) = self.broadcast(n) else { return Ok(()) };
        self.made += 1;
        let new = NewReplay {
            client_id: "test".into(),
            replay_id: format!("r{}", self.made),
            broadcast: id,
            letters: ReplayLetters::Matching(DeadLetterMatch {
                reasons: vec![DeadReason::AttemptsExhausted, DeadReason::Unconfirmed],
                ..Default::default()
            }),
            ttl: HOUR,
            max_rate_per_second: None,
        };
        let Replay::Accepted(Acceptance::New(child)) = self.store.replay(&new).await.unwrap() else {
            return Err("not new".into());
        };
        let at_most_once = self.model.broadcasts[&id].at_most_once;
        self.model.broadcasts.insert(child.id, Broadcast { at_most_once, ..Broadcast::default() });
        Ok(())
    }

    async fn withdraw(&mut self, n: usize) -> Check {
        let device = self.devices[n % DEVICES];
        sqlx::query("UPDATE device SET enabled = false WHERE id = $1")
            .bind(device.0)
            .execute(self.store.test_pool())
            .await
            .unwrap();
        Ok(())
    }

    async fn sweep(&mut self) -> Check {
        let mut lane = self.store.sweep_lane();
        while !lane.sweep().await.unwrap().round_over {}
        self.model.sweep();
        self.note_final().await;
        Ok(())
    }

    async fn complete(&mut self) -> Check {
        let all: Vec<_> = self.model.broadcasts.keys().copied().collect();
        self.store.complete_broadcasts(&all).await.unwrap();
        self.note_final().await;
        Ok(())
    }
}

fn verdict(answer: Answer, at_most_once: bool) -> Verdict {
    match answer {
        // What was noted is being called, whatever its user does.
        Answer::Sent | Answer::Awaited | Answer::Seen => Verdict::Sent,
        Answer::Retry => {
            Verdict::Retry { after: Duration::ZERO, code: "503".into(), detail: String::new(), charged: true }
        }
        Answer::Dead => {
            Verdict::Dead { reason: DeadReason::AttemptsExhausted, code: "503".into(), detail: "busy".into() }
        }
        Answer::Lost if at_most_once => unconfirmed(),
        Answer::Lost => Verdict::Retry {
            after: Duration::ZERO,
            code: "timeout".into(),
            detail: String::new(),
            charged: true,
        },
    }
}

fn unconfirmed() -> Verdict {
    Verdict::Unconfirmed { code: "timeout".into(), detail: String::new() }
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Check {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}
