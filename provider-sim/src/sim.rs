//! What all connections share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fcm::Access;
use crate::ledger::Ledger;
use crate::tls::Identity;
use crate::webpush::Opened;
use crate::{Behaviour, WebhookSecret, apns};

pub(crate) struct Sim {
    /// One lock for all of it, so that every count of a call is seen or none is. A push holds it for less than a
    /// microsecond, nothing holds it across an await.
    state: Mutex<State>,
    started: Instant,
    pub identity: Identity,
    pub fcm: Access,
    pub apns: apns::Tokens,
    pub opened: Opened,
    /// Where webhooks must be signed.
    pub webhook_secret: Option<WebhookSecret>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub behaviour: Behaviour,
    pub ledger: Ledger,
}

impl Sim {
    pub fn new(behaviour: Behaviour, webhook_secret: Option<WebhookSecret>) -> anyhow::Result<Self> {
        let state = State { behaviour, ledger: Ledger::new() };
        Ok(Self {
            state: Mutex::new(state),
            started: Instant::now(),
            identity: Identity::new()?,
            fcm: Access::new()?,
            apns: apns::Tokens::new()?,
            opened: Opened::default(),
            webhook_secret,
        })
    }

    /// A panic elsewhere leaves at most one call uncounted; refusing everything after it would hide the first cause.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn since_start(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Counts a connection as open for as long as it lives.
pub(crate) struct OpenConnection(Arc<Sim>);

impl OpenConnection {
    /// None where as many are open as may be.
    pub fn new(sim: Arc<Sim>) -> Option<Self> {
        let opened = {
            let mut state = sim.lock();
            let max = state.behaviour.max_connections;
            state.ledger.connection_opened(max)
        };
        opened.then(|| Self(sim))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.lock().ledger.connection_closed();
    }
}
