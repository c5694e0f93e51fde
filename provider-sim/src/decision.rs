//! What becomes of a push: pure functions of the behaviour and of what is known about the call.

use std::time::Duration;

use crate::Behaviour;

/// What the decision may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub token: &'a str,
    /// [`key_hash`] of the delivery's key.
    pub key_hash: u64,
    /// The how-manieth call of this key it is, from 1.
    pub nth: u32,
    /// How often this key was accepted before.
    pub accepted: u32,
    /// How often this key was answered 429 before.
    pub throttled: u16,
    pub since_start: Duration,
}

/// One counter of [`crate::Stats`] each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Delivered, for the first time.
    Accepted,
    /// Delivered again: what a sender must not cause.
    Duplicate,
    /// Answered as accepted, not delivered again.
    Suppressed,
    Transient,
    Unregistered,
    Failing,
    Rejected,
    /// The token is not for who sends: another app's, another environment's.
    Mismatched,
    Throttled,
    Outage,
    /// Answered with the configured status, which is no 2xx.
    Overridden,
    /// Read, and never to be answered.
    Hung,
}

/// The order of the rules: what concerns the whole provider, then what it remembers of the key, then the token, then luck.
pub(crate) fn decide(behaviour: &Behaviour, call: &Call<'_>) -> Verdict {
    let accept = || match call.accepted {
        0 => Verdict::Accepted,
        _ if behaviour.dedupe => Verdict::Suppressed,
        _ => Verdict::Duplicate,
    };
    if behaviour.hang {
        return Verdict::Hung;
    }
    match behaviour.status {
        Some(200..=299) => return accept(),
        Some(_) => return Verdict::Overridden,
        None => {}
    }
    if in_outage(behaviour, call.since_start) {
        return Verdict::Outage;
    }
    // A provider that honours the key answers from memory; nothing is tried again that could fail.
    if behaviour.dedupe && call.accepted > 0 {
        return Verdict::Suppressed;
    }
    if call.token.starts_with("expired-") {
        return Verdict::Unregistered;
    }
    if call.token.starts_with("failing-") {
        return Verdict::Failing;
    }
    if call.token.starts_with("rejected-") {
        return Verdict::Rejected;
    }
    if call.token.starts_with("mismatched-") {
        return Verdict::Mismatched;
    }
    if call.token.starts_with("throttled-") && call.throttled < behaviour.throttle_times {
        return Verdict::Throttled;
    }
    if behaviour.transient > 0.0 && draw(behaviour, call, Purpose::Transient) < behaviour.transient {
        return Verdict::Transient;
    }
    accept()
}

/// How long to wait before answering; `None` where no timer is needed.
pub(crate) fn latency(behaviour: &Behaviour, call: &Call<'_>) -> Option<Duration> {
    if behaviour.latency_ms == 0 {
        return None;
    }
    let mean = behaviour.latency_ms as f64;
    let spread = behaviour.jitter_ms as f64 * (2.0 * draw(behaviour, call, Purpose::Latency) - 1.0);
    Some(Duration::from_secs_f64((mean + spread).max(0.0) / 1000.0))
}

/// FNV-1a. Not the standard library's hasher: decisions must be the same in every process and with every compiler.
pub(crate) fn key_hash(key: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    key.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

fn in_outage(behaviour: &Behaviour, since_start: Duration) -> bool {
    let into_window = since_start.as_secs_f64() - behaviour.outage_start_s;
    behaviour.outage || (into_window >= 0.0 && into_window < behaviour.outage_duration_s)
}

/// Keeps the draws of one call apart, so that slow calls are not the ones that fail.
#[derive(Clone, Copy)]
enum Purpose {
    Transient = 1,
    Latency = 2,
}

/// Uniform in [0, 1), from seed, key and number of the call alone: the order in which calls of different keys arrive,
/// which nothing controls, changes no decision.
fn draw(behaviour: &Behaviour, call: &Call<'_>, purpose: Purpose) -> f64 {
    let call_of_key = (u64::from(call.nth) << 8) | purpose as u64;
    let bits = mix(mix(mix(behaviour.seed) ^ call.key_hash) ^ call_of_key);
    // The upper 53 bits are what a double holds exactly.
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The step and the finalizer of SplitMix64: every bit of the input moves half of the output's.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(token: &str, nth: u32) -> Call<'_> {
        let key_hash = key_hash(token);
        Call { token, key_hash, nth, accepted: 0, throttled: 0, since_start: Duration::from_secs(1) }
    }

    #[test]
    fn the_token_decides_when_the_provider_is_well() {
        let well = Behaviour::default();
        for (token, verdict) in [
            ("abc", Verdict::Accepted),
            ("expired-1", Verdict::Unregistered),
            ("failing-1", Verdict::Failing),
            ("rejected-1", Verdict::Rejected),
            ("mismatched-1", Verdict::Mismatched),
            ("throttled-1", Verdict::Throttled),
        ] {
            assert_eq!(decide(&well, &call(token, 1)), verdict, "{token}");
        }
        assert_eq!(decide(&well, &Call { throttled: 1, ..call("throttled-1", 2) }), Verdict::Accepted);
    }

    #[test]
    fn what_concerns_the_whole_provider_wins_over_the_token() {
        let outage = Behaviour { outage: true, ..Behaviour::default() };
        assert_eq!(decide(&outage, &call("expired-1", 1)), Verdict::Outage);
        let unauthorized = Behaviour { status: Some(401), ..outage };
        assert_eq!(decide(&unauthorized, &call("expired-1", 1)), Verdict::Overridden);
        let hang = Behaviour { hang: true, ..unauthorized };
        assert_eq!(decide(&hang, &call("expired-1", 1)), Verdict::Hung);
    }

    #[test]
    fn a_status_override_of_2xx_is_an_acceptance() {
        let created = Behaviour { status: Some(201), ..Behaviour::default() };
        assert_eq!(decide(&created, &call("abc", 1)), Verdict::Accepted);
        assert_eq!(decide(&created, &Call { accepted: 1, ..call("abc", 2) }), Verdict::Duplicate);
    }

    #[test]
    fn an_outage_by_the_clock_begins_and_ends() {
        let window = Behaviour { outage_start_s: 2.0, outage_duration_s: 3.0, ..Behaviour::default() };
        let at =
            |s: f64| decide(&window, &Call { since_start: Duration::from_secs_f64(s), ..call("abc", 1) });
        assert_eq!([1.9, 2.0, 4.9, 5.0].map(at), {
            use Verdict::{Accepted, Outage};
            [Accepted, Outage, Outage, Accepted]
        });
    }

    #[test]
    fn the_transient_share_is_met_and_a_call_fails_independently_of_the_one_before() {
        let behaviour = Behaviour { transient: 0.2, seed: 7, ..Behaviour::default() };
        let tokens: Vec<String> = (0..20_000).map(|n| format!("token-{n}")).collect();
        let fails = |token: &str, nth| decide(&behaviour, &call(token, nth)) == Verdict::Transient;
        let share = |n: usize, of: usize| n as f64 / of as f64;

        let failed: Vec<&String> = tokens.iter().filter(|token| fails(token, 1)).collect();
        let failed_twice = failed.iter().filter(|token| fails(token, 2)).count();
        assert!((share(failed.len(), tokens.len()) - 0.2).abs() < 0.015, "{}", failed.len());
        assert!((share(failed_twice, failed.len()) - 0.2).abs() < 0.03, "{failed_twice} of {}", failed.len());
    }

    #[test]
    fn a_share_of_one_fails_always_and_of_zero_never() {
        let tokens: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        for (transient, verdict) in [(1.0, Verdict::Transient), (0.0, Verdict::Accepted)] {
            let behaviour = Behaviour { transient, ..Behaviour::default() };
            assert!(tokens.iter().all(|token| decide(&behaviour, &call(token, 1)) == verdict));
        }
    }

    #[test]
    fn latency_stays_within_the_jitter_and_uses_its_width() {
        let behaviour = Behaviour { latency_ms: 30, jitter_ms: 10, ..Behaviour::default() };
        let drawn: Vec<f64> = (1..=2_000)
            .map(|nth| latency(&behaviour, &call("abc", nth)).expect("a delay").as_secs_f64() * 1000.0)
            .collect();
        let (low, high) = drawn.iter().fold((f64::MAX, f64::MIN), |(l, h), &ms| (l.min(ms), h.max(ms)));
        assert!((20.0..20.5).contains(&low) && (39.5..=40.0).contains(&high), "{low} to {high}");
        assert_eq!(latency(&Behaviour::default(), &call("abc", 1)), None);
    }
}
