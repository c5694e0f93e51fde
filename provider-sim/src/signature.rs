//! Signatures of webhooks, as the Standard Webhooks specification has them (<https://www.standardwebhooks.com>).

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use sha2::Sha256;

use crate::push::Refusal;

/// A signature is believed for so long, and by so much before its time.
const MOST_AGE_S: u64 = 300;

/// What a webhook's calls are to be signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl FromStr for WebhookSecret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = text.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        bytes.map(Self).ok_or("a secret is whsec_ and base64")
    }
}

impl WebhookSecret {
    pub(crate) fn check(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        let refused = |why| Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", why);
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(id), Some(timestamp), Some(signatures)) =
            (text("webhook-id"), text("webhook-timestamp"), text("webhook-signature"))
        else {
            return Err(refused("it is not signed: webhook-id, webhook-timestamp and webhook-signature"));
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if timestamp.parse::<u64>().is_ok_and(|then| then.abs_diff(now) > MOST_AGE_S) {
            return Err(refused("its webhook-timestamp is not now"));
        }
        let signed = |signature: &str| {
            let signature = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
            let (Some(signature), Ok(mut mac)) = (signature, Hmac::<Sha256>::new_from_slice(&self.0)) else {
                return false;
            };
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            mac.verify_slice(&signature).is_ok()
        };
        if signatures.split(' ').any(signed) {
            return Ok(());
        }
        Err(refused("none of its signatures is of our secret"))
    }
}
