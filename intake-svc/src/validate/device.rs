//! What a registration may be.

use bongsu_ops::api::{Violations, from_timestamp};
use bongsu_proto::v1::{
    DeviceRegistration, DeviceState, ListDevicesRequest, ProviderToken, RestoreFilter as SentFilter,
};
use bongsu_store::{
    DeviceFilter, DeviceId, DeviceStates, ProviderKind, Registration, Restorable, RestoreFilter, Subscription,
};

use super::text;
use crate::providers::KnownProvider;

const MAX_USER_ID_BYTES: usize = 256;
const MAX_PROVIDER_BYTES: usize = 64;
const MAX_TOKEN_BYTES: usize = 2_048;
const MAX_INSTALLATION_BYTES: usize = 256;
const MAX_TOPICS: usize = 20;
/// Of a provider, as they are kept.
const MAX_CODE_BYTES: usize = 64;
/// Devices that one call may subscribe to a topic, or restore.
const MAX_DEVICE_IDS: usize = 10_000;

/// A registration to store. None where something is wrong with it, or where its provider, which the caller looked up,
/// is not known.
pub(crate) fn registration(
    sent: DeviceRegistration,
    provider: Option<KnownProvider>,
    v: &mut Violations,
) -> Option<Registration> {
    user_id(&sent.user_id, v);
    text::name("provider", &sent.provider, 1..=MAX_PROVIDER_BYTES, v);
    text::name("token", &sent.token, 1..=MAX_TOKEN_BYTES, v);
    text::name("installation_id", &sent.installation_id, 0..=MAX_INSTALLATION_BYTES, v);
    if sent.topics.len() > MAX_TOPICS {
        v.add("topics", format!("has {} entries; at most {MAX_TOPICS} are allowed", sent.topics.len()));
    }
    for (index, topic) in sent.topics.iter().enumerate().take(MAX_TOPICS) {
        text::topic(format_args!("topics[{index}]"), topic, v);
    }
    let token = match provider {
        Some(KnownProvider { kind: ProviderKind::WebPush, .. }) => match Subscription::parse(&sent.token) {
            Ok(subscription) => subscription.canonical(),
            Err(bad) => {
                v.add("token", bad.to_string());
                String::new()
            }
        },
        _ => sent.token,
    };
    if !v.is_empty() {
        return None;
    }
    Some(Registration {
        provider_id: provider?.id,
        token,
        user_id: sent.user_id,
        installation_id: Some(sent.installation_id).filter(|id| !id.is_empty()),
        consent: sent.consent,
        topics: sent.topics,
    })
}

/// The id of a user.
pub(crate) fn user_id(user_id: &str, v: &mut Violations) {
    text::name("user_id", user_id, 1..=MAX_USER_ID_BYTES, v);
}

/// A token by which a device is named.
pub(crate) fn provider_token(sent: &ProviderToken, v: &mut Violations) {
    text::name("token.provider", &sent.provider, 1..=MAX_PROVIDER_BYTES, v);
    text::name("token.token", &sent.token, 1..=MAX_TOKEN_BYTES, v);
}

/// The token as it is stored. One that could not be registered is as it was sent: nobody has it.
pub(crate) fn stored_token(kind: ProviderKind, token: String) -> String {
    match kind {
        ProviderKind::WebPush => Subscription::parse(&token).map_or(token, |s| s.canonical()),
        ProviderKind::Webhook | ProviderKind::Fcm | ProviderKind::Apns => token,
    }
}

/// Devices by id, in order and each once.
pub(crate) fn device_ids(sent: Vec<i64>, v: &mut Violations) -> Vec<DeviceId> {
    if !(1..=MAX_DEVICE_IDS).contains(&sent.len()) {
        v.add("device_ids", format!("has {} entries; give 1 to {MAX_DEVICE_IDS}", sent.len()));
    }
    let mut ids: Vec<DeviceId> = sent.into_iter().map(DeviceId).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Which devices to list; the page is for the caller to set.
pub(crate) fn list_filter(request: &ListDevicesRequest, v: &mut Violations) -> DeviceFilter {
    text::name("user_id", &request.user_id, 0..=MAX_USER_ID_BYTES, v);
    text::name("provider", &request.provider, 0..=MAX_PROVIDER_BYTES, v);
    if !request.topic.is_empty() {
        text::topic("topic", &request.topic, v);
    }
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    DeviceFilter {
        user_id: given(&request.user_id),
        provider: given(&request.provider),
        topic: given(&request.topic),
        states: states(request, v),
        after: None,
        limit: 0,
    }
}

fn states(request: &ListDevicesRequest, v: &mut Violations) -> DeviceStates {
    match (DeviceState::try_from(request.state), request.include_retired) {
        (Ok(DeviceState::Unspecified), false) => DeviceStates::Registered,
        (Ok(DeviceState::Unspecified), true) => DeviceStates::All,
        (Ok(_), true) => {
            v.add("state", "is given together with include_retired; give one of them");
            DeviceStates::All
        }
        (Ok(DeviceState::Live), false) => DeviceStates::Live,
        (Ok(DeviceState::Quarantined), false) => DeviceStates::Quarantined,
        (Ok(DeviceState::Retired), false) => DeviceStates::Retired,
        (Err(_), _) => {
            v.add("state", format!("is {}, which is no state of a device", request.state));
            DeviceStates::All
        }
    }
}

/// Which devices to restore; the provider is for the caller to look up.
pub(crate) fn restore_filter(sent: &SentFilter, v: &mut Violations) -> RestoreFilter {
    text::name("filter.provider", &sent.provider, 1..=MAX_PROVIDER_BYTES, v);
    text::name("filter.code", &sent.code, 0..=MAX_CODE_BYTES, v);
    let what = match DeviceState::try_from(sent.state) {
        Ok(DeviceState::Quarantined) => Restorable::Quarantined,
        Ok(DeviceState::Retired) => Restorable::Unregistered,
        _ => {
            v.add("filter.state", "must be DEVICE_STATE_QUARANTINED or DEVICE_STATE_RETIRED");
            Restorable::Quarantined
        }
    };
    let mut moment = |field: &str, sent: Option<&prost_types::Timestamp>| {
        let moment = from_timestamp(sent?);
        if moment.is_none() {
            v.add(field, "is no moment of the years 1 to 9999");
        }
        moment
    };
    RestoreFilter {
        what,
        provider: None,
        code: Some(sent.code.clone()).filter(|code| !code.is_empty()),
        from: moment("filter.from_time", sent.from_time.as_ref()),
        to: moment("filter.to_time", sent.to_time.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use bongsu_store::ProviderId;

    use super::*;

    const WEBHOOK: KnownProvider = KnownProvider { id: ProviderId(1), kind: ProviderKind::Webhook };

    fn valid() -> DeviceRegistration {
        DeviceRegistration {
            user_id: "사용자-1".into(),
            provider: "hook".into(),
            token: "t".into(),
            ..Default::default()
        }
    }

    fn fields(change: impl FnOnce(&mut DeviceRegistration)) -> Vec<String> {
        let mut sent = valid();
        change(&mut sent);
        let mut violations = Violations::default();
        registration(sent, Some(WEBHOOK), &mut violations);
        violations.kept().iter().map(|v| v.field.clone()).collect()
    }

    #[test]
    fn limits_are_allowed_and_one_above_is_not() {
        let none: [&str; 0] = [];
        assert_eq!(fields(|r| r.user_id = "u".repeat(256)), none);
        assert_eq!(fields(|r| r.user_id = "u".repeat(257)), ["user_id"]);
        assert_eq!(fields(|r| r.token = "t".repeat(2_048)), none);
        assert_eq!(fields(|r| r.token = "t".repeat(2_049)), ["token"]);
        assert_eq!(fields(|r| r.installation_id = "i".repeat(256)), none);
        assert_eq!(fields(|r| r.installation_id = "i".repeat(257)), ["installation_id"]);
        assert_eq!(fields(|r| r.topics = vec!["t".into(); 20]), none);
        assert_eq!(fields(|r| r.topics = vec!["t".into(); 21]), ["topics"]);
        let all = fields(|r| *r = DeviceRegistration { token: "a\0".into(), ..Default::default() });
        assert_eq!(all, ["user_id", "provider", "token"]);
    }

    #[test]
    fn an_empty_installation_id_is_none() {
        let stored = registration(valid(), Some(WEBHOOK), &mut Violations::default());
        assert_eq!(stored.expect("valid").installation_id, None);
    }

    #[test]
    fn a_web_push_device_is_registered_with_a_subscription_and_nothing_else() {
        let web_push = Some(KnownProvider { kind: ProviderKind::WebPush, ..WEBHOOK });
        let mut violations = Violations::default();
        assert!(registration(valid(), web_push, &mut violations).is_none());
        let told: Vec<_> = violations.kept().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(told, ["token"]);
        let token = format!(
            r#"{{"expirationTime":null,"endpoint":"https://push.example:443/a","keys":{{"p256dh":"BA{}","auth":"{}=="}}}}"#,
            "A".repeat(85),
            "A".repeat(22)
        );
        let sent = DeviceRegistration { token: token.clone(), ..valid() };
        let stored = registration(sent, web_push, &mut Violations::default()).expect("a subscription");
        assert!(stored.token.starts_with(r#"{"endpoint":"https://push.example/a","keys":{"auth":""#));
        assert_eq!(stored.token, stored_token(ProviderKind::WebPush, token));
    }
}
