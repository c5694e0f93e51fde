//! What a broadcast would come to.

use std::time::Duration;

use bongsu_proto::v1;
use serde::Serialize;

use super::none_if_empty;
use crate::table::{Align, Table, details, number, printable};
use crate::times::span;
use crate::words::word;

#[derive(Debug, Serialize)]
pub struct PreflightView<'a> {
    devices: i64,
    live_users: Option<i64>,
    estimated: bool,
    duration: Option<String>,
    duration_basis: Option<String>,
    providers: Vec<PreflightProviderView<'a>>,
    warnings: Vec<WarningView<'a>>,
}

#[derive(Debug, Serialize)]
struct PreflightProviderView<'a> {
    name: &'a str,
    kind: &'a str,
    devices: i64,
    encoded_bytes: i32,
    limit_bytes: i32,
}

#[derive(Debug, Serialize)]
struct WarningView<'a> {
    kind: String,
    text: &'a str,
    provider: Option<&'a str>,
    count: Option<i64>,
}

impl<'a> From<&'a v1::Preflight> for PreflightView<'a> {
    fn from(preflight: &'a v1::Preflight) -> Self {
        let basis = word::<v1::DurationBasis>(preflight.duration_basis);
        let providers = preflight.providers.iter().map(|provider| PreflightProviderView {
            name: &provider.name,
            kind: &provider.kind,
            devices: provider.devices,
            encoded_bytes: provider.encoded_bytes,
            limit_bytes: provider.limit_bytes,
        });
        let warnings = preflight.warnings.iter().map(|warning| WarningView {
            kind: word::<v1::PreflightWarningKind>(warning.kind),
            text: &warning.text,
            provider: none_if_empty(&warning.provider),
            count: Some(warning.count).filter(|count| *count > 0),
        });
        Self {
            devices: preflight.devices,
            live_users: Some(preflight.live_users).filter(|users| *users > 0),
            estimated: preflight.estimated,
            duration: duration(preflight).map(|duration| format!("{}s", duration.as_secs_f64())),
            duration_basis: Some(basis).filter(|basis| !basis.is_empty()),
            providers: providers.collect(),
            warnings: warnings.collect(),
        }
    }
}

fn duration(preflight: &v1::Preflight) -> Option<Duration> {
    preflight.duration.and_then(|duration| duration.try_into().ok())
}

/// Whom it would reach, how long that takes and what stands in the way, for people: one screen.
pub fn preflight_text(preflight: &v1::Preflight) -> String {
    let about = if preflight.estimated { "about " } else { "" };
    let basis = match preflight.duration_basis() {
        v1::DurationBasis::ProviderLimit => "by the rate limit of a provider",
        v1::DurationBasis::MaxRate => "by its own rate",
        v1::DurationBasis::RecentBroadcasts => "as fast as the fastest of the last broadcasts",
        v1::DurationBasis::Unspecified => "",
    };
    let takes = duration(preflight).map_or_else(
        || "unknown: no provider has a rate limit, and none was called much lately".to_owned(),
        |duration| format!("{} {basis}", span(duration.as_secs())),
    );
    let takes = if preflight.devices == 0 { String::new() } else { takes };
    let mut rows = vec![("devices", format!("{about}{}", number(preflight.devices))), ("takes", takes)];
    if preflight.live_users > 0 {
        rows.push(("inboxes", number(preflight.live_users)));
    }
    let mut text = details(&rows);
    if !preflight.providers.is_empty() {
        let columns = [
            ("PROVIDER", Align::Left),
            ("KIND", Align::Left),
            ("DEVICES", Align::Right),
            ("BYTES", Align::Right),
            ("OF", Align::Right),
        ];
        let rows = preflight.providers.iter().map(|provider| {
            vec![
                provider.name.clone(),
                provider.kind.clone(),
                format!("{about}{}", number(provider.devices)),
                number(provider.encoded_bytes.into()),
                number(provider.limit_bytes.into()),
            ]
        });
        text.push('\n');
        text.push_str(&Table::new(&columns).page(rows.collect()));
    }
    if !preflight.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &preflight.warnings {
        text.push_str(&format!("warning: {}\n", printable(&warning.text)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preflight() -> v1::Preflight {
        let provider = |name: &str, devices| v1::PreflightProvider {
            name: name.into(),
            kind: "webhook".into(),
            devices,
            encoded_bytes: 97,
            limit_bytes: 65_536,
        };
        v1::Preflight {
            providers: vec![provider("mail", 0), provider("push", 12_000)],
            devices: 12_000,
            estimated: false,
            duration: Some(prost_types::Duration { seconds: 1_200, nanos: 0 }),
            duration_basis: v1::DurationBasis::MaxRate.into(),
            warnings: vec![v1::PreflightWarning {
                kind: v1::PreflightWarningKind::ProviderParked.into(),
                text: "push is parked: 12000 devices there would wait".into(),
                provider: "push".into(),
                count: 0,
            }],
            live_users: 0,
        }
    }

    #[test]
    fn one_screen_says_whom_it_reaches_how_long_it_takes_and_what_stands_in_the_way() {
        assert_eq!(
            preflight_text(&preflight()),
            "devices  12,000\n\
             takes    20m by its own rate\n\
             \n\
             PROVIDER  KIND     DEVICES  BYTES      OF\n\
             mail      webhook        0     97  65,536\n\
             push      webhook   12,000     97  65,536\n\
             \n\
             warning: push is parked: 12000 devices there would wait\n"
        );
    }

    #[test]
    fn json_says_the_same_in_the_words_of_the_api() {
        let preflight = preflight();
        let json = serde_json::to_value(PreflightView::from(&preflight)).expect("serialises");
        assert_eq!(json["duration"], "1200s");
        assert_eq!(json["duration_basis"], "max_rate");
        assert_eq!(json["providers"][1]["devices"], 12_000);
        assert_eq!(json["warnings"][0]["kind"], "provider_parked");
        assert_eq!(json["warnings"][0]["count"], serde_json::Value::Null);
    }

    #[test]
    fn an_estimate_and_an_unknown_duration_are_called_so() {
        let preflight = v1::Preflight { estimated: true, duration: None, ..preflight() };
        let text = preflight_text(&preflight);
        assert!(text.starts_with("devices  about 12,000\ntakes    unknown"), "{text}");
    }
}
