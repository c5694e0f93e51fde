//! What happens in a live trial, drawn from its seed: the same seed, the same plan.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::super::plan::Scale;
use crate::live::crowd::{Habits, Leave};

/// Acts and broadcasts begin within this time, in milliseconds.
const BEGIN_WITHIN_MS: u64 = 6_000;
/// A client that leaves does so within this time, in milliseconds: after most have connected.
const LEAVE_WITHIN_MS: std::ops::Range<u64> = 1_000..9_000;

/// One thing that is done to the processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// SIGKILL a sender with connections; another one is started after a while.
    KillSender { restart_after: Duration },
    /// SIGSTOP a sender with connections beyond its lease, then let it go on.
    FreezeSender { beyond_lease: Duration },
    /// SIGTERM a sender with connections, which sends them away, and start another one.
    DrainSender,
    /// SIGKILL the intake, and start another one.
    KillIntake,
    /// Restart Postgres: by its own means, or as after a crash, when it has forgotten who is connected.
    RestartPostgres { crash: bool },
    /// Kill Redis, and start it again, empty.
    KillRedis { down_for: Duration },
    /// SIGSTOP Redis: its connections stay, and nobody answers.
    PauseRedis { length: Duration },
}

impl Act {
    /// Whether calls under way may be made again by another sender.
    pub fn may_duplicate(self) -> bool {
        matches!(self, Self::KillSender { .. } | Self::FreezeSender { .. })
    }
}

/// A trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub seed: u64,
    pub latency: Duration,
    pub transient: f64,
    pub ack_timeout: Duration,
    /// How long a sender that has looked for acknowledgements may take until its call is at the provider.
    pub margin: Duration,
    /// When each is created, in order.
    pub broadcasts: Vec<Duration>,
    /// By client.
    pub habits: Vec<Habits>,
    /// When each is done, in order; one after the other.
    pub acts: Vec<(Duration, Act)>,
}

impl Plan {
    pub fn draw(seed: u64, clients: u32, redis: bool, scale: Scale) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let begin = |rng: &mut StdRng| Duration::from_millis(rng.random_range(0..BEGIN_WITHIN_MS));
        let mut acts: Vec<(Duration, Act)> =
            (0..rng.random_range(1..=3)).map(|_| (begin(&mut rng), draw_act(&mut rng, redis))).collect();
        acts.sort_by_key(|(when, _)| *when);
        let mut broadcasts = vec![Duration::ZERO];
        broadcasts.extend((0..rng.random_range(0..=2)).map(|_| begin(&mut rng)));
        broadcasts.sort_unstable();
        // No call begins after its lease.
        let margin = scale.lease + scale.call_timeout;
        // Longer than the margin, so that a push in spite of an acknowledgement would be seen.
        let ack_timeout = margin + Duration::from_millis(rng.random_range(1_000..3_000));
        let habits = (0..clients).map(|_| draw_habits(&mut rng, ack_timeout)).collect();
        Self {
            seed,
            latency: Duration::from_millis(rng.random_range(2..=40)),
            // So few that no device fails four times by chance.
            transient: if rng.random_bool(0.5) { 0.01 } else { 0.0 },
            ack_timeout,
            margin,
            broadcasts,
            habits,
            acts,
        }
    }

    /// What a person needs to know of it.
    pub fn told(&self) -> String {
        format!(
            "broadcasts at {:?}, {:?} to acknowledge, acts {:?}",
            self.broadcasts, self.ack_timeout, self.acts
        )
    }
}

fn millis(rng: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.random_range(range))
}

fn draw_act(rng: &mut StdRng, redis: bool) -> Act {
    match rng.random_range(0..if redis { 12 } else { 9 }) {
        0..=3 => Act::KillSender { restart_after: millis(rng, 0..2_000) },
        4 => Act::FreezeSender { beyond_lease: millis(rng, 200..1_500) },
        5 => Act::DrainSender,
        6 => Act::KillIntake,
        7 => Act::RestartPostgres { crash: false },
        8 => Act::RestartPostgres { crash: true },
        9 | 10 => Act::KillRedis { down_for: millis(rng, 0..2_000) },
        _ => Act::PauseRedis { length: millis(rng, 500..4_000) },
    }
}

fn draw_habits(rng: &mut StdRng, ack_timeout: Duration) -> Habits {
    let acknowledges_after = match rng.random_range(0..10) {
        0 | 1 => None,
        2 => Some(ack_timeout + millis(rng, 0..2_000)),
        _ => Some(millis(rng, 0..300)),
    };
    let comes_after = if rng.random_bool(0.2) { millis(rng, 0..4_000) } else { Duration::ZERO };
    let count = if rng.random_bool(0.4) { rng.random_range(1..=3) } else { 0 };
    let mut leaves: Vec<Leave> = (0..count)
        .map(|_| Leave {
            at: millis(rng, LEAVE_WITHIN_MS),
            away: millis(rng, 0..2_000),
            resume: rng.random_bool(0.5),
        })
        .collect();
    leaves.sort_by_key(|leave| leave.at);
    Habits { comes_after, acknowledges_after, leaves }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64, redis: bool) -> Plan {
        Plan::draw(seed, 20, redis, Scale::tenth())
    }

    #[test]
    fn the_same_seed_is_the_same_plan_and_another_one_is_another() {
        assert_eq!(draw(7, true), draw(7, true));
        assert_ne!(draw(7, true), draw(8, true));
    }

    #[test]
    fn every_kind_of_act_comes_up_and_those_of_redis_only_where_there_is_one() {
        let acts = |redis| -> Vec<String> {
            (0..200).flat_map(|seed| draw(seed, redis).acts).map(|(_, act)| format!("{act:?}")).collect()
        };
        let (with, without) = (acts(true), acts(false));
        let has = |acts: &[String], kind: &str| acts.iter().any(|act| act.starts_with(kind));
        for kind in ["KillSender", "FreezeSender", "DrainSender", "KillIntake"] {
            assert!(has(&with, kind) && has(&without, kind), "{kind}");
        }
        for crash in ["RestartPostgres { crash: true", "RestartPostgres { crash: false"] {
            assert!(has(&without, crash), "{crash}");
        }
        for kind in ["KillRedis", "PauseRedis"] {
            assert!(has(&with, kind) && !has(&without, kind), "{kind}");
        }
    }

    #[test]
    fn a_push_in_spite_of_an_acknowledgement_could_be_seen_in_every_trial() {
        for plan in (0..200).map(|seed| draw(seed, true)) {
            let prompt = plan.habits.iter().filter_map(|habits| habits.acknowledges_after).min();
            let prompt = prompt.expect("some acknowledge");
            assert!(prompt + plan.margin < plan.ack_timeout, "{}", plan.told());
        }
    }

    #[test]
    fn clients_of_every_kind_come_up() {
        let habits: Vec<Habits> = (0..20).flat_map(|seed| draw(seed, false).habits).collect();
        assert!(habits.iter().any(|habits| habits.acknowledges_after.is_none()));
        assert!(habits.iter().any(|habits| habits.comes_after > Duration::ZERO));
        for resume in [true, false] {
            assert!(habits.iter().flat_map(|habits| &habits.leaves).any(|leave| leave.resume == resume));
        }
    }
}
