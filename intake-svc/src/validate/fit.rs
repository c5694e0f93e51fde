//! Whether a message is one that every kind of provider takes.

use bongsu_ops::api::Violations;
use bongsu_store::{Message, ProviderKind, encoded_sizes, is_reserved_by_fcm};

use super::text;

/// Whether a message fits providers of all these kinds.
pub(crate) fn fits(message: &Message, kinds: &[ProviderKind]) -> Result<(), Violations> {
    let mut violations = Violations::default();
    for size in encoded_sizes(message, kinds).into_iter().filter(|size| size.bytes > size.limit) {
        violations.add(
            "data",
            format!(
                "makes, with title and body, a notification of {} bytes for {} providers; at most {} are allowed",
                size.bytes,
                size.kind.name(),
                size.limit
            ),
        );
    }
    if kinds.contains(&ProviderKind::Fcm) {
        for key in message.data.keys().filter(|key| is_reserved_by_fcm(key)) {
            let shown = text::shown(key);
            let advice = "is a key that fcm providers keep for themselves; give it another name";
            violations.add(format_args!("data[{shown:?}].key"), advice);
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoded_notification_may_have_its_limit_and_not_a_byte_more() {
        let message = |filled: usize| Message {
            title: "봉수 🔥 \"\n".into(),
            body: String::new(),
            data: [("k".to_owned(), "v".repeat(filled))].into(),
        };
        for kind in ProviderKind::ALL {
            let size = encoded_sizes(&message(0), &[kind])[0];
            let room = size.limit - size.bytes;
            assert!(fits(&message(room), &[kind]).is_ok(), "{kind:?}");
            let violations = fits(&message(room + 1), &[kind]).expect_err("too large");
            let told =
                format!("{} bytes for {} providers; at most {}", size.limit + 1, kind.name(), size.limit);
            assert!(violations.kept()[0].description.contains(&told), "{:?}", violations.kept());
        }
    }

    #[test]
    fn keys_that_fcm_keeps_for_itself_are_refused_where_there_is_an_fcm_provider() {
        let message = |key: &str| Message {
            title: "t".into(),
            body: String::new(),
            data: [(key.to_owned(), "v".to_owned())].into(),
        };
        let (with, without) = ([ProviderKind::Webhook, ProviderKind::Fcm], [ProviderKind::Webhook]);
        for reserved in ["from", "gcm", "gcm.n.e", "google.c.a.e", "google_x", "message_type"] {
            let violations = fits(&message(reserved), &with).expect_err(reserved);
            assert_eq!(violations.kept()[0].field, format!("data[{reserved:?}].key"));
            assert!(fits(&message(reserved), &without).is_ok(), "{reserved}");
        }
        for free in ["From", "fromage", "gcmx", "a.google", "collapse_key", "notification"] {
            assert!(fits(&message(free), &with).is_ok(), "{free}");
        }
    }
}
