//! Who a live client is: a user of the apps, by a token that the owner of the apps signed.
//!
//! * [`Authenticator`] finds the [`User`] of a request, by a JSON Web Token or by a ticket that stands for one
//! * [`AuthLayer`] asks it before every call, over HTTP and gRPC, and says which pages may call (CORS)
//! * [`ticket_router`] makes tickets, for pages that cannot send a header
//!
//! Keys are read again when their file changes. What says who calls is in no log line and goes no further than the layer.

mod credential;
mod endpoint;
mod keys;
mod known;
mod layer;
mod origin;
mod refused;
#[cfg(test)]
mod tests;
mod ticket;
mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use axum::http::HeaderMap;
use bongsu_ops::reload::Reloaded;

pub use self::credential::{MAX_COOKIE_NAME_BYTES, is_cookie_name};
pub use self::endpoint::ticket_router;
pub use self::keys::{Keys, parse_keys};
pub use self::layer::{Auth, AuthLayer};
pub use self::origin::Origin;
pub use self::refused::Refused;

use self::credential::Credential;
use self::known::{Fingerprint, Known};
use self::origin::Origins;
use self::ticket::Tickets;
use self::tokens::Rules;
use super::LiveConfig;

/// Whom a request is of; in the extensions of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// As devices are registered under and broadcasts are addressed to.
    pub id: String,
    /// When a stream of theirs ends; None: never.
    pub expires_at: Option<SystemTime>,
}

/// Where it was said who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// By whoever made this request.
    Request,
    /// By the browser, whichever page made it.
    Cookie,
}

/// Finds out whose a request is.
pub struct Authenticator {
    keys: Arc<Reloaded<Keys>>,
    known: Known,
    rules: Rules,
    tickets: Tickets,
    cookie: Option<String>,
    origins: Origins,
}

// Nothing of the keys.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Reads the keys, and reads them again when they change. `ticket_key` is the database's, so that a ticket of one sender is
    /// taken by all. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// When the keys have changed since [`LiveConfig::problems`] and are wrong now.
    pub fn start(config: &LiveConfig, ticket_key: &[u8]) -> anyhow::Result<Arc<Self>> {
        let path = config.jwks.clone().context("--live-jwks (BONGSU_LIVE_JWKS) is missing")?;
        let keys = Reloaded::load("the keys of users' tokens", vec![path], parse_keys)?;
        let set = keys.get();
        tracing::info!(keys = set.len(), unused = set.unused(), "knows the keys of users' tokens");
        Ok(Arc::new(Self {
            known: Known::new(set),
            keys,
            rules: Rules::new(config.jwt_issuer.as_deref(), config.jwt_audience.as_deref()),
            tickets: Tickets::new(ticket_key),
            cookie: config.cookie.clone(),
            origins: Origins::new(config.allow_origins.clone(), config.cookie.is_some()),
        }))
    }

    /// The user of a request, by `Authorization: Bearer`, a ticket in its query or, where one is named, a cookie. It does not ask
    /// which page sends the cookie: [`AuthLayer`] does.
    ///
    /// # Errors
    ///
    /// Why nobody is let in.
    pub fn authenticate(&self, headers: &HeaderMap, query: Option<&str>) -> Result<User, Refused> {
        self.identify(headers, query).map(|(user, _)| user)
    }

    fn identify(&self, headers: &HeaderMap, query: Option<&str>) -> Result<(User, Source), Refused> {
        match credential::find(headers, query, self.cookie.as_deref())? {
            Credential::Header(value) => Ok((self.by_token(value)?, Source::Request)),
            Credential::Ticket(value) => Ok((self.tickets.take(&value, SystemTime::now())?, Source::Request)),
            Credential::Cookie(value) => Ok((self.by_token(value)?, Source::Cookie)),
        }
    }

    fn by_token(&self, token: &str) -> Result<User, Refused> {
        tokens::check_length(token)?;
        let (keys, fingerprint) = (self.keys.get(), Fingerprint::of(token));
        if let Some(user) = self.known.user(&keys, fingerprint, SystemTime::now()) {
            return Ok(user);
        }
        let user = self.rules.check(&keys, token)?;
        self.known.remember(&keys, fingerprint, user.clone());
        Ok(user)
    }
}
