//! Who we are, towards push services: a signed token for each of them (VAPID, RFC 8292).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::HeaderValue;
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey as _;
use serde::{Deserialize, Serialize};

/// How long a token is valid: push services take none of more than 24 hours (RFC 8292, section 2).
const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// A token is used for this long, so that a clock may be wrong by as much.
const USE: Duration = Duration::from_secs(6 * 3_600);

/// A private key as a number.
const RAW_BYTES: usize = 32;

/// `{"typ":"JWT","alg":"ES256"}`, the same for every token.
const JOSE_HEADER: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9";

/// Our private key.
pub(super) struct Key {
    signing: SigningKey,
    /// As browsers were given it when they subscribed.
    public: String,
}

impl Key {
    /// Reads PEM (PKCS #8 or SEC 1), or the 32 bytes in base64url that tools for web push make.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("is no text")?.trim();
        let key = if text.contains("-----BEGIN PRIVATE KEY-----") {
            SecretKey::from_pkcs8_pem(text).ok()
        } else if text.contains("-----BEGIN EC PRIVATE KEY-----") {
            // Tools write the curve's parameters before it.
            text.find("-----BEGIN EC PRIVATE KEY-----")
                .and_then(|at| SecretKey::from_sec1_pem(&text[at..]).ok())
        } else {
            let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
            // Shorter ones would be taken, too, and filled up.
            bytes
                .filter(|bytes| bytes.len() == RAW_BYTES)
                .and_then(|bytes| SecretKey::from_slice(&bytes).ok())
        };
        let Some(key) = key else {
            bail!("is no private key of P-256: give it in PEM, or its 32 bytes in base64url")
        };
        let public = URL_SAFE_NO_PAD.encode(key.public_key().to_sec1_bytes());
        Ok(Self { signing: SigningKey::from(key), public })
    }

    /// The value of `Authorization` towards a push service (RFC 8292, section 3).
    fn authorization(&self, audience: &str, subject: &str, expires: u64) -> Option<HeaderValue> {
        #[derive(Serialize)]
        struct Claims<'a> {
            aud: &'a str,
            exp: u64,
            sub: &'a str,
        }
        let claims = serde_json::to_vec(&Claims { aud: audience, exp: expires, sub: subject }).ok()?;
        let signed = format!("{JOSE_HEADER}.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature: Signature = self.signing.sign(signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.to_bytes());
        HeaderValue::from_str(&format!("vapid t={signed}.{signature}, k={}", self.public)).ok()
    }
}

/// Whom a push service may write to about us.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Subject(pub String);

impl TryFrom<String> for Subject {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mail = text.strip_prefix("mailto:").is_some_and(|mail| mail.contains('@'));
        let url = text.starts_with("https://") && reqwest::Url::parse(&text).is_ok();
        if mail || url {
            return Ok(Self(text));
        }
        Err("subject must be mailto: with an address, or an https URL: push services write there".to_owned())
    }
}

/// The token for one push service as it is now.
#[derive(Default)]
pub(super) struct Token(Option<Made>);

struct Made {
    at: SystemTime,
    key: Arc<Key>,
    header: HeaderValue,
}

impl Token {
    /// Makes it where there is none, where it is old, where the clock was set back, and where the key is another.
    pub fn get(
        &mut self,
        key: &Arc<Key>,
        audience: &str,
        subject: &Subject,
        now: SystemTime,
    ) -> Option<HeaderValue> {
        if let Some(made) = &self.0
            && Arc::ptr_eq(&made.key, key)
            && now.duration_since(made.at).is_ok_and(|age| age < USE)
        {
            return Some(made.header.clone());
        }
        let expires = (now + LIFE).duration_since(UNIX_EPOCH).ok()?.as_secs();
        let header = key.authorization(audience, &subject.0, expires)?;
        self.0 = Some(Made { at: now, key: Arc::clone(key), header: header.clone() });
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use p256::ecdsa::VerifyingKey;
    use p256::ecdsa::signature::Verifier as _;

    use super::*;

    /// The example of RFC 8292 has no private key; this one is of RFC 8291.
    const RAW: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
    const PUBLIC: &str =
        "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";

    #[test]
    fn a_key_is_read_from_pem_and_from_its_bytes_and_never_repeated() {
        use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
        let raw = Key::parse(format!("{RAW}\n").as_bytes()).expect("a key");
        assert_eq!(raw.public, PUBLIC);
        let secret = SecretKey::from(&raw.signing);
        let pem = secret.to_pkcs8_pem(LineEnding::LF).expect("PEM");
        let sec1 = secret.to_sec1_pem(LineEnding::LF).expect("PEM");
        let with_parameters = format!(
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}",
            *sec1
        );
        for text in [&*pem, &*sec1, &with_parameters] {
            assert_eq!(Key::parse(text.as_bytes()).expect("a key").public, PUBLIC);
        }
        for wrong in
            ["", "short", &RAW[..40], "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----"]
        {
            let error = Key::parse(wrong.as_bytes()).err().expect("no key");
            assert!(!format!("{error:#}").contains("secret"), "{error:#}");
        }
    }

    #[test]
    fn a_token_is_signed_for_its_push_service_and_made_again_before_it_ends() {
        let key = Arc::new(Key::parse(RAW.as_bytes()).expect("a key"));
        let subject = Subject("mailto:ops@example.com".to_owned());
        let (mut token, now) = (Token::default(), SystemTime::now());
        let mut at = |key: &Arc<Key>, seconds| {
            let now = now + Duration::from_secs(seconds);
            token.get(key, "https://push.example", &subject, now).expect("a token")
        };
        let first = at(&key, 0);
        assert_eq!(at(&key, USE.as_secs() - 1), first);
        let second = at(&key, USE.as_secs());
        assert_ne!(second, first);
        assert_ne!(at(&key, 0), second, "the clock was set back");
        let other = Arc::new(Key::parse(b"q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94").expect("a key"));
        assert_ne!(at(&other, 0), first);

        let text = first.to_str().expect("text");
        let (jwt, public) =
            text.strip_prefix("vapid t=").and_then(|rest| rest.split_once(", k=")).expect("both");
        let (signed, signature) = jwt.rsplit_once('.').expect("signed");
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let verifying = VerifyingKey::from_sec1_bytes(&decode(public)).expect("a key");
        let signature = Signature::from_slice(&decode(signature)).expect("a signature");
        verifying.verify(signed.as_bytes(), &signature).expect("ours");
        let (header, claims) = signed.split_once('.').expect("both");
        assert_eq!(decode(header), br#"{"typ":"JWT","alg":"ES256"}"#);
        let claims: serde_json::Value = serde_json::from_slice(&decode(claims)).expect("JSON");
        let exp = (now + LIFE).duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let expected = serde_json::json!({
            "aud": "https://push.example", "exp": exp, "sub": "mailto:ops@example.com"
        });
        assert_eq!(claims, expected);
    }

    #[test]
    fn a_subject_is_somewhere_to_write_to() {
        for (text, fine) in [
            ("mailto:ops@example.com", true),
            ("https://example.com/contact", true),
            ("ops@example.com", false),
            ("mailto:", false),
            ("http://example.com", false),
        ] {
            assert_eq!(Subject::try_from(text.to_owned()).is_ok(), fine, "{text}");
        }
    }
}
