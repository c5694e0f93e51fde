//! `mass_invalidation`: when a provider is not believed that tokens are gone.

use std::time::Duration;

use anyhow::{bail, ensure};
use serde::Deserialize;

use super::providers::read_table;
use crate::engine::doubt::MassInvalidation;

/// Answers that may be asked for before a provider is doubted, and the time for which they count.
const INVALIDATION_ANSWERS: (u32, u32) = (10, 1_000_000);
const INVALIDATION_WINDOW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(600));

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MassInvalidationTable {
    share: Option<f64>,
    answers: Option<u32>,
    window_ms: Option<u64>,
}

/// `"off"`, or a table of limits.
pub(super) fn limits(setting: toml::Value) -> anyhow::Result<Option<MassInvalidation>> {
    let table: MassInvalidationTable = match setting {
        toml::Value::String(word) if word == "off" => return Ok(None),
        toml::Value::Table(table) => read_table(table)?,
        _ => bail!("give \"off\", or a table such as {{ share = 0.5, answers = 200 }}"),
    };
    let default = MassInvalidation::default();
    let limits = MassInvalidation {
        share: table.share.unwrap_or(default.share),
        answers: table.answers.unwrap_or(default.answers),
        window: table.window_ms.map_or(default.window, Duration::from_millis),
    };
    ensure!((0.01..=1.0).contains(&limits.share), "share is {}: give it 0.01 to 1", limits.share);
    let (least, most) = INVALIDATION_ANSWERS;
    ensure!(
        (least..=most).contains(&limits.answers),
        "answers is {}: give it {least} to {most}",
        limits.answers
    );
    let (least, most) = INVALIDATION_WINDOW;
    ensure!(
        (least..=most).contains(&limits.window),
        "window_ms is {}: give it {} to {}",
        limits.window.as_millis(),
        least.as_millis(),
        most.as_millis()
    );
    Ok(Some(limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(setting: &str) -> anyhow::Result<Option<MassInvalidation>> {
        let table: toml::Table = toml::from_str(&format!("setting = {setting}")).expect("TOML");
        limits(table["setting"].clone())
    }

    #[test]
    fn it_is_switched_off_by_a_word_and_its_limits_have_a_range() {
        assert_eq!(of("\"off\"").expect("fine"), None);
        assert_eq!(of("{}").expect("fine"), Some(MassInvalidation::default()));
        for (wrong, told) in [
            ("{ share = 0.0 }", "share is 0"),
            ("{ answers = 1 }", "answers is 1"),
            ("{ window_ms = 5 }", "window_ms is 5"),
            ("{ shares = 0.5 }", "shares"),
            ("false", "\"off\""),
        ] {
            let problem = format!("{:#}", of(wrong).expect_err(wrong));
            assert!(problem.contains(told), "{problem}");
        }
    }
}
