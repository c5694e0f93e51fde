//! Whether a call may start now, and waiting until it may: for the lease, the heartbeat, and slots of a rate.

use std::time::Duration;

use bongsu_store::Verdict;

use super::Engine;
use super::held::HeldBatch;
use super::line::Line;
use super::pace::{Counted, Pacer, Slot};

/// While a call must not start because the lease or the heartbeat is overdue, or the line has no room after an outage, this
/// is how often it is looked at again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What to do with the delivery at the head of the queue.
pub(super) enum Start {
    Call,
    Settle(Verdict),
    /// Not now: its batch goes back.
    GiveBack,
    /// Its batch is somebody else's now.
    Drop,
}

pub(super) async fn may_start(engine: &Engine, line: &Line, held: &HeldBatch, probe: bool) -> Start {
    loop {
        if held.is_lost() {
            return Start::Drop;
        }
        if held.work.is_cancelled() {
            return Start::Settle(Verdict::Cancelled);
        }
        if held.work.is_expired() {
            return Start::Settle(Verdict::Expired);
        }
        if held.work.is_paused() || (line.is_closed() && !probe) {
            return Start::GiveBack;
        }
        if engine.holdings.lease_allows_start(held) && engine.pulse.is_fresh() {
            return Start::Call;
        }
        // Renewal or heartbeat is late: Postgres is slow or away. Somebody else may soon hold this batch.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// As [`may_start`], for what is noted first: not while many wait for a slot already.
pub(super) async fn may_note(
    engine: &Engine,
    line: &Line,
    held: &HeldBatch,
    place: &mut Option<Counted>,
) -> Start {
    loop {
        let start = may_start(engine, line, held, false).await;
        *place = line.pacer.place_to_note();
        if !matches!(start, Start::Call) || place.is_some() {
            return start;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// As [`may_start`], in a slot of the line's rate: in this one as long as it lasts, or in one that is waited for.
pub(super) async fn may_start_in_slot(
    engine: &Engine,
    line: &Line,
    held: &HeldBatch,
    slot: &mut Option<Slot>,
) -> Start {
    loop {
        let start = may_start(engine, line, held, false).await;
        if !matches!(start, Start::Call) || line.pacer.allows(*slot) {
            return start;
        }
        if slot.is_some() {
            line.pacer.forfeit();
        }
        *slot = line.pacer.slot(&engine.slots_needed).await;
    }
}

/// As [`may_start_in_slot`], in a slot of its broadcast's own rate, too. That is waited for first, and no slot of the provider is
/// used up by who has none of the broadcast.
pub(super) async fn may_start_at_rate(
    engine: &Engine,
    line: &Line,
    held: &HeldBatch,
    cap: &Pacer,
    probe: bool,
    slot: &mut Option<Slot>,
) -> Start {
    let mut own: Option<Slot> = None;
    loop {
        let start = may_start(engine, line, held, probe).await;
        if !matches!(start, Start::Call) {
            return start;
        }
        let in_slot = probe || line.pacer.allows(*slot);
        match own.filter(|own| cap.allows(Some(*own))) {
            Some(_) if in_slot => {
                cap.used();
                return start;
            }
            // Nobody reserves slots during a drain.
            None if engine.calls.is_closed() => return Start::GiveBack,
            None => {
                if own.is_some() {
                    cap.forfeit();
                }
                own = cap.slot(&engine.slots_needed).await;
            }
            Some(own) => {
                if slot.is_some() {
                    line.pacer.forfeit();
                }
                *slot = line.pacer.slot_before(own.until(), &engine.slots_needed).await;
            }
        }
    }
}
