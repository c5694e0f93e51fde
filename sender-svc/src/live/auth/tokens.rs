//! Users' tokens: JSON Web Tokens that the owner of the apps signs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::User;
use super::keys::{Keys, name};
use super::refused::Refused;

/// Tokens are sent with each request; a longer one is none.
const MAX_TOKEN_BYTES: usize = 8 * 1_024;
/// What the clocks of whoever signs and of this host may differ by.
const LEEWAY: Duration = Duration::from_secs(30);
/// As for the user of a device.
pub(super) const MAX_USER_BYTES: usize = 256;

/// What a token must say besides being signed.
pub(super) struct Rules {
    /// One for each algorithm: the check of a token knows only that of its key.
    by_algorithm: [Validation; 3],
}

/// The first part of a token. It is not believed: it names a key, and what it says has to fit that.
#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// Whole seconds, or with a fraction.
    exp: f64,
}

impl Rules {
    pub fn new(issuer: Option<&str>, audience: Option<&str>) -> Self {
        let rules = |algorithm| {
            let mut rules = Validation::new(algorithm);
            rules.leeway = LEEWAY.as_secs();
            rules.validate_nbf = true;
            // What is expected must be there: a claim that is absent is not checked otherwise. With no audience of ours, a token
            // that is for one is not for us (RFC 7519, section 4.1.3).
            let claims = [Some("exp"), Some("sub"), issuer.and(Some("iss")), audience.and(Some("aud"))];
            rules.set_required_spec_claims(&claims.into_iter().flatten().collect::<Vec<_>>());
            if let Some(issuer) = issuer {
                rules.set_issuer(&[issuer]);
            }
            if let Some(audience) = audience {
                rules.set_audience(&[audience]);
            }
            rules
        };
        Self { by_algorithm: [Algorithm::HS256, Algorithm::EdDSA, Algorithm::RS256].map(rules) }
    }

    /// The user that a token is of.
    pub fn check(&self, keys: &Keys, token: &str) -> Result<User, Refused> {
        let head = head(token).ok_or(Refused::Invalid("it is no JSON Web Token"))?;
        if head.crit.is_some() {
            return Err(Refused::Invalid("it asks for an extension (crit)"));
        }
        let key = keys.find(head.kid.as_deref()).ok_or(Refused::Invalid("its key (kid) is not known"))?;
        if head.alg != name(key.algorithm) {
            return Err(Refused::Invalid("its algorithm (alg) is not that of its key"));
        }
        let rules = self.by_algorithm.iter().find(|rules| rules.algorithms.contains(&key.algorithm));
        let rules = rules.ok_or(Refused::Invalid("its algorithm (alg) is none of ours"))?;
        let checked = decode::<Claims>(token, &key.decoding, rules).map_err(|error| refused(error.kind()))?;
        let Claims { sub, exp } = checked.claims;
        if !(1..=MAX_USER_BYTES).contains(&sub.len()) {
            return Err(Refused::Invalid("its subject (sub) must have 1 to 256 bytes"));
        }
        if sub.chars().any(char::is_control) {
            return Err(Refused::Invalid("its subject (sub) has control characters"));
        }
        // As long as a new request with it would be taken; None beyond all calendars.
        let expires_at = Duration::try_from_secs_f64(exp)
            .ok()
            .and_then(|exp| UNIX_EPOCH.checked_add(exp))
            .and_then(|exp| SystemTime::checked_add(&exp, LEEWAY));
        Ok(User { id: sub, expires_at })
    }
}

/// Before anything is done with it.
pub(super) fn check_length(token: &str) -> Result<(), Refused> {
    if token.len() > MAX_TOKEN_BYTES { Err(Refused::Invalid("it is too long")) } else { Ok(()) }
}

fn head(token: &str) -> Option<Head> {
    let (head, _) = token.split_once('.')?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).ok()?).ok()
}

fn refused(kind: &ErrorKind) -> Refused {
    match kind {
        ErrorKind::ExpiredSignature => Refused::Expired,
        ErrorKind::InvalidSignature => Refused::Invalid("its signature is wrong"),
        ErrorKind::ImmatureSignature => Refused::Invalid("it is not valid yet (nbf)"),
        ErrorKind::InvalidIssuer => Refused::Invalid("its issuer (iss) is another one"),
        ErrorKind::InvalidAudience => Refused::Invalid("its audience (aud) is another one"),
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => {
            Refused::Invalid("it has no issuer (iss)")
        }
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => {
            Refused::Invalid("it has no audience (aud)")
        }
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) | ErrorKind::Json(_) => {
            Refused::Invalid(
                "it lacks a claim, or has one that is none: sub (text) and exp (seconds) must be there",
            )
        }
        _ => Refused::Invalid("it is no JSON Web Token"),
    }
}
