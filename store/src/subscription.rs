//! The token of a web push device: what a browser calls its `PushSubscription`, as JSON.
//!
//! ```json
//! {"endpoint": "https://push.example/…", "keys": {"auth": "<16 bytes>", "p256dh": "<65 bytes>"}}
//! ```
//!
//! Here, so that intake and senders agree on what one is: what was registered can be called.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use url::Url;

/// An uncompressed point of P-256 (RFC 8291, section 3.1).
const KEY_BYTES: usize = 65;
/// What an uncompressed point begins with.
const UNCOMPRESSED: u8 = 4;
/// RFC 8291, section 3.2.
const AUTH_BYTES: usize = 16;

/// Where a browser is reached, and with what it opens what it is sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The push resource: https, without credentials.
    pub endpoint: Url,
    /// The browser's public key.
    pub p256dh: [u8; KEY_BYTES],
    /// The secret that it shares with us.
    pub auth: [u8; AUTH_BYTES],
}

// It is a device's token, so nothing of what it holds.
impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

/// Why a text is no subscription. Says nothing of what is in it: it holds a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSubscription {
    #[error(
        "must be a PushSubscription in JSON, as the browser gives it: {{\"endpoint\":\"https://…\",\"keys\":{{\"p256dh\":\"…\",\"auth\":\"…\"}}}}"
    )]
    Json,
    #[error(
        "has an endpoint that is no https URL with a host and without a user name, a password and a fragment"
    )]
    Endpoint,
    #[error("has a p256dh that is not {KEY_BYTES} bytes of an uncompressed P-256 key in base64url")]
    Key,
    #[error("has an auth that is not {AUTH_BYTES} bytes in base64url")]
    Auth,
}

/// As it is sent; a browser's has more members.
#[derive(Deserialize)]
struct Sent {
    endpoint: String,
    keys: SentKeys,
}

#[derive(Deserialize)]
struct SentKeys {
    p256dh: String,
    auth: String,
}

/// As it is stored: always these members in this order.
#[derive(Serialize)]
struct Canonical<'a> {
    endpoint: &'a str,
    keys: CanonicalKeys,
}

#[derive(Serialize)]
struct CanonicalKeys {
    auth: String,
    p256dh: String,
}

impl Subscription {
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn parse(token: &str) -> Result<Self, BadSubscription> {
        let Sent { endpoint, keys } = serde_json::from_str(token).map_err(|_| BadSubscription::Json)?;
        let endpoint = Url::parse(&endpoint).map_err(|_| BadSubscription::Endpoint)?;
        let plain = endpoint.username().is_empty() && endpoint.password().is_none();
        let host = endpoint.host_str().is_some_and(|host| !host.is_empty());
        if endpoint.scheme() != "https" || !plain || !host || endpoint.fragment().is_some() {
            return Err(BadSubscription::Endpoint);
        }
        let p256dh: [u8; KEY_BYTES] = bytes(&keys.p256dh).ok_or(BadSubscription::Key)?;
        if p256dh[0] != UNCOMPRESSED {
            return Err(BadSubscription::Key);
        }
        let auth = bytes(&keys.auth).ok_or(BadSubscription::Auth)?;
        Ok(Self { endpoint, p256dh, auth })
    }

    /// The one text that stands for this subscription.
    pub fn canonical(&self) -> String {
        let keys = CanonicalKeys {
            auth: URL_SAFE_NO_PAD.encode(self.auth),
            p256dh: URL_SAFE_NO_PAD.encode(self.p256dh),
        };
        // A struct of strings always serialises.
        serde_json::to_string(&Canonical { endpoint: self.endpoint.as_str(), keys }).expect("serialises")
    }
}

/// Base64 in either alphabet, with and without padding: libraries differ in what they pass on.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> (String, String) {
        let key = [&[UNCOMPRESSED], &[0xfb; 64][..]].concat();
        (URL_SAFE_NO_PAD.encode(key), URL_SAFE_NO_PAD.encode([0xff; 16]))
    }

    fn text(endpoint: &str, p256dh: &str, auth: &str) -> String {
        format!(r#"{{"endpoint":"{endpoint}","keys":{{"p256dh":"{p256dh}","auth":"{auth}"}}}}"#)
    }

    #[test]
    fn one_subscription_is_one_token_however_it_was_written() {
        let (key, auth) = keys();
        let canonical = text("https://push.example/a", &key, &auth);
        let canonical = Subscription::parse(&canonical).expect("a subscription").canonical();
        let standard = |text: &str| text.replace('-', "+").replace('_', "/") + "==";
        for other in [
            text("HTTPS://Push.Example:443/a", &key, &auth),
            text("https://push.example/a", &standard(&key), &standard(&auth)),
            format!(
                r#" {{"keys": {{"auth": "{auth}", "p256dh": "{key}"}}, "expirationTime": null, "endpoint": "https://push.example/a"}}"#
            ),
            canonical.clone(),
        ] {
            assert_eq!(Subscription::parse(&other).expect("a subscription").canonical(), canonical);
        }
    }

    #[test]
    fn what_is_no_subscription_is_refused_without_repeating_it() {
        let (key, auth) = keys();
        let fine = "https://push.example/a";
        for (token, wrong) in [
            ("fcm-token".to_owned(), BadSubscription::Json),
            (r#"{"endpoint":"https://push.example/a"}"#.to_owned(), BadSubscription::Json),
            (text("http://push.example/a", &key, &auth), BadSubscription::Endpoint),
            (text("https://user@push.example/a", &key, &auth), BadSubscription::Endpoint),
            (text("https://:secret@push.example/a", &key, &auth), BadSubscription::Endpoint),
            (text("https://push.example/a#b", &key, &auth), BadSubscription::Endpoint),
            (text("push.example", &key, &auth), BadSubscription::Endpoint),
            (text(fine, &auth, &auth), BadSubscription::Key),
            (text(fine, &key.replacen('B', "A", 1), &auth), BadSubscription::Key),
            (text(fine, &key, &key), BadSubscription::Auth),
            (text(fine, &key, "?"), BadSubscription::Auth),
        ] {
            assert_eq!(Subscription::parse(&token), Err(wrong), "{token}");
            assert!(!wrong.to_string().contains(&auth));
        }
    }
}
