//! Whether a provider is believed that a token is of no use: not where it says so of an implausible share of all tokens at
//! once. Then the mistake is ours, another app's credentials or another environment's address, and the devices are fine.
//!
//! As long as that is open, what it says of tokens is held back; it is dropped where the provider is doubted, and lost with this
//! process: the next broadcast hears it again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bongsu_store::Unfit;
use tokio::time::Instant;

/// Slots that a window is counted in. A stretch of answers that ends now begins with any of them, so that a provider that
/// changes in the midst of much traffic is noticed after one slot and not after half a window.
const SLOTS: u32 = 12;
/// Devices of a line that are held back at most, a few hundred bytes each. Further ones stay registered until the next time.
const HELD_MOST: usize = 50_000;

/// When a provider is not believed.
#[derive(Debug, Clone, PartialEq)]
pub struct MassInvalidation {
    /// This share of the answers or more say that a token is of no use …
    pub share: f64,
    /// … of so many answers to first attempts, or more …
    pub answers: u32,
    /// … within this time. So long retirement is held back.
    pub window: Duration,
}

impl Default for MassInvalidation {
    fn default() -> Self {
        Self { share: 0.5, answers: 200, window: Duration::from_secs(60) }
    }
}

/// Why a provider is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    pub unfit: u32,
    pub answers: u32,
}

/// What one provider has said of tokens lately, as this sender knows it.
#[derive(Debug)]
pub struct Doubt {
    /// None: it is always believed.
    limits: Option<MassInvalidation>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    slots: VecDeque<Slot>,
    /// In the order in which they came.
    held: VecDeque<(Instant, Unfit)>,
}

#[derive(Debug)]
struct Slot {
    began: Instant,
    answers: u32,
    unfit: u32,
}

impl Doubt {
    pub fn new(limits: Option<MassInvalidation>) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a definite answer to a first attempt: whether it says that the token is of no use. Returns the evidence where it
    /// is the one that makes the provider implausible; all that is held back is dropped then.
    pub fn count(&self, unfit: bool, now: Instant) -> Option<Evidence> {
        let limits = self.limits.as_ref()?;
        let mut state = self.state();
        while state.slots.front().is_some_and(|slot| now.duration_since(slot.began) >= limits.window) {
            state.slots.pop_front();
        }
        if state.slots.back().is_none_or(|slot| now.duration_since(slot.began) >= limits.window / SLOTS) {
            state.slots.push_back(Slot { began: now, answers: 0, unfit: 0 });
        }
        if let Some(slot) = state.slots.back_mut() {
            slot.answers += 1;
            slot.unfit += u32::from(unfit);
        }
        if !unfit {
            return None;
        }
        let evidence = state.evidence(limits)?;
        *state = State::default();
        Some(evidence)
    }

    /// Holds a device back until it is known whether the provider is to be believed, or returns it where it always is.
    pub fn hold(&self, unfit: Unfit, now: Instant) -> Option<Unfit> {
        if self.limits.is_none() {
            return Some(unfit);
        }
        let mut state = self.state();
        if state.held.len() < HELD_MOST {
            state.held.push_back((now, unfit));
        }
        None
    }

    /// Up to `most` devices of which the provider is believed by now.
    pub fn believed(&self, most: usize, now: Instant) -> Vec<Unfit> {
        let Some(limits) = &self.limits else { return vec![] };
        let mut state = self.state();
        let ripe = state
            .held
            .iter()
            .take(most)
            .take_while(|(at, _)| now.duration_since(*at) >= limits.window)
            .count();
        state.held.drain(..ripe).map(|(_, unfit)| unfit).collect()
    }

    /// Nothing that it said counts: it is doubted, here or by another sender.
    pub fn forget(&self) {
        *self.state() = State::default();
    }
}

impl State {
    /// A stretch that ends now and is implausible.
    fn evidence(&self, limits: &MassInvalidation) -> Option<Evidence> {
        let mut stretch = Evidence { unfit: 0, answers: 0 };
        self.slots.iter().rev().find_map(|slot| {
            stretch.unfit += slot.unfit;
            stretch.answers += slot.answers;
            let many = stretch.answers >= limits.answers;
            (many && f64::from(stretch.unfit) >= limits.share * f64::from(stretch.answers)).then_some(stretch)
        })
    }
}

#[cfg(test)]
mod tests {
    use bongsu_store::{BroadcastId, DeviceId, Fate};
    use time::OffsetDateTime;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn doubt() -> Doubt {
        Doubt::new(Some(MassInvalidation::default()))
    }

    fn unfit(id: i64) -> Unfit {
        Unfit {
            shard: 0,
            device: DeviceId(id),
            token: "secret".into(),
            registered_at: OffsetDateTime::UNIX_EPOCH,
            broadcast: BroadcastId(1),
            code: "410".into(),
            fate: Fate::Retired,
        }
    }

    #[test]
    fn two_hundred_answers_of_which_half_say_gone_make_a_provider_implausible_and_drop_what_was_held_back() {
        let (doubt, now) = (doubt(), Instant::now());
        for n in 0..199 {
            assert_eq!(doubt.count(n % 2 == 1, now), None);
        }
        assert_eq!(doubt.hold(unfit(1), now), None);
        assert_eq!(doubt.count(true, now), Some(Evidence { unfit: 100, answers: 200 }));
        assert_eq!(doubt.believed(10, now + WINDOW), []);
        assert_eq!(doubt.count(true, now), None, "it begins anew");
    }

    #[test]
    fn a_few_per_cent_are_believed_once_the_window_is_over_and_not_before() {
        let (doubt, now) = (doubt(), Instant::now());
        for n in 0..10_000 {
            assert_eq!(doubt.count(n % 20 == 0, now), None);
        }
        for id in 1..=3 {
            assert_eq!(doubt.hold(unfit(id), now), None);
        }
        assert_eq!(doubt.believed(10, now + WINDOW - Duration::from_millis(1)), []);
        assert_eq!(doubt.believed(2, now + WINDOW), [unfit(1), unfit(2)]);
        assert_eq!(doubt.believed(2, now + WINDOW), [unfit(3)]);
        doubt.hold(unfit(4), now);
        doubt.forget();
        assert_eq!(doubt.believed(2, now + WINDOW), []);
    }

    #[test]
    fn fewer_answers_than_that_within_a_window_prove_nothing() {
        let (doubt, now) = (doubt(), Instant::now());
        for n in 0..1_000 {
            assert_eq!(doubt.count(true, now + n * WINDOW / 150), None);
        }
    }

    #[test]
    fn a_provider_that_changes_in_the_midst_of_much_traffic_is_noticed_within_a_slot_or_two() {
        let (doubt, now) = (doubt(), Instant::now());
        for n in 0..100_000 {
            assert_eq!(doubt.count(false, now + n * WINDOW / 200_000), None);
        }
        let changed = now + WINDOW / 2;
        let noticed = (0..100_000)
            .map(|n| n * WINDOW / 200_000)
            .find(|later| doubt.count(true, changed + *later).is_some())
            .expect("noticed");
        assert!(noticed <= WINDOW / SLOTS * 2, "{noticed:?}");
    }

    #[test]
    fn where_it_is_switched_off_every_word_is_believed_at_once() {
        let (doubt, now) = (Doubt::new(None), Instant::now());
        assert!((0..1_000).all(|_| doubt.count(true, now).is_none()));
        assert_eq!(doubt.hold(unfit(1), now), Some(unfit(1)));
    }

    #[test]
    fn what_is_held_back_is_bounded_and_shows_no_token() {
        let (doubt, now) = (doubt(), Instant::now());
        for id in 0..HELD_MOST as i64 + 1 {
            doubt.hold(unfit(id), now);
        }
        assert_eq!(doubt.believed(usize::MAX, now + WINDOW).len(), HELD_MOST);
        doubt.hold(unfit(1), now);
        assert!(!format!("{doubt:?}").contains("secret"));
    }
}
