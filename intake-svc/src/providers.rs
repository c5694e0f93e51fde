//! Names of providers and what they stand for, read from the store at most once a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bongsu_store::{ProviderId, ProviderKind, Result, Store};

/// How long names that were read are believed. A name that is not among them is looked for at once.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The providers of this Bongsu.
pub(crate) struct Providers {
    store: Store,
    last: Mutex<Option<(Instant, Arc<Known>)>>,
}

/// The providers at one moment.
#[derive(Debug, Default)]
pub(crate) struct Known {
    ids: HashMap<String, ProviderId>,
    kinds: Vec<ProviderKind>,
}

impl Known {
    pub fn id(&self, name: &str) -> Option<ProviderId> {
        self.ids.get(name).copied()
    }

    /// Every kind that one of them is of: what is to be sent must fit all, since an audience is found only later. A webhook,
    /// where there is none yet.
    pub fn kinds(&self) -> &[ProviderKind] {
        &self.kinds
    }

    /// In alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.ids.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

impl Providers {
    pub fn new(store: Store) -> Self {
        Self { store, last: Mutex::new(None) }
    }

    /// What is known; read anew where it is old, or lacks one of `names`.
    pub async fn knowing(&self, names: impl Iterator<Item = &str>) -> Result<Arc<Known>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read_at, known)) = last
            && read_at.elapsed() < MAX_AGE
            && names.into_iter().all(|name| known.ids.contains_key(name))
        {
            return Ok(known);
        }
        let providers = self.store.providers().await?;
        let used = |kind: &ProviderKind| providers.iter().any(|provider| provider.kind == *kind);
        let mut kinds: Vec<_> = ProviderKind::ALL.into_iter().filter(used).collect();
        if kinds.is_empty() {
            kinds.push(ProviderKind::Webhook);
        }
        let ids = providers.into_iter().map(|provider| (provider.name, provider.id)).collect();
        let known = Arc::new(Known { ids, kinds });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), Arc::clone(&known)));
        Ok(known)
    }
}
