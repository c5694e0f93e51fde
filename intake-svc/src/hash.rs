//! What makes two requests "the same": a hash over a canonical form of a request as it was sent.
//!
//! As sent, so that a default which changes later does not turn an old request into another one: no ttl and a ttl of
//! 24 hours differ. Canonical, so that what has no meaning does not count: the order of maps, and order and doubles of
//! lists that are sets. The form has a version; every part has its length in front, so that no two requests share one.

use bongsu_proto::v1::CreateBroadcastRequest;
use bongsu_proto::v1::audience::Kind;
use bongsu_proto::v1::create_broadcast_request::Expiry;
use sha2::{Digest as _, Sha256};

/// Changes when the form below does; then stored hashes of the old form no longer match.
const FORM: &str = "bongsu.v1.CreateBroadcastRequest/1";

/// The hash of all that has a meaning, but for the idempotency key, under which it is kept, and validate_only.
pub(crate) fn of_request(request: &CreateBroadcastRequest) -> [u8; 32] {
    let mut form = Canonical::new(FORM);
    form.text(&request.title);
    form.text(&request.body);
    form.number(request.data.len() as i64);
    for (key, value) in &request.data {
        form.text(key);
        form.text(value);
    }
    form.number(request.priority.into());
    match request.audience.as_ref().and_then(|audience| audience.kind.as_ref()) {
        None => form.text("none"),
        Some(Kind::Everyone(_)) => form.text("everyone"),
        Some(Kind::Topics(list)) => {
            form.text("topics");
            form.texts(&list.topics);
        }
        Some(Kind::Users(list)) => {
            form.text("users");
            form.texts(&list.user_ids);
        }
        Some(Kind::Devices(list)) => {
            form.text("devices");
            form.numbers(&list.device_ids);
        }
    }
    match &request.expiry {
        None => form.text("none"),
        Some(Expiry::Ttl(ttl)) => {
            form.text("ttl");
            form.number(ttl.seconds);
            form.number(ttl.nanos.into());
        }
        Some(Expiry::ExpireTime(moment)) => {
            form.text("expire_time");
            form.number(moment.seconds);
            form.number(moment.nanos.into());
        }
    }
    // Younger than the form: left out where it is not given, so that older requests keep their hash.
    if request.guarantee != 0 {
        form.text("guarantee");
        form.number(request.guarantee.into());
    }
    if let Some(moment) = &request.schedule_time {
        form.text("schedule_time");
        form.number(moment.seconds);
        form.number(moment.nanos.into());
    }
    if request.max_rate_per_second != 0 {
        form.text("max_rate_per_second");
        form.number(request.max_rate_per_second.into());
    }
    if request.routing != 0 {
        form.text("routing");
        form.number(request.routing.into());
    }
    if let Some(timeout) = &request.ack_timeout {
        form.text("ack_timeout");
        form.number(timeout.seconds);
        form.number(timeout.nanos.into());
    }
    form.finish()
}

/// A canonical form under way into SHA-256.
struct Canonical(Sha256);

impl Canonical {
    fn new(form: &str) -> Self {
        let mut canonical = Self(Sha256::new());
        canonical.text(form);
        canonical
    }

    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    fn number(&mut self, number: i64) {
        self.0.update(number.to_be_bytes());
    }

    /// A set of texts.
    fn texts(&mut self, texts: &[String]) {
        let mut texts: Vec<&String> = texts.iter().collect();
        texts.sort_unstable();
        texts.dedup();
        self.number(texts.len() as i64);
        texts.into_iter().for_each(|text| self.text(text));
    }

    /// A set of numbers.
    fn numbers(&mut self, numbers: &[i64]) {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        self.number(numbers.len() as i64);
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bongsu_proto::v1::{Audience, UserAudience};

    fn request() -> CreateBroadcastRequest {
        let users = ["b", "a", "b"].map(String::from).to_vec();
        CreateBroadcastRequest {
            idempotency_key: "k".into(),
            title: "ab".into(),
            body: "c".into(),
            data: [("x".into(), "1".into())].into(),
            audience: Some(Audience { kind: Some(Kind::Users(UserAudience { user_ids: users })) }),
            ..Default::default()
        }
    }

    fn changed(change: impl FnOnce(&mut CreateBroadcastRequest)) -> [u8; 32] {
        let mut request = request();
        change(&mut request);
        of_request(&request)
    }

    #[test]
    fn key_order_and_doubles_of_lists_do_not_matter() {
        let same = of_request(&request());
        assert_eq!(same, changed(|r| r.idempotency_key = "other".into()));
        assert_eq!(same, changed(|r| r.validate_only = true));
        let sorted = UserAudience { user_ids: vec!["a".into(), "b".into()] };
        assert_eq!(same, changed(|r| r.audience = Some(Audience { kind: Some(Kind::Users(sorted)) })));
    }

    #[test]
    fn everything_that_has_a_meaning_matters() {
        let day = prost_types::Duration { seconds: 86_400, nanos: 0 };
        let moment = prost_types::Timestamp { seconds: 86_400, nanos: 0 };
        let hashes = [
            of_request(&request()),
            changed(|r| (r.title, r.body) = ("a".into(), "bc".into())),
            changed(|r| r.data = [("x".into(), "2".into())].into()),
            changed(|r| r.data.clear()),
            changed(|r| r.priority = 2),
            changed(|r| r.guarantee = 1),
            changed(|r| r.guarantee = 2),
            changed(|r| r.max_rate_per_second = 1),
            changed(|r| r.max_rate_per_second = 2),
            changed(|r| r.routing = 1),
            changed(|r| r.routing = 3),
            changed(|r| r.ack_timeout = Some(day)),
            changed(|r| r.audience = None),
            changed(|r| r.expiry = Some(Expiry::Ttl(day))),
            changed(|r| r.expiry = Some(Expiry::ExpireTime(moment))),
            changed(|r| r.schedule_time = Some(moment)),
            changed(|r| r.schedule_time = Some(prost_types::Timestamp { nanos: 1, ..moment })),
        ];
        let distinct: std::collections::HashSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }

    #[test]
    fn the_form_is_stable() {
        let hex: String = of_request(&request()).iter().map(|byte| format!("{byte:02x}")).collect();
        // A change here breaks the replay of every key accepted before: raise FORM and say so in the changelog.
        assert_eq!(hex, "8f751c6740baa903581913c8aabbf70267ba89412b4434ede5cfa69c4d5e6ef0");
    }
}
