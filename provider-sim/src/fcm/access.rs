//! Access tokens: a service account's key file, and the endpoint that gives a token for an assertion signed with it (RFC 7523).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use hyper::header::HOST;
use hyper::http::request::Parts;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

use super::PROJECT;
use crate::Behaviour;
use crate::answer::{self, Answer};
use crate::{clock, query};

/// A key that everybody knows.
const KEY_PEM: &str = include_str!("../../keys/test-service-account-opens-nothing.pem");
const EMAIL: &str = "sender@bongsu-test.iam.gserviceaccount.com";
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform"];
/// An assertion lives no longer.
const MAX_LIFETIME_S: i64 = 3_600;
/// So far in the future an assertion may have been issued.
const MAX_AHEAD_S: i64 = 300;
/// Tokens that are remembered; the oldest go first.
const MAX_TOKENS: usize = 1_024;

/// Who may send.
pub(crate) struct Access {
    public_key: Vec<u8>,
    issued: Mutex<VecDeque<(String, Instant)>>,
}

/// Why there is no token, in the words of RFC 6749.
struct Refusal(&'static str, &'static str);

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    scope: String,
    aud: String,
    iat: i64,
    exp: i64,
}

impl Access {
    pub fn new() -> anyhow::Result<Self> {
        let der =
            PrivatePkcs8KeyDer::from_pem_slice(KEY_PEM.as_bytes()).map_err(|error| anyhow!("{error}"))?;
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| anyhow!("{error}"))?;
        Ok(Self { public_key: pair.public_key().as_ref().to_vec(), issued: Mutex::default() })
    }

    fn issued(&self) -> MutexGuard<'_, VecDeque<(String, Instant)>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is one of ours that has not ended.
    pub fn is_good(&self, token: &str) -> bool {
        let now = Instant::now();
        // The newest first, as that is what is nearly always asked for.
        self.issued().iter().rev().any(|(issued, ends_at)| issued == token && now < *ends_at)
    }

    /// `POST /fcm/revoke`: no token that was given is good any more.
    pub fn revoke(&self) -> Answer {
        self.issued().clear();
        answer::json_text(StatusCode::OK, r#"{"status":"ok"}"#)
    }

    /// `POST /token`.
    pub fn token(&self, parts: &Parts, body: &[u8], behaviour: &Behaviour) -> Answer {
        let clock = UNIX_EPOCH + clock::now(behaviour);
        let mut answer = match behaviour.fcm_token_status.and_then(|status| StatusCode::from_u16(status).ok())
        {
            Some(status) => answer::json_text(status, r#"{"error":"overridden"}"#),
            None => match self.check(parts, body, clock, behaviour.lenient) {
                Ok(()) => self.issue(Duration::from_secs(behaviour.fcm_token_lifetime_s.into())),
                Err(Refusal(error, detail)) => answer::json_text(
                    StatusCode::BAD_REQUEST,
                    json!({ "error": error, "error_description": detail }).to_string(),
                ),
            },
        };
        clock::tell_time(&mut answer, behaviour);
        answer
    }

    fn issue(&self, lifetime: Duration) -> Answer {
        let mut random = [0; 16];
        if SystemRandom::new().fill(&mut random).is_err() {
            return answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", "no random bytes");
        }
        let token = format!("sim-{}", URL_SAFE_NO_PAD.encode(random));
        let text = json!({ "access_token": token, "expires_in": lifetime.as_secs(), "token_type": "Bearer" });
        let mut issued = self.issued();
        if issued.len() == MAX_TOKENS {
            issued.pop_front();
        }
        issued.push_back((token, Instant::now() + lifetime));
        answer::json_text(StatusCode::OK, text.to_string())
    }

    fn check(&self, parts: &Parts, body: &[u8], clock: SystemTime, lenient: bool) -> Result<(), Refusal> {
        let form = std::str::from_utf8(body).ok().and_then(query::pairs);
        let form = form.ok_or(Refusal("invalid_request", "the body is no form"))?;
        let field =
            |wanted: &str| form.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        if field("grant_type") != Some(GRANT_TYPE) {
            return Err(Refusal("unsupported_grant_type", "grant_type is not that of RFC 7523"));
        }
        let assertion = field("assertion").ok_or(Refusal("invalid_request", "assertion is missing"))?;
        let no_jwt = || Refusal("invalid_grant", "the assertion is no JWT");
        let (signed, signature) = assertion.rsplit_once('.').ok_or_else(no_jwt)?;
        let (header, claims) = signed.split_once('.').ok_or_else(no_jwt)?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| no_jwt());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| no_jwt())?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| no_jwt())?;
        if header.alg != "RS256" {
            return Err(Refusal("invalid_grant", "the algorithm must be RS256"));
        }
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        if !lenient && key.verify(signed.as_bytes(), &decode(signature)?).is_err() {
            return Err(Refusal("invalid_grant", "the signature is not the service account's"));
        }
        let now = clock.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
        claims.check(&token_uri(parts), now)
    }
}

impl Claims {
    fn check(&self, audience: &str, now: i64) -> Result<(), Refusal> {
        if self.iss != EMAIL {
            return Err(Refusal("invalid_grant", "iss is no service account"));
        }
        if self.aud != audience {
            return Err(Refusal("invalid_grant", "aud is not this endpoint"));
        }
        let lifetime = self.exp.saturating_sub(self.iat);
        let in_time = self.iat <= now + MAX_AHEAD_S && now < self.exp && lifetime <= MAX_LIFETIME_S;
        if !in_time {
            let detail = "iat and exp must be about now, and an hour apart at most";
            return Err(Refusal("invalid_grant", detail));
        }
        if !self.scope.split(' ').any(|scope| SCOPES.contains(&scope)) {
            return Err(Refusal("invalid_scope", "the scope does not allow to send messages"));
        }
        Ok(())
    }
}

/// `GET /fcm/service-account.json`: the key file for this simulator, as the host that was asked is called.
pub(crate) fn key_file(parts: &Parts) -> Answer {
    let file = json!({
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "opens-nothing",
        "private_key": KEY_PEM,
        "client_email": EMAIL,
        "client_id": "0",
        "token_uri": token_uri(parts),
    });
    answer::json(StatusCode::OK, &file)
}

/// Always with TLS, which is spoken on the same port: nobody asks for a token in clear text.
fn token_uri(parts: &Parts) -> String {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = parts.uri.authority().map(|authority| authority.as_str()).or(host).unwrap_or("localhost");
    format!("https://{host}/token")
}
