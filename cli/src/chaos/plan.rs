//! What happens in a trial, drawn from its seed: the same seed, the same plan.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Times of a trial; [`Scale::tenth`] keeps trials short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub lease: Duration,
    pub call_timeout: Duration,
    pub retry_initial: Duration,
}

impl Scale {
    /// The product's own.
    pub fn full() -> Self {
        Self {
            lease: Duration::from_secs(20),
            call_timeout: Duration::from_secs(10),
            retry_initial: Duration::from_secs(2),
        }
    }

    /// About a tenth; the lease cannot be shorter, since its margin does not scale.
    pub fn tenth() -> Self {
        Self {
            lease: Duration::from_secs(4),
            call_timeout: Duration::from_secs(1),
            retry_initial: Duration::from_millis(200),
        }
    }
}

/// One thing that is done to the processes while a broadcast is under way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// SIGKILL a sender; another one is started after a while.
    KillSender { restart_after: Duration },
    /// SIGSTOP a sender for a time shorter than its lease: nobody may take its work.
    FreezeWithinLease { length: Duration },
    /// SIGSTOP a sender beyond its lease, then let it go on and find that its work is gone.
    FreezeBeyondLease { more: Duration },
    /// SIGTERM a sender, and start another one.
    DrainSender,
    /// SIGKILL the intake, and start another one.
    KillIntake,
    /// Pause the broadcast, and resume it after a while.
    Pause { length: Duration },
}

impl Act {
    /// Whether calls under way at this sender may be made again by another one.
    pub fn may_duplicate(self) -> bool {
        matches!(self, Self::KillSender { .. } | Self::FreezeBeyondLease { .. })
    }
}

/// An act, and when it is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cue {
    pub when: When,
    pub act: Act,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// So long after CreateBroadcast was called: in the middle of it, or of the fan-out.
    AfterCall(Duration),
    /// Once the provider has accepted this share of the audience.
    Accepted(f64),
}

/// A trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// Whether the audience has devices that always fail, too.
    pub bad_devices: bool,
    /// Whether the provider drops calls whose key it has accepted.
    pub dedupe: bool,
    pub latency: Duration,
    pub transient: f64,
    /// In the order of their cues.
    pub cues: Vec<Cue>,
}

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut cues: Vec<Cue> = (0..rng.random_range(1..=4)).map(|_| draw_cue(&mut rng)).collect();
        cues.sort_by(|a, b| a.when.order().total_cmp(&b.when.order()));
        Self {
            seed,
            bad_devices: rng.random_bool(0.2),
            dedupe: rng.random_bool(0.25),
            latency: Duration::from_millis(rng.random_range(2..=40)),
            // So few that no good device fails four times by chance.
            transient: if rng.random_bool(0.5) { 0.01 } else { 0.0 },
            cues,
        }
    }
}

impl When {
    /// Shares of the audience come after everything that belongs to the call.
    fn order(self) -> f64 {
        match self {
            Self::AfterCall(time) => time.as_secs_f64() - 1_000.0,
            Self::Accepted(share) => share,
        }
    }
}

fn draw_cue(rng: &mut StdRng) -> Cue {
    let millis =
        |rng: &mut StdRng, range: std::ops::Range<u64>| Duration::from_millis(rng.random_range(range));
    let act = match rng.random_range(0..10) {
        0..=3 => Act::KillSender { restart_after: millis(rng, 0..1_500) },
        4 => Act::FreezeWithinLease { length: millis(rng, 200..1_900) },
        5 => Act::FreezeBeyondLease { more: millis(rng, 200..1_500) },
        6 => Act::DrainSender,
        7 | 8 => Act::KillIntake,
        _ => Act::Pause { length: millis(rng, 50..800) },
    };
    // Intakes are killed where their work is, mostly.
    let at_the_call = if act == Act::KillIntake { 0.8 } else { 0.15 };
    let when = if rng.random_bool(at_the_call) {
        When::AfterCall(Duration::from_micros(rng.random_range(0..60_000)))
    } else {
        When::Accepted(rng.random_range(0.02..0.95))
    };
    Cue { when, act }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_plan_and_another_one_is_another() {
        assert_eq!(Plan::draw(7), Plan::draw(7));
        assert_ne!(Plan::draw(7), Plan::draw(8));
    }

    #[test]
    fn every_kind_of_act_comes_up() {
        let cues: Vec<_> = (0..200).flat_map(|seed| Plan::draw(seed).cues).collect();
        for kind in ["KillSender", "FreezeWithin", "FreezeBeyond", "Drain", "KillIntake", "Pause"] {
            let at_call = |c: &&Cue| matches!(c.when, When::AfterCall(_));
            let of_kind: Vec<_> = cues.iter().filter(|c| format!("{:?}", c.act).starts_with(kind)).collect();
            assert!(of_kind.iter().any(at_call) && of_kind.iter().any(|c| !at_call(c)), "{kind}");
        }
    }
}
