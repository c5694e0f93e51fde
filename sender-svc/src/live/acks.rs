//! Acknowledgements of all callers that wait at the same time, recorded together. After a broadcast everybody acknowledges
//! within the same second, and what a statement costs beside its rows is then most of it. Nobody waits for company: a group is
//! what came while the last one was being recorded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bongsu_store::{BroadcastId, Result, Store, StoreError};
use tokio::sync::{Semaphore, oneshot};

use super::metrics;

/// Groups recorded at a time: more would wait for each other's broadcasts.
const LANES: usize = 1;
/// Acknowledgements of a group, but for the last caller's, at most.
const GROUP: usize = 1_000;

#[derive(Debug)]
pub struct Acks {
    store: Store,
    waiting: Mutex<VecDeque<Waiting>>,
    free: Semaphore,
}

#[derive(Debug)]
struct Waiting {
    user: String,
    ids: Vec<BroadcastId>,
    tell: oneshot::Sender<Result<()>>,
}

impl Acks {
    pub fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store, waiting: Mutex::default(), free: Semaphore::new(LANES) })
    }

    /// Records that a client of the user has these. It is recorded, or not, also where the caller goes away.
    pub async fn acknowledge(self: &Arc<Self>, user: String, ids: Vec<BroadcastId>) -> Result<()> {
        let (tell, told) = oneshot::channel();
        self.waiting().push_back(Waiting { user, ids, tell });
        // A task of its own: a caller that goes away must not take those with it who wait for the same statement.
        tokio::spawn(Arc::clone(self).work());
        told.await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("what records acknowledgements stopped".into())))
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what waits, unless others do it first.
    async fn work(self: Arc<Self>) {
        let Ok(_place) = self.free.acquire().await else { return };
        loop {
            let group = take(&mut self.waiting());
            if group.is_empty() {
                return;
            }
            let recorded = self.record(&group).await;
            if let Ok(new) = recorded {
                metrics::acknowledged(new);
            }
            for waiting in group {
                // Nobody listens where the caller went away.
                let _ = waiting.tell.send(recorded.clone().map(drop));
            }
        }
    }

    /// How many of them are new.
    async fn record(&self, group: &[Waiting]) -> Result<usize> {
        let names: BTreeSet<&String> = group.iter().map(|waiting| &waiting.user).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let users = self.store.live_join(&names).await?;
        let mut acks = BTreeSet::new();
        for waiting in group {
            if let Ok(n) = names.binary_search(&waiting.user)
                && let Some(user) = users.get(n)
            {
                acks.extend(waiting.ids.iter().map(|id| (*user, *id)));
            }
        }
        let acks: Vec<_> = acks.into_iter().collect();
        self.store.acknowledge(&acks).await
    }
}

/// The next group.
fn take(waiting: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let (mut group, mut ids) = (vec![], 0);
    while ids < GROUP
        && let Some(next) = waiting.pop_front()
    {
        ids += next.ids.len();
        group.push(next);
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_bounded_and_nobody_is_left_out() {
        let waiting = |ids: i64| Waiting {
            user: "u".into(),
            ids: (0..ids).map(BroadcastId).collect(),
            tell: oneshot::channel().0,
        };
        let mut queue: VecDeque<_> = [999, 1, 1, 1_000, 5].map(waiting).into();
        let mut groups = vec![];
        while !queue.is_empty() {
            groups.push(take(&mut queue).iter().map(|waiting| waiting.ids.len()).collect::<Vec<_>>());
        }
        assert_eq!(groups, [vec![999, 1], vec![1, 1_000], vec![5]]);
    }
}
