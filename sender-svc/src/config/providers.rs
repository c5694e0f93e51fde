//! The providers that a sender calls: from one TOML file, and webhooks from the command line.
//!
//! ```toml
//! [providers.hook]                # the name under which devices are registered
//! kind = "webhook"
//! url = "https://push.example/send"
//! rate_per_second = 1000          # no limit where absent
//! in_flight = 512                 # this, the next two and retry are the command line's where absent
//! call_timeout_ms = 10000
//! never_park = false
//! mass_invalidation = { share = 0.5, answers = 200, window_ms = 60000 }   # or "off"
//! slow_tier = { every_ms = 600000, rounds = 3 }   # or "off"; the command line's where absent, which is off, too
//!
//! [providers.hook.retry]
//! initial_ms = 2000
//! factor = 3.0
//! max_attempts = 4
//! floor_ms = 0                    # no delay is shorter; absent, what the kind asks for
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bongsu_store::ProviderKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Table;

use super::common::{self, Common};
use crate::provider::Adapter;
use crate::provider::apns::{self, Apns};
use crate::provider::fcm::{self, Fcm};
use crate::provider::webhook::{self, Webhook};
use crate::provider::webpush::{self, WebPush};

const MAX_NAME_BYTES: usize = 64;
/// One provider, checked.
#[derive(Debug, Clone)]
pub struct Provider {
    pub name: String,
    pub kind: Kind,
    pub common: Common,
}

/// What only providers of its kind are told.
#[derive(Debug, Clone)]
pub enum Kind {
    Webhook(webhook::Settings),
    Fcm(fcm::Settings),
    Apns(apns::Settings),
    WebPush(webpush::Settings),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    providers: BTreeMap<String, Table>,
}

/// The providers of a file; what a provider does not say is as in `defaults`.
///
/// # Errors
///
/// One for each provider that is wrong, or one for the file.
pub fn read(path: &Path, defaults: &Common) -> Result<Vec<Provider>, Vec<anyhow::Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| vec![error.into()])?;
    parse(&text, defaults)
}

fn parse(text: &str, defaults: &Common) -> Result<Vec<Provider>, Vec<anyhow::Error>> {
    let file: File = toml::from_str(text).map_err(|error| vec![error.into()])?;
    let (mut providers, mut problems) = (vec![], vec![]);
    for (name, table) in file.providers {
        match provider(&name, table, defaults) {
            Ok(provider) => providers.push(provider),
            Err(error) => problems.push(error.context(format!("[providers.{name}]"))),
        }
    }
    if problems.is_empty() { Ok(providers) } else { Err(problems) }
}

fn provider(name: &str, mut table: Table, defaults: &Common) -> anyhow::Result<Provider> {
    check_name(name)?;
    let kind = match table.remove("kind") {
        Some(toml::Value::String(kind)) => kind,
        Some(_) => bail!("kind is no string: give {}", kinds()),
        None => bail!("kind is missing: give {}", kinds()),
    };
    let (shared, own): (Table, Table) =
        table.into_iter().partition(|(setting, _)| common::NAMES.contains(&setting.as_str()));
    let mut shared: common::Table = read_table(shared)?;
    // Many push services under one name: the trouble of one is none of the others' business.
    if kind == ProviderKind::WebPush.name() {
        shared.never_park.get_or_insert(true);
    }
    let common = common::of(shared, defaults, retry_floor(&kind))?;
    let kind = match kind.as_str() {
        "webhook" => Kind::Webhook(read_table(own)?),
        "fcm" => Kind::Fcm(read_table(own)?),
        "apns" => Kind::Apns(read_table(own)?),
        "webpush" => Kind::WebPush(read_table(own)?),
        other => bail!("kind is {other:?}: give {}", kinds()),
    };
    Ok(Provider { name: name.to_owned(), kind, common })
}

/// A table as the settings it holds. The error names the setting, and no value that could be a secret.
pub(super) fn read_table<T: DeserializeOwned>(table: Table) -> anyhow::Result<T> {
    T::deserialize(toml::Value::Table(table)).map_err(|error| anyhow::anyhow!("{}", error.message()))
}

fn kinds() -> String {
    ProviderKind::ALL.map(|kind| format!("{:?}", kind.name())).join(", ")
}

/// What providers of a kind ask everybody to wait before a second attempt, at least.
fn retry_floor(kind: &str) -> Duration {
    match kind {
        "fcm" => fcm::RETRY_FLOOR,
        _ => Duration::ZERO,
    }
}

pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    ensure!(
        (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(fine),
        "the name {name:?} must be 1 to {MAX_NAME_BYTES} of A-Z a-z 0-9 - _ ."
    );
    Ok(())
}

impl Kind {
    /// As the database calls it.
    pub fn stored(&self) -> ProviderKind {
        match self {
            Self::Webhook(_) => ProviderKind::Webhook,
            Self::Fcm(_) => ProviderKind::Fcm,
            Self::Apns(_) => ProviderKind::Apns,
            Self::WebPush(_) => ProviderKind::WebPush,
        }
    }
}

impl Provider {
    /// Ready to be called.
    ///
    /// # Errors
    ///
    /// When its credentials cannot be read, or are not what they should be.
    pub fn adapter(&self) -> anyhow::Result<Adapter> {
        let Common { in_flight, call_timeout, .. } = self.common;
        let in_flight = in_flight as usize;
        let adapter = || {
            Ok(match self.kind.clone() {
                Kind::Webhook(own) => Adapter::Webhook(Arc::new(Webhook::new(own, in_flight, call_timeout)?)),
                Kind::Fcm(own) => Adapter::Fcm(Arc::new(Fcm::new(own, in_flight, call_timeout)?)),
                Kind::Apns(own) => Adapter::Apns(Arc::new(Apns::new(own, in_flight, call_timeout)?)),
                Kind::WebPush(own) => Adapter::WebPush(Arc::new(WebPush::new(own, in_flight, call_timeout)?)),
            })
        };
        let adapter: anyhow::Result<Adapter> = adapter();
        adapter.with_context(|| format!("provider {:?}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::doubt::MassInvalidation;
    use crate::engine::judge::RetrySchedule;
    use crate::engine::slow_tier::SlowTier;

    fn defaults() -> Common {
        let schedule = RetrySchedule {
            initial: Duration::from_secs(2),
            factor: 3.0,
            floor: Duration::ZERO,
            max_attempts: 4,
        };
        let mass_invalidation = Some(MassInvalidation::default());
        let call_timeout = Duration::from_secs(10);
        Common {
            rate_per_second: None,
            in_flight: 512,
            call_timeout,
            never_park: false,
            mass_invalidation,
            schedule,
            slow_tier: None,
        }
    }

    fn problems(text: &str) -> String {
        let problems = parse(text, &defaults()).expect_err("wrong");
        problems.iter().map(|problem| format!("{problem:#}")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_a_provider_does_not_say_is_as_on_the_command_line() {
        let text = r#"
            [providers.one]
            kind = "webhook"
            url = "https://push.example/send"
            [providers.two]
            kind = "webhook"
            url = "h2c://127.0.0.1:8090/push"
            rate_per_second = 500
            in_flight = 7
            call_timeout_ms = 1500
            never_park = true
            mass_invalidation = { share = 0.8, window_ms = 500 }
            retry = { initial_ms = 100, factor = 2.0, max_attempts = 9, floor_ms = 50 }
            slow_tier = { every_ms = 60000 }
        "#;
        let providers = parse(text, &defaults()).expect("fine");
        assert_eq!((&*providers[0].name, &*providers[1].name), ("one", "two"));
        assert_eq!(providers[0].common, defaults());
        let schedule = RetrySchedule {
            initial: Duration::from_millis(100),
            factor: 2.0,
            floor: Duration::from_millis(50),
            max_attempts: 9,
        };
        let call_timeout = Duration::from_millis(1_500);
        let mass_invalidation =
            Some(MassInvalidation { share: 0.8, answers: 200, window: Duration::from_millis(500) });
        let rate_per_second = Some(500);
        let common = Common {
            rate_per_second,
            in_flight: 7,
            call_timeout,
            never_park: true,
            mass_invalidation,
            schedule,
            slow_tier: Some(SlowTier { every: Duration::from_secs(60), rounds: 3 }),
        };
        assert_eq!(providers[1].common, common);
    }

    #[test]
    fn a_kind_has_a_floor_of_its_own_unless_its_provider_says_otherwise() {
        let text = r#"
            [providers.a]
            kind = "fcm"
            credentials = { file = "/run/secrets/firebase.json" }
            [providers.b]
            kind = "fcm"
            credentials = { env = "FIREBASE" }
            retry = { floor_ms = 50 }
        "#;
        let floors = parse(text, &defaults()).expect("fine").into_iter().map(|p| p.common.schedule.floor);
        assert_eq!(floors.collect::<Vec<_>>(), [fcm::RETRY_FLOOR, Duration::from_millis(50)]);
    }

    #[test]
    fn web_push_is_not_parked_unless_it_is_told_to_be() {
        let table = |more: &str| {
            let text = format!(
                "[providers.web]\nkind = \"webpush\"\nsubject = \"mailto:a@example.com\"\n\
                 credentials = {{ env = \"KEY\" }}\n{more}"
            );
            parse(&text, &defaults()).expect("fine")[0].common.never_park
        };
        assert_eq!((table(""), table("never_park = false")), (true, false));
    }

    #[test]
    fn every_provider_that_is_wrong_is_told_with_the_setting() {
        let told = problems(
            r#"
            [providers.a]
            kind = "webhook"
            [providers.b]
            kind = "pigeon"
            [providers.c]
            kind = "webhook"
            url = "https://push.example"
            colour = "red"
            [providers.d]
            kind = "webhook"
            url = "https://push.example"
            in_flight = 0
            retry = { factor = 0.5 }
            [providers.e]
            url = "https://push.example"
            [providers."f g"]
            kind = "webhook"
            url = "https://push.example"
            [providers.h]
            kind = "webhook"
            url = "https://push.example"
            retry = { often = true }
            [providers.i]
            kind = "webhook"
            url = "https://push.example"
            rate_per_second = 0
        "#,
        );
        let told: Vec<_> = told.lines().collect();
        for (line, parts) in told.iter().zip([
            ["[providers.a]", "`url`"],
            ["[providers.b]", "pigeon"],
            ["[providers.c]", "colour"],
            ["[providers.d]", "in_flight is 0"],
            ["[providers.e]", "kind is missing"],
            ["[providers.f g]", "the name"],
            ["[providers.h]", "often"],
            ["[providers.i]", "rate_per_second is 0"],
        ]) {
            assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {line}");
        }
        assert_eq!(told.len(), 8, "{told:#?}");
        assert!(problems("[provider.a]").contains("provider"));
        assert!(problems("[providers.a").contains("TOML"), "{}", problems("[providers.a"));
    }
}
