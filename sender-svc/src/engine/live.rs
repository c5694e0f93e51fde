//! Live, then push: before the calls of a broadcast whose push waits for acknowledgements, who has seen it, and who may yet.
//!
//! Nothing waits in this process. What has time left becomes a retry that is due at its deadline, and whoever claims that decides
//! anew; so a sender that dies, a pause or a drain changes nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{Due, DueDelivery, LeasedBatch, Result, UserNo};
use tokio::time::Instant;

use super::claim::Claimer;
use super::held::BroadcastWork;
use crate::metrics;

/// Deliveries whose events are asked for in one statement at most.
const MOST_ASKED: usize = 2_000;
/// Who is connected has to be answered within this: what was claimed waits for it.
const PRESENCE_PATIENCE: Duration = Duration::from_secs(1);
/// After a failure nobody asks for so long, so that other work is not slowed; nobody counts as connected meanwhile.
const PRESENCE_REST: Duration = Duration::from_secs(2);

/// Where the broadcast expires before the deadline, a push waits half of what is left, as long as that is not less.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// How asking who is connected has gone.
#[derive(Debug, Default)]
pub(super) struct PresenceHealth {
    failing: bool,
    rest_until: Option<Instant>,
}

/// A delivery that may wait, by its place among what is due.
struct Waitable {
    index: usize,
    user: UserNo,
    left: Duration,
}

impl Claimer {
    /// Of what is due of broadcasts that wait for acknowledgements: what was seen, and what has time left, is not to be called.
    pub(super) async fn heed_acknowledgements(
        &mut self,
        works: &[Arc<BroadcastWork>],
        batches: &[LeasedBatch],
        due: &mut [DueDelivery],
    ) -> Result<()> {
        let timeouts: HashMap<_, _> =
            works.iter().filter_map(|w| Some((w.id, (w.ack_timeout?, w.time_left())))).collect();
        if timeouts.is_empty() {
            return Ok(());
        }
        let of = |batch: &LeasedBatch| Some((batch.id, (*batch, *timeouts.get(&batch.broadcast)?)));
        let leases: HashMap<_, _> = batches.iter().filter_map(of).collect();
        let callable = due.iter().enumerate().filter(|(_, delivery)| delivery.target().is_some());
        let asked: Vec<_> = callable
            .filter_map(|(index, delivery)| {
                leases.get(&delivery.batch).map(|(lease, timeout)| (index, *lease, delivery.device, *timeout))
            })
            .collect();
        let (mut seen, mut waitable) = (0, vec![]);
        for asked in asked.chunks(MOST_ASKED) {
            let deliveries: Vec<_> = asked.iter().map(|(_, lease, device, _)| (*lease, *device)).collect();
            let events = self.lane.events_of(&deliveries).await?;
            for ((index, _, _, (timeout, expires_in)), event) in asked.iter().zip(events) {
                let Some(event) = event else { continue };
                if event.acknowledged {
                    due[*index].due = Due::SeenLive;
                    seen += 1;
                } else if let Some(left) = may_wait(*timeout, event.age, *expires_in) {
                    waitable.push(Waitable { index: *index, user: event.user, left });
                }
            }
        }
        let connected = self.connected(&waitable).await;
        waitable.retain(|waitable| connected.contains(&waitable.user));
        metrics::live_first(seen, waitable.len(), asked.len() - seen - waitable.len());
        for Waitable { index, left, .. } in waitable {
            due[index].due = Due::AwaitAck(left);
        }
        Ok(())
    }

    /// Who of these has a connection. Nobody, where that cannot be told: then the push goes out.
    async fn connected(&mut self, waitable: &[Waitable]) -> HashSet<UserNo> {
        let resting = self.presence.rest_until.is_some_and(|until| Instant::now() < until);
        if waitable.is_empty() || resting {
            return HashSet::new();
        }
        let users: BTreeSet<UserNo> = waitable.iter().map(|waitable| waitable.user).collect();
        let users: Vec<UserNo> = users.into_iter().collect();
        let asked = tokio::time::timeout(PRESENCE_PATIENCE, self.engine.presence.present(&users)).await;
        let reason = match asked {
            Ok(Ok(connected)) => {
                if std::mem::take(&mut self.presence).failing {
                    tracing::info!("it is known again who is connected");
                }
                return connected;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PRESENCE_PATIENCE:?}"),
        };
        if !self.presence.failing {
            tracing::warn!("cannot tell who is connected, so pushes wait for nobody: {reason}");
        }
        self.presence = PresenceHealth { failing: true, rest_until: Some(Instant::now() + PRESENCE_REST) };
        HashSet::new()
    }
}

/// For how long a push may wait for an acknowledgement, if it may.
fn may_wait(timeout: Duration, age: Duration, expires_in: Duration) -> Option<Duration> {
    let left = timeout.checked_sub(age).filter(|left| !left.is_zero())?;
    if left < expires_in {
        return Some(left);
    }
    // The broadcast expires first, and what waited for its deadline would never be pushed.
    Some(expires_in / 2).filter(|half| *half >= WORTH_WAITING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_waits_until_its_deadline_and_never_until_its_broadcast_has_expired() {
        let seconds = Duration::from_secs;
        let hour = seconds(3_600);
        assert_eq!(may_wait(seconds(10), seconds(2), hour), Some(seconds(8)));
        assert_eq!(may_wait(seconds(10), seconds(10), hour), None);
        assert_eq!(may_wait(seconds(10), seconds(11), hour), None);
        assert_eq!(may_wait(seconds(10), seconds(2), seconds(8)), Some(seconds(4)));
        assert_eq!(may_wait(seconds(10), seconds(2), seconds(1)), None, "it is time to push");
    }
}
