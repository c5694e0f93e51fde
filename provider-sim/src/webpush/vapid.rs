//! Who pushes (VAPID, RFC 8292).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::push::Refusal;

/// A token may be valid for so long (RFC 8292, section 2).
const MOST_LIFE_S: u64 = 24 * 3_600;

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    aud: String,
    exp: u64,
    #[serde(default)]
    sub: String,
}

/// Refuses what is not signed by the key it names, or is not for us and now.
pub(super) fn check(parts: &Parts, origin: &str) -> Result<(), Refusal> {
    let value = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let credentials = value.and_then(credentials).ok_or_else(|| {
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", "Authorization must be `vapid t=…, k=…`")
    })?;
    let forbidden = |why: &str| Refusal::new(StatusCode::FORBIDDEN, "forbidden", why);
    let claims =
        verified(credentials).ok_or_else(|| forbidden("the token is not signed with ES256 by its key"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if claims.aud != origin {
        return Err(forbidden("the token is for somebody else: its aud is not our origin"));
    }
    if claims.exp <= now || claims.exp > now + MOST_LIFE_S {
        return Err(forbidden("the token's exp is past, or more than 24 hours ahead"));
    }
    if !claims.sub.starts_with("mailto:") && !claims.sub.starts_with("https://") {
        return Err(forbidden("the token's sub is neither mailto: nor https:"));
    }
    Ok(())
}

/// The token and the key.
fn credentials(value: &str) -> Option<(&str, &str)> {
    let (scheme, parameters) = value.split_once(' ')?;
    let parameter = |name| parameters.split(',').find_map(|p| p.trim().strip_prefix(name));
    let vapid = scheme.eq_ignore_ascii_case("vapid");
    vapid.then_some(())?;
    Some((parameter("t=")?, parameter("k=")?))
}

fn verified((token, key): (&str, &str)) -> Option<Claims> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let key = VerifyingKey::from_sec1_bytes(&URL_SAFE_NO_PAD.decode(key).ok()?).ok()?;
    let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
    key.verify(signed.as_bytes(), &signature).ok()?;
    let header: Header = json(header)?;
    if header.alg == "ES256" { json(claims) } else { None }
}

fn json<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
