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
    named: HashMap<String, KnownProvider>,
    kinds: Vec<ProviderKind>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownProvider {
    pub id: ProviderId,
    pub kind: ProviderKind,
}

impl Known {
    pub fn named(&self, name: &str) -> Option<KnownProvider> {
        self.named.get(name).copied()
    }

    /// Every kind that one of them is of: what is to be sent must fit all, since an audience is found only later. A webhook,
    /// where there is none yet.
    pub fn kinds(&self) -> &[ProviderKind] {
        &self.kinds
    }

    /// In alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.named.keys().cloned().collect();
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
            && names.into_iter().all(|name| known.named.contains_key(name))
        {
            return Ok(known);
        }
        let providers = self.store.providers().await?;
        let used = |kind: &ProviderKind| providers.iter().any(|provider| provider.kind == *kind);
        let mut kinds: Vec<_> = ProviderKind::ALL.into_iter().filter(used).collect();
        if kinds.is_empty() {
            kinds.push(ProviderKind::Webhook);
        }
        let named =
            providers.into_iter().map(|p| (p.name, KnownProvider { id: p.id, kind: p.kind })).collect();
        let known = Arc::new(Known { named, kinds });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), Arc::clone(&known)));
        Ok(known)
    }
}
