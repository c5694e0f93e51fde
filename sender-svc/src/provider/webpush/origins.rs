//! Push services: many, of which a few get nearly all calls. Each has connections and a token of its own, and of those that
//! were called longest ago nothing is kept. One that does not speak HTTP/2 is called by reqwest.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use hyper::header::HeaderValue;
use reqwest::{Client, Url};

use super::vapid::{Key, Subject, Token};
use crate::provider::http::{self, Connections, Lookup, STREAMS_PER_CONNECTION, Trust};

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

/// Makes connections.
struct Maker {
    trust: Trust,
    connect_timeout: Duration,
    in_flight: usize,
    public_only: bool,
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// One push service.
pub(super) struct Origin {
    /// As its tokens name it (RFC 8292, section 2).
    audience: String,
    /// One connection each.
    connections: Vec<OnceLock<Option<Connections>>>,
    /// Made when it is found to speak no HTTP/2.
    other_http: OnceLock<Option<Client>>,
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
        trust: Trust,
        in_flight: usize,
        connect_timeout: Duration,
        public_only: bool,
    ) -> anyhow::Result<Self> {
        let maker = Maker { trust, connect_timeout, in_flight, public_only };
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
            connections: (0..http::connections_for(self.maker.in_flight).max(1))
                .map(|_| OnceLock::new())
                .collect(),
            other_http: OnceLock::new(),
            under_way: AtomicUsize::new(0),
            token: Mutex::default(),
        });
        known.origins.insert(audience, (Arc::clone(&origin), uses));
        origin
    }

    /// What makes the next call to a push service: its first connection that has room, so that few calls open few.
    pub fn connections<'a>(&self, place: &'a Place) -> Option<&'a Connections> {
        let all = &place.origin.connections;
        let slot = &all[(place.before / STREAMS_PER_CONNECTION).min(all.len() - 1)];
        slot.get_or_init(|| self.maker.connection(&place.origin.audience).ok()).as_ref()
    }

    /// The same for one that speaks no HTTP/2.
    pub fn other_http(&self, place: &Place) -> Option<Client> {
        place.origin.other_http.get_or_init(|| self.maker.client().ok()).clone()
    }
}

impl Maker {
    fn connection(&self, origin: &str) -> anyhow::Result<Connections> {
        let connection = Connections::new(origin.parse()?, 1, self.connect_timeout, Some(&self.trust))?;
        Ok(if self.public_only { connection.public_only() } else { connection })
    }

    fn client(&self) -> reqwest::Result<Client> {
        let lookup = if self.public_only { Lookup::PublicOnly } else { Lookup::Any };
        http::client(self.in_flight, self.connect_timeout)
            .tls_backend_preconfigured(self.trust.for_any_http())
            .https_only(true)
            .dns_resolver(Arc::new(lookup))
            .build()
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
    /// Whether it was found to speak no HTTP/2.
    pub fn is_other_http(&self) -> bool {
        self.other_http.get().is_some()
    }

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

    fn origins(in_flight: usize) -> Origins {
        bongsu_ops::telemetry::install_crypto();
        let trust = Trust::new(None).expect("the system's certificates");
        Origins::new(trust, in_flight, Duration::from_secs(1), true).expect("clients")
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
        let opened = || origin.connections.iter().filter(|connection| connection.get().is_some()).count();
        let mut places = Vec::new();
        for (calls, connections) in [(STREAMS_PER_CONNECTION, 1), (1, 2), (5 * STREAMS_PER_CONNECTION, 3)] {
            for _ in 0..calls {
                let place = origin.begin();
                origins.connections(&place).expect("a connection");
                places.push(place);
            }
            assert_eq!(opened(), connections);
        }
        drop(places);
        assert_eq!(origin.begin().before, 0);
    }
}
