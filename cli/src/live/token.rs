//! Keys and tokens of users, for development, demonstrations and measurements: what the apps' own server does elsewhere.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use serde::Serialize;
use serde_json::{Value, json};

/// RFC 7518, section 3.2.
const SECRET_BYTES: usize = 32;
/// As for the user of a device.
const MAX_USER_BYTES: usize = 256;

/// A secret that signs users' tokens (HS256). No Debug: it would show it.
pub struct SigningKey {
    kid: Option<String>,
    secret: Vec<u8>,
}

/// What a token says.
#[derive(Clone, Copy)]
pub struct Claims<'a> {
    pub user: &'a str,
    pub ttl: Duration,
    pub issuer: Option<&'a str>,
    pub audience: Option<&'a str>,
}

impl<'a> Claims<'a> {
    /// Of no issuer, and for no audience.
    pub fn of(user: &'a str, ttl: Duration) -> Self {
        Self { user, ttl, issuer: None, audience: None }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    sub: &'a str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

impl SigningKey {
    /// A key that nobody has yet.
    ///
    /// # Errors
    ///
    /// When the system gives no random bytes.
    pub fn fresh(kid: Option<&str>) -> anyhow::Result<Self> {
        let mut secret = vec![0; SECRET_BYTES];
        OsRng.try_fill_bytes(&mut secret).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
        Ok(Self { kid: kid.map(str::to_owned), secret })
    }

    /// The secret of that name in a key set, or the only one there is.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has no such secret. Nothing of the secret is in them.
    pub fn read(path: &Path, kid: Option<&str>) -> anyhow::Result<Self> {
        let read = || {
            let set: Value = serde_json::from_slice(&fs::read(path)?).context("is no JSON")?;
            Self::find(&set, kid)
        };
        read().with_context(|| path.display().to_string())
    }

    fn find(set: &Value, kid: Option<&str>) -> anyhow::Result<Self> {
        let keys = set.get("keys").and_then(Value::as_array).context("is no JSON Web Key Set")?;
        let text = |key: &Value, name: &str| key.get(name).and_then(Value::as_str).map(str::to_owned);
        let secrets = keys.iter().filter(|key| text(key, "kty").as_deref() == Some("oct"));
        let mut fitting = secrets.filter(|key| kid.is_none() || text(key, "kid").as_deref() == kid);
        let (Some(key), None) = (fitting.next(), fitting.next()) else {
            match kid {
                Some(kid) => bail!("has not one secret (kty oct) with the kid {kid:?}"),
                None => bail!("has not one secret (kty oct), but none or several: name one with --kid"),
            }
        };
        let secret = text(key, "k").and_then(|secret| URL_SAFE_NO_PAD.decode(secret).ok());
        let secret = secret.filter(|secret| secret.len() >= SECRET_BYTES);
        let secret = secret
            .with_context(|| format!("its secret is not at least {SECRET_BYTES} bytes in base64url"))?;
        Ok(Self { kid: text(key, "kid"), secret })
    }

    /// As the senders' --live-jwks takes it.
    pub fn jwks(&self) -> Value {
        let mut key =
            json!({ "kty": "oct", "alg": "HS256", "use": "sig", "k": URL_SAFE_NO_PAD.encode(&self.secret) });
        if let Some(kid) = &self.kid {
            key["kid"] = json!(kid);
        }
        json!({ "keys": [key] })
    }

    /// A token that is valid from now on.
    ///
    /// # Errors
    ///
    /// When there can be no such user, or it would be valid for longer than there are years.
    pub fn token(&self, claims: &Claims<'_>) -> anyhow::Result<String> {
        let Claims { user, ttl, issuer, audience } = *claims;
        let fits = (1..=MAX_USER_BYTES).contains(&user.len()) && !user.chars().any(char::is_control);
        ensure!(fits, "a user has 1 to {MAX_USER_BYTES} bytes without control characters");
        let iat = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is not set")?.as_secs();
        let exp = iat.checked_add(ttl.as_secs()).context("that is longer than there are years")?;
        let head = Header { kid: self.kid.clone(), ..Header::new(Algorithm::HS256) };
        let body = Body { sub: user, iat, exp, iss: issuer, aud: audience };
        Ok(encode(&head, &body, &EncodingKey::from_secret(&self.secret)?)?)
    }
}

#[cfg(test)]
mod tests {
    use sender_svc::live::LiveConfig;
    use sender_svc::live::auth::{Authenticator, Refused};
    use tonic::codegen::http::HeaderMap;
    use tonic::codegen::http::header::AUTHORIZATION;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Whom a sender with that file takes the token for.
    fn taken(path: &Path, token: &str, change: impl FnOnce(&mut LiveConfig)) -> Result<String, Refused> {
        let mut config = LiveConfig { jwks: Some(path.to_owned()), ..LiveConfig::default() };
        change(&mut config);
        let authenticator = Authenticator::start(&config, &[0; 32]).expect("the keys are good");
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"));
        authenticator.authenticate(&headers, None).map(|user| user.id)
    }

    #[tokio::test]
    async fn senders_take_a_token_that_was_made_with_a_key_that_was_made() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("jwks.json");
        for kid in [None, Some("2026-11")] {
            fs::write(&path, SigningKey::fresh(kid).expect("random").jwks().to_string()).expect("written");
            let key = SigningKey::read(&path, kid).expect("there");
            let token = key.token(&Claims::of("anna", HOUR)).expect("made");
            assert_eq!(taken(&path, &token, |_| {}), Ok("anna".into()));
            let asks = |config: &mut LiveConfig| {
                config.jwt_issuer = Some("me".into());
                config.jwt_audience = Some("bongsu".into());
            };
            assert!(matches!(taken(&path, &token, asks), Err(Refused::Invalid(_))), "it names neither");
            let claims = Claims { issuer: Some("me"), audience: Some("bongsu"), ..Claims::of("anna", HOUR) };
            assert_eq!(taken(&path, &key.token(&claims).expect("made"), asks), Ok("anna".into()));
            let other = SigningKey::fresh(kid).expect("random");
            let token = other.token(&Claims::of("anna", HOUR)).expect("made");
            assert!(matches!(taken(&path, &token, |_| {}), Err(Refused::Invalid(_))), "of another key");
        }
    }

    #[test]
    fn the_key_is_the_only_secret_or_the_one_that_is_named() {
        let secret = |kid: &str| SigningKey::fresh(Some(kid)).expect("random").jwks()["keys"][0].clone();
        let public = json!({ "kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB" });
        let one = json!({ "keys": [public, secret("a")] });
        let two = json!({ "keys": [secret("a"), secret("b")] });
        assert_eq!(SigningKey::find(&one, None).expect("one").kid.as_deref(), Some("a"));
        assert_eq!(SigningKey::find(&two, Some("b")).expect("named").kid.as_deref(), Some("b"));
        let weak = json!({ "keys": [{ "kty": "oct", "k": "aHVudGVyMg" }] });
        for (set, kid, told) in [
            (&two, None, "--kid"),
            (&two, Some("c"), "\"c\""),
            (&one, Some("r"), "\"r\""),
            (&json!({ "keys": [] }), None, "none or several"),
            (&json!([]), None, "Key Set"),
            (&weak, None, "32 bytes"),
        ] {
            let problem =
                SigningKey::find(set, kid).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(problem.contains(told) && !problem.contains("aHVudGVyMg"), "{set}: {problem}");
        }
    }

    #[test]
    fn no_token_is_made_for_whom_no_sender_would_know() {
        let key = SigningKey::fresh(None).expect("random");
        for user in ["", "an\na", &"u".repeat(257)] {
            assert!(key.token(&Claims::of(user, HOUR)).is_err(), "{user:?}");
        }
        assert!(key.token(&Claims::of("anna", Duration::MAX)).is_err(), "for ever");
    }
}
