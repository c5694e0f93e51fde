//! `slow_tier`: whether what used up its attempts is replayed by itself, when, and how often.

use std::time::Duration;

use anyhow::{bail, ensure};
use serde::Deserialize;

use super::providers::read_table;
use crate::engine::slow_tier::SlowTier;

/// Where it is switched on and not told otherwise.
pub const DEFAULT_EVERY: Duration = Duration::from_secs(600);
const DEFAULT_ROUNDS: u32 = 3;
/// The time between two rounds, and how many there may be.
const EVERY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(86_400));
const ROUNDS: (u32, u32) = (1, 20);

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    every_ms: Option<u64>,
    rounds: Option<u32>,
}

/// `"off"`, or a table of times.
pub(super) fn of(setting: toml::Value) -> anyhow::Result<Option<SlowTier>> {
    let table: Table = match setting {
        toml::Value::String(word) if word == "off" => return Ok(None),
        toml::Value::Table(table) => read_table(table)?,
        _ => bail!("give \"off\", or a table such as {{ every_ms = 600000, rounds = 3 }}"),
    };
    let tier = SlowTier {
        every: table.every_ms.map_or(DEFAULT_EVERY, Duration::from_millis),
        rounds: table.rounds.unwrap_or(DEFAULT_ROUNDS),
    };
    let problems = problems(tier, ["every_ms", "rounds"]);
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    Ok(Some(tier))
}

/// What is out of its range, under the names that the settings have where they were given.
pub(super) fn problems(tier: SlowTier, [every, rounds]: [&str; 2]) -> Vec<String> {
    let mut problems = vec![];
    if !(EVERY.0..=EVERY.1).contains(&tier.every) {
        let (given, least, most) = (tier.every.as_millis(), EVERY.0.as_millis(), EVERY.1.as_millis());
        problems.push(format!("{every} is {given}: give it {least} to {most}"));
    }
    if !(ROUNDS.0..=ROUNDS.1).contains(&tier.rounds) {
        problems.push(format!("{rounds} is {}: give it {} to {}", tier.rounds, ROUNDS.0, ROUNDS.1));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(setting: &str) -> anyhow::Result<Option<SlowTier>> {
        let table: toml::Table = toml::from_str(&format!("setting = {setting}")).expect("TOML");
        of(table["setting"].clone())
    }

    #[test]
    fn it_is_switched_off_by_a_word_and_its_numbers_have_a_range() {
        assert_eq!(told("\"off\"").expect("fine"), None);
        let default = SlowTier { every: DEFAULT_EVERY, rounds: DEFAULT_ROUNDS };
        assert_eq!(told("{}").expect("fine"), Some(default));
        let fast = SlowTier { every: Duration::from_secs(60), rounds: 1 };
        assert_eq!(told("{ every_ms = 60000, rounds = 1 }").expect("fine"), Some(fast));
        for (wrong, part) in [
            ("{ every_ms = 5 }", "every_ms is 5"),
            ("{ rounds = 0 }", "rounds is 0"),
            ("{ every = \"10m\" }", "every"),
            ("true", "\"off\""),
        ] {
            let problem = format!("{:#}", told(wrong).expect_err(wrong));
            assert!(problem.contains(part), "{problem}");
        }
    }
}
