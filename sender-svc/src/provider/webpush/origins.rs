//! Push services: many, of which a few get nearly all calls. Each has connections and a token of its own, and of those that
//! were called longest ago nothing is kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use hyper::header::HeaderValue;
use reqwest::{Client, Url};
use rustls::ClientConfig;

use super::reach::PublicOnly;
use super::vapid::{Key, Subject, Token};
use crate::provider::http::{self, STREAMS_PER_CONNECTION};

/// Push services that are remembered. There are a handful, and whatever devices make up.
const MOST_ORIGINS: usize = 256;

/// The push services that were called last.
#[derive(Debug)]
pub(super) struct Origins {
    maker: Maker,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    origins: HashMap<String, (Arc<Origin>, u64)>,
    /// Grows with each use, so that what was used longest ago has the least.
    uses: u64,
}

/// Makes clients.
struct Maker {
    tls: ClientConfig,
    connect_timeout: Duration,
    /// For each push service.
    most: usize,
    public_only: bool,
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("most", &self.most).finish_non_exhaustive()
    }
}

/// One push service.
pub(super) struct Origin {
    /// As its tokens name it (RFC 8292, section 2).
    audience: String,
    /// Each opens one connection where the push service speaks HTTP/2.
    clients: Vec<OnceLock<Option<Client>>>,
    under_way: AtomicUsize,
    token: Mutex<Token>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("audience", &self.audience).finish_non_exhaustive()
    }
}

impl Origins {
    /// For up to `in_flight` calls at a time.
    ///
    /// # Errors
    ///
    /// Where no client can be made.
    pub fn new(
        tls: ClientConfig,
        in_flight: usize,
        connect_timeout: Duration,
        public_only: bool,
    ) -> anyhow::Result<Self> {
        let maker =
            Maker { tls, connect_timeout, most: http::connections_for(in_flight).max(1), public_only };
        maker.client().context("building the HTTP client")?;
        Ok(Self { maker, known: Mutex::default() })
    }

    /// The push service that has this URL.
    pub fn of(&self, url: &Url) -> Arc<Origin> {
        let audience = url.origin().ascii_serialization();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.uses += 1;
        let uses = known.uses;
        if let Some((origin, used)) = known.origins.get_mut(&audience) {
            *used = uses;
            return Arc::clone(origin);
        }
        if known.origins.len() >= MOST_ORIGINS {
            // Its connections end with the calls that are under way on them.
            let oldest =
                known.origins.iter().min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone());
            oldest.and_then(|name| known.origins.remove(&name));
        }
        let origin = Arc::new(Origin {
            audience: audience.clone(),
            clients: (0..self.maker.most).map(|_| OnceLock::new()).collect(),
            under_way: AtomicUsize::new(0),
            token: Mutex::default(),
        });
        known.origins.insert(audience, (Arc::clone(&origin), uses));
        origin
    }

    /// What makes the next call to a push service: its first connection that has room, so that few calls open few.
    pub fn client(&self, place: &Place) -> Option<Client> {
        let clients = &place.origin.clients;
        let slot = &clients[(place.before / STREAMS_PER_CONNECTION).min(clients.len() - 1)];
        slot.get_or_init(|| self.maker.client().ok()).clone()
    }
}

impl Maker {
    fn client(&self) -> reqwest::Result<Client> {
        let client = http::client(STREAMS_PER_CONNECTION, self.connect_timeout)
            .tls_backend_preconfigured(self.tls.clone())
            .https_only(true);
        if self.public_only { client.dns_resolver(Arc::new(PublicOnly)) } else { client }.build()
    }
}

/// A call under way to a push service, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    origin: Arc<Origin>,
    /// Calls that were under way to it before.
    before: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.origin.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Origin {
    /// Counts a call.
    pub fn begin(self: &Arc<Self>) -> Place {
        Place { origin: Arc::clone(self), before: self.under_way.fetch_add(1, Ordering::Relaxed) }
    }

    /// The value of `Authorization` for calls to it now.
    pub fn authorization(&self, key: &Arc<Key>, subject: &Subject) -> Option<HeaderValue> {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.get(key, &self.audience, subject, SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::http::Trust;

    fn origins(in_flight: usize) -> Origins {
        bongsu_ops::telemetry::install_crypto();
        let tls = Trust::new(None).expect("the system's certificates").for_any_http();
        Origins::new(tls, in_flight, Duration::from_secs(1), true).expect("clients")
    }

    fn url(n: usize) -> Url {
        format!("https://push-{n}.example/a").parse().expect("a URL")
    }

    #[test]
    fn however_many_push_services_devices_make_up_those_in_use_are_kept() {
        let origins = origins(1);
        let busy = origins.of(&url(0));
        for n in 1..3 * MOST_ORIGINS {
            let _ = origins.of(&url(n));
            assert!(Arc::ptr_eq(&origins.of(&url(0)), &busy), "{n}");
        }
        let known = origins.known.lock().expect("no panic");
        assert_eq!(known.origins.len(), MOST_ORIGINS);
    }

    #[test]
    fn a_few_calls_open_one_connection_and_many_open_more() {
        let origins = origins(3 * STREAMS_PER_CONNECTION);
        let origin = origins.of(&url(0));
        let opened = || origin.clients.iter().filter(|client| client.get().is_some()).count();
        let mut places = Vec::new();
        for (calls, clients) in [(STREAMS_PER_CONNECTION, 1), (1, 2), (5 * STREAMS_PER_CONNECTION, 3)] {
            for _ in 0..calls {
                let place = origin.begin();
                origins.client(&place).expect("a client");
                places.push(place);
            }
            assert_eq!(opened(), clients);
        }
        drop(places);
        assert_eq!(origin.begin().before, 0);
    }
}
