//! Completing broadcasts whose last batch was closed here. Apart from the sweep, which may take long: what were left to that would
//! make it take longer, and leave it more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bongsu_store::BroadcastId;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::Engine;

/// Broadcasts completed in one statement at most.
const MOST: usize = 1_000;
/// Between two looks, each of which is planned anew …
const EVERY: Duration = Duration::from_millis(20);
/// … and where the last one completed nothing, and it is the same ones again: a broadcast of many batches asks with each flush.
const EVERY_IN_VAIN: Duration = Duration::from_millis(100);

/// Broadcasts to look at, each once however often a batch of it was closed: so there are no more than work was claimed of.
#[derive(Debug, Default)]
struct Waiting {
    ids: BTreeSet<BroadcastId>,
    /// Those that the last look did not complete.
    in_vain: BTreeSet<BroadcastId>,
}

impl Waiting {
    /// Takes in what has come, and waits for it where there is nothing, or until `again` where it was looked at in vain. False once
    /// no more will come and all is taken.
    async fn gather(&mut self, touched: &mut mpsc::UnboundedReceiver<BroadcastId>, again: Instant) -> bool {
        loop {
            while let Ok(id) = touched.try_recv() {
                self.ids.insert(id);
            }
            // A timer that is due says so a millisecond later.
            let wait = self.ids.is_subset(&self.in_vain) && (self.ids.is_empty() || Instant::now() < again);
            if !wait {
                return true;
            }
            let next = touched.recv();
            let next = if self.ids.is_empty() { Ok(next.await) } else { timeout_at(again, next).await };
            match next {
                Ok(Some(id)) => self.ids.insert(id),
                Ok(None) | Err(_) => return !self.ids.is_empty(),
            };
        }
    }

    /// The oldest of them.
    fn take(&mut self) -> Vec<BroadcastId> {
        let later = self.ids.iter().nth(MOST).copied();
        let later = later.map(|id| self.ids.split_off(&id)).unwrap_or_default();
        self.in_vain = std::mem::replace(&mut self.ids, later);
        self.in_vain.iter().copied().collect()
    }

    fn completed(&mut self, ids: &[BroadcastId]) {
        for id in ids {
            self.in_vain.remove(id);
        }
    }
}

/// Runs until the flush, which holds the other end of `touched`, has ended.
pub(super) async fn run(engine: Arc<Engine>, mut touched: mpsc::UnboundedReceiver<BroadcastId>) {
    let mut waiting = Waiting::default();
    let mut troubled = false;
    let mut again = Instant::now();
    while waiting.gather(&mut touched, again).await {
        let began = Instant::now();
        again = began + EVERY_IN_VAIN;
        match complete(&engine, &waiting.take()).await {
            Ok(completed) => {
                waiting.completed(&completed);
                troubled = false;
            }
            Err(error) => {
                // Nothing is lost: the sweep completes what this did not.
                if !troubled {
                    tracing::warn!("cannot complete broadcasts: {error}");
                }
                troubled = true;
            }
        }
        tokio::time::sleep_until(began + EVERY).await;
    }
}

async fn complete(engine: &Engine, ids: &[BroadcastId]) -> bongsu_store::Result<Vec<BroadcastId>> {
    // The last acknowledgement may have come while what waits for it was being recorded: one of the two sees both.
    let awaits = |id: &BroadcastId| engine.holdings.broadcast(*id).is_some_and(|w| w.ack_timeout.is_some());
    let awaiting: Vec<_> = ids.iter().copied().filter(awaits).collect();
    if !awaiting.is_empty() {
        engine.store.wake_acknowledged(&awaiting).await?;
    }
    let completed = engine.store.complete_broadcasts(ids).await?;
    for id in &completed {
        tracing::info!(broadcast_id = id.0, "broadcast completed");
    }
    Ok(completed)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn each_closed_broadcast_is_looked_at_however_many_close_at_once() {
        let (closed, mut touched) = mpsc::unbounded_channel();
        for id in (0..10_000).chain(0..10_000) {
            closed.send(BroadcastId(id)).expect("open");
        }
        drop(closed);
        let (mut waiting, mut looked_at) = (Waiting::default(), Vec::new());
        while waiting.gather(&mut touched, Instant::now()).await {
            let step = waiting.take();
            assert!(step.len() <= MOST);
            looked_at.extend(step.into_iter().map(|id| id.0));
        }
        assert_eq!(looked_at, (0..10_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_was_looked_at_in_vain_waits_for_its_time_or_for_another_one() {
        let (closed, mut touched) = mpsc::unbounded_channel();
        let close = |id| closed.send(BroadcastId(id)).expect("open");
        let (mut waiting, past) = (Waiting::default(), Instant::now());
        let later = past + Duration::from_secs(3_600);
        close(1);
        assert!(waiting.gather(&mut touched, later).await);
        assert_eq!(waiting.take(), [BroadcastId(1)]);
        close(1);
        assert_eq!(waiting.gather(&mut touched, later).now_or_never(), None, "in vain, and not yet time");
        assert_eq!(waiting.gather(&mut touched, past).now_or_never(), Some(true), "time");
        close(2);
        assert_eq!(waiting.gather(&mut touched, later).now_or_never(), Some(true), "another one");
        assert_eq!(waiting.take(), [BroadcastId(1), BroadcastId(2)]);
        waiting.completed(&[BroadcastId(2)]);
        close(1);
        assert_eq!(waiting.gather(&mut touched, later).now_or_never(), None);
        close(2);
        assert_eq!(
            waiting.gather(&mut touched, later).now_or_never(),
            Some(true),
            "a retry of it was born since"
        );
    }
}
