//! Whoever signs tokens in these tests. They sign with another library than the one that checks.

use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::{Authenticator, Refused, User};
use crate::live::LiveConfig;

/// Made for these tests alone.
const RSA: &str = include_str!("rsa_2048_for_tests.pem");
pub const TICKET_KEY: [u8; 32] = [3; 32];

/// A key that signs.
pub enum Signer {
    Secret(Vec<u8>),
    Ed25519(Box<Ed25519KeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl Signer {
    pub fn secret(byte: u8) -> Self {
        Self::Secret(vec![byte; 32])
    }

    pub fn ed25519(seed: u8) -> Self {
        Self::Ed25519(Box::new(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a seed")))
    }

    pub fn rsa() -> Self {
        let lines: String = RSA.lines().filter(|line| !line.starts_with("-----")).collect();
        Self::Rsa(Box::new(RsaKeyPair::from_der(&STANDARD.decode(lines).expect("base64")).expect("a key")))
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Secret(_) => "HS256",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    /// As it stands in a key set.
    pub fn jwk(&self, kid: Option<&str>) -> Value {
        let mut jwk = match self {
            Self::Secret(secret) => json!({ "kty": "oct", "k": base64url(secret) }),
            Self::Ed25519(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(key.public_key().as_ref()) })
            }
            Self::Rsa(key) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "n": base64url(&n), "e": base64url(&e) })
            }
        };
        if let Some(kid) = kid {
            jwk["kid"] = json!(kid);
        }
        jwk
    }

    /// A token that says just this, whether it makes sense or not.
    pub fn sign(&self, head: &Value, claims: &Value) -> String {
        let said = format!(
            "{}.{}",
            base64url(head.to_string().as_bytes()),
            base64url(claims.to_string().as_bytes())
        );
        let signature = match self {
            Self::Secret(secret) => {
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), said.as_bytes()).as_ref().to_vec()
            }
            Self::Ed25519(key) => key.sign(said.as_bytes()).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), said.as_bytes(), &mut signature)
                    .expect("signed");
                signature
            }
        };
        format!("{said}.{}", base64url(&signature))
    }

    /// A good token of anna's, for an hour.
    pub fn token(&self, kid: Option<&str>) -> String {
        self.sign(&head(self.algorithm(), kid), &claims())
    }
}

pub fn head(algorithm: &str, kid: Option<&str>) -> Value {
    match kid {
        Some(kid) => json!({ "alg": algorithm, "typ": "JWT", "kid": kid }),
        None => json!({ "alg": algorithm, "typ": "JWT" }),
    }
}

pub fn claims() -> Value {
    json!({ "sub": "anna", "exp": now() + 3_600 })
}

/// `claims()`, but for this one.
pub fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

pub fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("later than 1970").as_secs())
        .expect("fits")
}

pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An authenticator and the file that its keys are in.
pub struct Gate {
    pub authenticator: Arc<Authenticator>,
    directory: TempDir,
}

impl Gate {
    /// Must be called within a runtime.
    pub fn new(jwks: &[Value], change: impl FnOnce(&mut LiveConfig)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("jwks.json");
        fs::write(&path, json!({ "keys": jwks }).to_string()).expect("written");
        let mut config = LiveConfig { jwks: Some(path), ..LiveConfig::default() };
        change(&mut config);
        let authenticator = Authenticator::start(&config, &TICKET_KEY).expect("the keys are good");
        Self { authenticator, directory }
    }

    /// Writes the file anew, and looks at it as it is looked at every second.
    pub fn rewrite(&self, content: &str) {
        fs::write(self.directory.path().join("jwks.json"), content).expect("written");
        self.authenticator.keys.look();
    }

    pub fn bearer(&self, token: &str) -> Result<User, Refused> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
        headers.insert(AUTHORIZATION, value);
        self.authenticator.authenticate(&headers, None)
    }

    pub fn ticket(&self, ticket: &str) -> Result<User, Refused> {
        self.authenticator.authenticate(&HeaderMap::new(), Some(&format!("ticket={ticket}")))
    }
}
