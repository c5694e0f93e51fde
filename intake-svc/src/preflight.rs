//! What a broadcast would come to, for who asks before sending it.

use std::time::Duration;

use bongsu_proto::v1::{self, DurationBasis, PreflightWarningKind as Kind};
use bongsu_store::{
    Audience, EncodedSize, Forecast, Message, NewBroadcast, ProviderForecast, ProviderKind, Routing,
    encoded_sizes,
};

/// From this share of the limit on, in percent, a notification is close to it.
const CLOSE_PERCENT: usize = 90;
/// Topics named in a warning at most.
const NAMED: usize = 5;

/// What the broadcast would come to, where it expires so long from now.
pub(crate) fn of(new: &NewBroadcast, time_left: time::Duration, forecast: Forecast) -> v1::Preflight {
    let forecast = &if new.routing.pushes() { forecast } else { without_devices(forecast) };
    let live_users = live_users(new);
    let devices = forecast.providers.iter().map(|provider| provider.devices).sum();
    let duration = duration(forecast, devices, new.max_rate_per_second);
    let mut warnings = of_audience(forecast, devices, new.routing);
    if live_users > 0 {
        // They are notified without a device.
        warnings.retain(|warning| warning.kind() != Kind::EmptyAudience);
    }
    if let Some((took, _)) = duration.filter(|(took, _)| *took > time_left) {
        let text = format!(
            "it would take {}, and expires in {}: what is not sent by then ends expired",
            seconds(took),
            seconds(time_left.unsigned_abs())
        );
        warnings.push(warning(Kind::ExpiresBeforeDone, text));
    }
    for provider in forecast.providers.iter().filter(|provider| provider.devices > 0) {
        let unserved = provider.served == Some(false) && forecast.senders != Some(0);
        warnings.extend(of_provider(provider, unserved, size_at(&new.message, provider)));
    }
    v1::Preflight {
        providers: forecast.providers.iter().map(|p| at_provider(p, size_at(&new.message, p))).collect(),
        devices,
        estimated: forecast.estimated,
        duration: duration.and_then(|(took, _)| prost_types::Duration::try_from(took).ok()),
        duration_basis: duration.map_or(DurationBasis::Unspecified, |(_, basis)| basis).into(),
        warnings,
        live_users,
    }
}

/// What counts where no device is called.
fn without_devices(forecast: Forecast) -> Forecast {
    let providers = forecast.providers.into_iter();
    Forecast {
        providers: providers.map(|provider| ProviderForecast { devices: 0, ..provider }).collect(),
        estimated: false,
        without_device: 0,
        ..forecast
    }
}

/// Listed users who would have it in their inbox.
fn live_users(new: &NewBroadcast) -> i64 {
    match &new.audience {
        Audience::Users(users) if new.routing.is_live() => i64::try_from(users.len()).unwrap_or(i64::MAX),
        _ => 0,
    }
}

/// How long it takes at the present rates, and which of them that is; `None` where nothing is known.
fn duration(forecast: &Forecast, devices: i64, max_rate: Option<u32>) -> Option<(Duration, DurationBasis)> {
    let mut longest = max_rate.map(|rate| (devices as f64 / f64::from(rate), DurationBasis::MaxRate));
    for provider in forecast.providers.iter().filter(|provider| provider.devices > 0) {
        let limit = provider.rate_per_second.map(|rate| (f64::from(rate), DurationBasis::ProviderLimit));
        let recent = provider.recent_per_second.map(|rate| (rate, DurationBasis::RecentBroadcasts));
        let Some((rate, basis)) = limit.or(recent).filter(|(rate, _)| *rate > 0.0) else {
            // With a rate of its own it takes that long at least; without one, nothing can be said.
            max_rate?;
            continue;
        };
        let needs = provider.devices as f64 / rate;
        if longest.is_none_or(|(longest, _)| needs > longest) {
            longest = Some((needs, basis));
        }
    }
    let (needs, basis) = longest.filter(|_| devices > 0)?;
    Some((Duration::try_from_secs_f64(needs).ok()?, basis))
}

fn of_audience(forecast: &Forecast, devices: i64, routing: Routing) -> Vec<v1::PreflightWarning> {
    let mut warnings = vec![];
    // Who would have it in their inbox, beside listed users, is not known without reading all.
    if devices == 0 && routing.pushes() {
        let text = "no device of the audience can be called: nobody would be notified";
        warnings.push(warning(Kind::EmptyAudience, text.to_owned()));
    }
    if forecast.senders == Some(0) && routing.pushes() {
        let text = "no sender was heard of for 10 s: everything would wait until one runs";
        warnings.push(warning(Kind::NoSenderAlive, text.to_owned()));
    }
    if !forecast.empty_topics.is_empty() {
        let (named, more) = forecast.empty_topics.split_at(forecast.empty_topics.len().min(NAMED));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let text = format!("no device is subscribed to {}{more}: look at the spelling", named.join(", "));
        warnings.push(warning(Kind::EmptyTopic, text));
    }
    if forecast.without_device > 0 {
        let count = forecast.without_device;
        let about = if forecast.estimated { "about " } else { "" };
        let text = format!("{about}{count} of those listed have no device that can be called");
        warnings.push(v1::PreflightWarning { count, ..warning(Kind::WithoutDevice, text) });
    }
    warnings
}

/// What stands in the way at a provider with devices of the audience.
fn of_provider(
    provider: &ProviderForecast,
    unserved: bool,
    size: Option<EncodedSize>,
) -> impl Iterator<Item = v1::PreflightWarning> {
    let ProviderForecast { name, devices, .. } = provider;
    let mut found = vec![];
    if provider.parked {
        found.push((Kind::ProviderParked, format!("{name} is parked: {devices} devices there would wait")));
    }
    if provider.held {
        let text = format!("{name} asked to be left alone for a while: {devices} devices there would wait");
        found.push((Kind::ProviderHeld, text));
    }
    if unserved && !provider.parked {
        let text =
            format!("no sender that runs is configured for {name}: {devices} devices there would wait");
        found.push((Kind::ProviderUnconfigured, text));
    }
    if let Some(EncodedSize { bytes, limit, .. }) = size
        && bytes * 100 >= limit * CLOSE_PERCENT
    {
        let text = format!("the notification has {bytes} bytes of the {limit} that {name} takes");
        found.push((Kind::CloseToSizeLimit, text));
    }
    found
        .into_iter()
        .map(|(kind, text)| v1::PreflightWarning { provider: provider.name.clone(), ..warning(kind, text) })
}

fn at_provider(provider: &ProviderForecast, size: Option<EncodedSize>) -> v1::PreflightProvider {
    let bytes =
        |of: fn(&EncodedSize) -> usize| size.as_ref().and_then(|s| i32::try_from(of(s)).ok()).unwrap_or(0);
    v1::PreflightProvider {
        name: provider.name.clone(),
        kind: provider.kind.clone(),
        devices: provider.devices,
        encoded_bytes: bytes(|size| size.bytes),
        limit_bytes: bytes(|size| size.limit),
    }
}

/// `None` for a kind that this version does not know.
fn size_at(message: &Message, provider: &ProviderForecast) -> Option<EncodedSize> {
    let kind = ProviderKind::ALL.into_iter().find(|kind| kind.name() == provider.kind)?;
    encoded_sizes(message, &[kind]).into_iter().next()
}

fn warning(kind: Kind, text: String) -> v1::PreflightWarning {
    v1::PreflightWarning { kind: kind.into(), text, ..Default::default() }
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs_f64().round())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, devices: i64, limit: Option<u32>, recent: Option<f64>) -> ProviderForecast {
        ProviderForecast {
            name: name.into(),
            kind: "webhook".into(),
            devices,
            parked: false,
            held: false,
            served: Some(true),
            rate_per_second: limit,
            recent_per_second: recent,
        }
    }

    fn took(providers: Vec<ProviderForecast>, max_rate: Option<u32>) -> Option<(u64, DurationBasis)> {
        let devices = providers.iter().map(|provider| provider.devices).sum();
        let forecast = Forecast {
            providers,
            estimated: false,
            without_device: 0,
            empty_topics: vec![],
            senders: Some(1),
        };
        duration(&forecast, devices, max_rate).map(|(took, basis)| (took.as_secs(), basis))
    }

    #[test]
    fn the_duration_is_that_of_whatever_is_slowest() {
        let (limited, recent) = (at("a", 1_000, Some(100), Some(9.0)), at("b", 3_000, None, Some(1_000.0)));
        let both = || vec![limited.clone(), recent.clone()];
        assert_eq!(
            took(both(), None),
            Some((10, DurationBasis::ProviderLimit)),
            "a limit counts, not what was"
        );
        assert_eq!(took(vec![recent.clone()], None), Some((3, DurationBasis::RecentBroadcasts)));
        assert_eq!(took(both(), Some(40)), Some((100, DurationBasis::MaxRate)));
    }

    #[test]
    fn what_goes_out_live_alone_calls_no_device_and_reaches_all_that_are_listed() {
        let preflight = |routing, users: &[&str]| {
            let forecast = Forecast {
                providers: vec![at("a", 0, None, None)],
                estimated: false,
                without_device: 2,
                empty_topics: vec![],
                senders: Some(0),
            };
            let users = users.iter().map(|user| user.to_string()).collect();
            let new = new_broadcast(Audience::users(users), routing);
            let found = of(&new, time::Duration::HOUR, forecast);
            let kinds: Vec<Kind> = found.warnings.iter().map(|warning| warning.kind()).collect();
            (found.live_users, kinds)
        };
        let all = vec![Kind::EmptyAudience, Kind::NoSenderAlive, Kind::WithoutDevice];
        assert_eq!(preflight(Routing::Push, &["u", "v"]), (0, all));
        assert_eq!(preflight(Routing::Live, &["u", "v"]), (2, vec![]));
        let both = vec![Kind::NoSenderAlive, Kind::WithoutDevice];
        assert_eq!(preflight(Routing::LiveThenPush, &["u", "v"]), (2, both));
    }

    fn new_broadcast(audience: Audience, routing: Routing) -> NewBroadcast {
        NewBroadcast {
            client_id: "test".into(),
            idempotency_key: "k".into(),
            message: Message { title: "t".into(), body: String::new(), data: Default::default() },
            audience,
            priority: bongsu_store::Priority::Normal,
            guarantee: bongsu_store::Guarantee::AtLeastOnce,
            expiry: bongsu_store::Expiry::After(Duration::from_secs(3_600)),
            schedule: None,
            max_rate_per_second: None,
            routing,
            ack_timeout: None,
            request_hash: [0; 32],
            trace_context: None,
        }
    }

    #[test]
    fn nothing_is_said_of_the_duration_where_nothing_is_known() {
        assert_eq!(took(vec![at("a", 10, Some(1), None), at("b", 10, None, None)], None), None);
        assert_eq!(took(vec![at("a", 0, Some(1), None)], Some(5)), None, "there is nobody");
        let elsewhere = vec![at("a", 10, Some(1), None), at("b", 0, None, None)];
        assert_eq!(took(elsewhere, None), Some((10, DurationBasis::ProviderLimit)), "nobody is at b");
        assert_eq!(took(vec![at("b", 10, None, None)], Some(5)), Some((2, DurationBasis::MaxRate)));
    }
}
