//! Broadcasts with a rate of their own: slots and the deliveries for them come together, for half a second at a time.

use std::collections::HashMap;
use std::time::Duration;

use bongsu_store::{
    BroadcastId, CAPPED_AHEAD, CAPPED_SHARE, CappedBroadcast, CappedTaken, CappedWant, LeasedBatch, Result,
};
use tokio::time::Instant;

use super::claim::Claimer;
use super::reserve::DatabaseClock;
use crate::metrics;

/// It is looked for broadcasts with a rate this often …
const LIST_EVERY: Duration = Duration::from_millis(200);
/// … and where there are some, this often whether slots run low.
const LOOK: Duration = Duration::from_millis(40);
/// Slots are asked for, for this long at a time, when those in hand reach no further.
const AT_A_TIME: Duration = Duration::from_millis(500);
/// Slots asked for at a time at most, and with them deliveries.
const MOST_SLOTS: usize = 2_000;
/// After an answer without slots.
const LATER: Duration = Duration::from_millis(80);

/// What a sender remembers of them from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Capped {
    open: Vec<CappedBroadcast>,
    listed: Option<Instant>,
    /// Nothing is asked for these before.
    later: HashMap<BroadcastId, Instant>,
    clock: DatabaseClock,
}

impl Capped {
    /// When to look again at the latest.
    pub(super) fn look_again(&self) -> Duration {
        if self.open.is_empty() { LIST_EVERY } else { LOOK }
    }
}

impl Claimer {
    /// Takes slots of broadcasts with a rate of their own, and work for them, where those in hand run low.
    pub(super) async fn claim_capped(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.capped.listed.is_none_or(|listed| now - listed >= LIST_EVERY) {
            self.capped.open = self.lane.list_capped().await?;
            self.capped.listed = Some(now);
            let open = &self.capped.open;
            self.capped.later.retain(|id, _| open.iter().any(|broadcast| broadcast.id == *id));
        }
        let wants: Vec<_> =
            self.capped.open.iter().filter_map(|broadcast| self.want_of(*broadcast, now)).collect();
        if wants.is_empty() {
            return Ok(());
        }
        let open = self.engine.lines.iter().filter(|line| !line.is_closed());
        let providers: Vec<_> = open.map(|line| line.provider).collect();
        let asked = Instant::now();
        let taken = self.lane.claim_capped(&wants, &providers, self.engine.limits.lease).await?;
        let answered = Instant::now();
        let batches: Vec<LeasedBatch> =
            taken.iter().flat_map(|taken| taken.batches.iter().copied()).collect();
        let supplied = if batches.is_empty() {
            vec![]
        } else {
            metrics::claimed(answered - asked, &batches);
            self.take_in(&batches, asked).await?
        };
        // The slots first: what comes into the queue looks whether there is one.
        for taken in &taken {
            self.add_slots(taken, asked, answered);
        }
        for (line, held, due) in supplied {
            self.supply(&line, held, due).await;
        }
        self.engine.lines.iter().for_each(|line| line.queue.look_again());
        Ok(())
    }

    /// What this sender can use of a broadcast now.
    fn want_of(&self, broadcast: CappedBroadcast, now: Instant) -> Option<CappedWant> {
        let id = broadcast.id;
        if self.capped.later.get(&id).is_some_and(|later| now < *later) {
            return None;
        }
        let (mut in_hand, mut slots, mut ahead) = (0, 0, Duration::ZERO);
        if let Some(cap) = self.engine.holdings.broadcast(id).as_ref().and_then(|work| work.cap.as_ref()) {
            // What waits for its slot to come has a place, but for a probe.
            in_hand = cap.placed().max(cap.waiting());
            in_hand += self.engine.lines.iter().map(|line| line.queue.capped(id)).sum::<usize>();
            (slots, ahead) = cap.ahead(now);
        }
        if ahead > AT_A_TIME {
            return None;
        }
        let in_hand = u32::try_from(in_hand.saturating_sub(slots)).unwrap_or(u32::MAX);
        Some(CappedWant { broadcast: id, slots: at_a_time(broadcast.per_second), in_hand })
    }

    fn add_slots(&mut self, taken: &CappedTaken, asked: Instant, answered: Instant) {
        if taken.slots == 0 {
            let wait = taken.begins_in.saturating_sub(CAPPED_AHEAD).max(LATER);
            let wait = wait.mul_f64(0.75 + 0.5 * rand::random::<f64>());
            self.capped.later.insert(taken.broadcast, answered + wait);
            return;
        }
        let first = self.capped.clock.locate(taken.at, asked, answered) + taken.begins_in;
        // Not known any more where all of it was given back meanwhile; its slots are not used then.
        let work = self.engine.holdings.broadcast(taken.broadcast);
        if let Some(cap) = work.as_ref().and_then(|work| work.cap.as_ref()) {
            cap.add(first, taken.slots, taken.step);
        }
    }
}

/// Slots to ask for at a time.
fn at_a_time(per_second: u32) -> u32 {
    let slots = (f64::from(per_second) * CAPPED_SHARE * AT_A_TIME.as_secs_f64()).ceil() as usize;
    u32::try_from(slots.clamp(1, MOST_SLOTS)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_asked_for_half_a_second_at_a_time_however_low_or_high_the_rate_is() {
        assert_eq!([1, 10, 1_000, 1_000_000].map(at_a_time), [1, 5, 465, 2_000]);
    }
}
