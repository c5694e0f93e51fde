//! Signatures by the Standard Webhooks specification (<https://www.standardwebhooks.com>): a receiver that knows the secret
//! knows that a call is ours, is as we made it, and is new.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const PREFIX: &str = "whsec_";
/// What the specification asks for.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// One, or the new and the old one while receivers change from one to the other.
const MOST_SECRETS: usize = 2;

/// The secrets that each call is signed with.
pub(super) struct Secrets(Vec<hmac::Key>);

impl Secrets {
    /// Reads one or two, apart by white space.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("is no text")?;
        let keys: Vec<_> = text.split_whitespace().map(key).collect::<Result<_, _>>()?;
        ensure!((1..=MOST_SECRETS).contains(&keys.len()), "has {} secrets: give one or two", keys.len());
        Ok(Self(keys))
    }

    /// The value of `webhook-signature`.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp}.");
        let signature = |key| {
            let mut context = hmac::Context::with_key(key);
            context.update(head.as_bytes());
            context.update(body);
            format!("v1,{}", STANDARD.encode(context.sign()))
        };
        self.0.iter().map(signature).collect::<Vec<_>>().join(" ")
    }
}

fn key(text: &str) -> anyhow::Result<hmac::Key> {
    let bytes = text.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
    let bytes = bytes.filter(|bytes| SECRET_BYTES.contains(&bytes.len()));
    let bytes = bytes.with_context(|| {
        format!(
            "is no secret: give {PREFIX} and {} to {} bytes in base64",
            SECRET_BYTES.start(),
            SECRET_BYTES.end()
        )
    })?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the specification's own libraries' tests.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_example_of_the_specifications_libraries_comes_out() {
        let secrets = Secrets::parse(SECRET.as_bytes()).expect("a secret");
        let signature =
            secrets.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_secrets_change_a_call_has_a_signature_of_each() {
        let other = format!("whsec_{}", STANDARD.encode([7; 32]));
        let of = |text: &str| Secrets::parse(text.as_bytes()).expect("secrets").sign("1-2", 3, b"{}");
        assert_eq!(of(&format!("{other}\n{SECRET}\n")), format!("{} {}", of(&other), of(SECRET)));
    }

    #[test]
    fn what_is_no_secret_is_refused_without_repeating_it() {
        let three = [SECRET; 3].join(" ");
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ", "whsec_?", &three] {
            let error = Secrets::parse(wrong.as_bytes()).err().expect("no secret");
            assert!(!format!("{error:#}").contains("MfKQ"), "{error:#}");
        }
    }
}
