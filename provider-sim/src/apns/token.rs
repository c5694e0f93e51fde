//! Provider tokens: who they are of, how old they are, how often they change.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;

use super::Refused;
use crate::Behaviour;

/// A key made for this simulator. It opens nothing anywhere else, and everybody may have it.
pub(crate) const KEY_PEM: &str = include_str!("../../keys/apns-test-key-opens-nothing.p8");
/// The id of that key.
pub const KEY_ID: &str = "TESTKEY000";
/// The team that has it.
pub const TEAM_ID: &str = "TESTTEAM00";

/// A token is too old after this many seconds.
const MAX_AGE_S: u64 = 3_600;
/// Remembered at most. Whoever has more of them is refused long before.
const MAX_KNOWN: usize = 64;

#[derive(Deserialize)]
struct Header<'a> {
    alg: &'a str,
    kid: &'a str,
}

#[derive(Deserialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: u64,
}

/// The tokens that were seen and believed.
pub(crate) struct Tokens {
    public_key: Vec<u8>,
    known: Mutex<Vec<Known>>,
}

struct Known {
    text: Box<str>,
    issued_at: u64,
    /// In seconds since 1970.
    first_seen: u64,
}

impl Tokens {
    pub fn new() -> anyhow::Result<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(KEY_PEM.as_bytes()).context("the test key")?;
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            der.secret_pkcs8_der(),
            &SystemRandom::new(),
        );
        let key = key.map_err(|error| anyhow::anyhow!("the test key: {error}"))?;
        Ok(Self { public_key: key.public_key().as_ref().to_vec(), known: Mutex::default() })
    }

    /// Believes a token, or says why not. A token that is new is refused where another one was new a short while ago; one
    /// that is known is not, although another one came after it.
    pub fn check(
        &self,
        authorization: Option<&HeaderValue>,
        behaviour: &Behaviour,
        now: Duration,
    ) -> Result<(), Refused> {
        let text =
            authorization.and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
        let Some((scheme, text)) = text else {
            return Err((StatusCode::FORBIDDEN, "MissingProviderToken"));
        };
        let now = now.as_secs();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| *known.text == *text) {
            return check_age(known.issued_at, now);
        }
        let issued_at = self.verify(scheme, text, behaviour.lenient);
        let issued_at = issued_at.ok_or((StatusCode::FORBIDDEN, "InvalidProviderToken"))?;
        check_age(issued_at, now)?;
        let interval = u64::from(behaviour.provider_token_interval_s);
        if known.iter().any(|known| now.abs_diff(known.first_seen) < interval) {
            return Err((StatusCode::TOO_MANY_REQUESTS, "TooManyProviderTokenUpdates"));
        }
        known.retain(|known| check_age(known.issued_at, now).is_ok());
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(Known { text: text.into(), issued_at, first_seen: now });
        Ok(())
    }

    /// When it was issued; `None` where it is not what a token should be.
    fn verify(&self, scheme: &str, text: &str, lenient: bool) -> Option<u64> {
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let (header, claims) = (decode(header)?, decode(claims)?);
        let header: Header<'_> = serde_json::from_slice(&header).ok()?;
        let claims: Claims<'_> = serde_json::from_slice(&claims).ok()?;
        if header.alg != "ES256" || header.kid != KEY_ID || claims.iss != TEAM_ID {
            return None;
        }
        if !lenient {
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public_key);
            key.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        }
        Some(claims.iat)
    }
}

fn check_age(issued_at: u64, now: u64) -> Result<(), Refused> {
    match now.checked_sub(issued_at) {
        None => Err((StatusCode::FORBIDDEN, "InvalidProviderToken")),
        Some(age) if age > MAX_AGE_S => Err((StatusCode::FORBIDDEN, "ExpiredProviderToken")),
        Some(_) => Ok(()),
    }
}
