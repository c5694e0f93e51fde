//! How a user got a notification: by stream, by push, by both or by neither; and what explains both.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use bongsu_store::{BroadcastId, DeliveryFilter, DeliveryState, Store};
use provider_sim::DeliveryRecord;

use super::record::Record;

/// Deliveries read in one page.
const PAGE: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stream,
    Push,
    /// A client that shows each id once shows it once.
    Both(Both),
    Neither,
}

/// Why a user got it by stream and by push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Both {
    /// The client never said that it has it.
    NotAcknowledged,
    /// Its connection broke, so that the acknowledgement came after the call, or it had it from another connection.
    LostInBetween,
    /// The call was made before the acknowledgement was known.
    AcknowledgedLate,
    /// The acknowledgement was known, and the call was made all the same: a promise that was not kept.
    AcknowledgedBefore,
}

/// What becomes of a broadcast's deliveries.
#[derive(Debug, Default)]
pub struct Pushes {
    /// By user, when the provider accepted the first one.
    pub accepted: HashMap<String, SystemTime>,
    /// Users of dead letters.
    pub dead: Vec<String>,
}

impl Pushes {
    /// Of a broadcast: `records` are what the provider's simulator counted.
    ///
    /// # Errors
    ///
    /// When the database cannot be read.
    pub async fn of(broadcast: i64, store: &Store, records: &[DeliveryRecord]) -> anyhow::Result<Self> {
        let accepted: HashMap<&str, u64> = records
            .iter()
            .filter_map(|record| Some((record.key.as_str(), record.first_accepted_unix_us?)))
            .collect();
        let mut pushes = Self::default();
        let mut filter = DeliveryFilter {
            broadcast: BroadcastId(broadcast),
            states: Vec::new(),
            provider: None,
            after: None,
            limit: PAGE,
        };
        loop {
            let page = store.list_deliveries(&filter).await.context("listing deliveries")?;
            let Some(last) = page.last() else { return Ok(pushes) };
            filter.after = Some((last.provider_id, last.device));
            for delivery in page {
                let Some(user) = delivery.user_id else { continue };
                if delivery.state == DeliveryState::Dead {
                    pushes.dead.push(user.clone());
                }
                if let Some(micros) = accepted.get(&*format!("{broadcast}-{}", delivery.device)) {
                    let at = UNIX_EPOCH + Duration::from_micros(*micros);
                    pushes.accepted.entry(user).and_modify(|first| *first = at.min(*first)).or_insert(at);
                }
            }
        }
    }
}

/// `margin`: how long a sender that has looked for acknowledgements may take until its call is at the provider.
pub fn judge(
    notification: i64,
    record: Option<&Record>,
    pushed_at: Option<SystemTime>,
    margin: Duration,
) -> Verdict {
    let receipt = record.and_then(|record| record.receipt(notification));
    let (Some(record), Some(receipt)) = (record, receipt) else {
        return if pushed_at.is_some() { Verdict::Push } else { Verdict::Neither };
    };
    let Some(pushed_at) = pushed_at else { return Verdict::Stream };
    let lost = |until: SystemTime| {
        record.connections.iter().any(|connection| connection.to.is_some_and(|to| to <= until + margin))
    };
    Verdict::Both(match receipt.acknowledged_at {
        None => Both::NotAcknowledged,
        Some(at) if pushed_at > at + margin => Both::AcknowledgedBefore,
        Some(at) if lost(at) => Both::LostInBetween,
        Some(_) => Both::AcknowledgedLate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: Duration = Duration::from_secs(1);

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    /// Connected from second 0, got notification 41 in second 10.
    fn record(acknowledged: Option<u64>, lost: Option<u64>) -> Record {
        let mut record = Record::default();
        record.connected("a".to_owned(), at(0));
        record.received(41, "7-1", false, at(10));
        if let Some(second) = lost {
            record.disconnected(at(second));
        }
        if let Some(second) = acknowledged {
            record.acknowledged(41, at(second));
        }
        record
    }

    #[test]
    fn one_way_is_one_way_and_none_is_none() {
        let judge = |record: Option<&Record>, pushed| judge(41, record, pushed, MARGIN);
        assert_eq!(judge(None, None), Verdict::Neither);
        assert_eq!(judge(None, Some(at(3))), Verdict::Push);
        assert_eq!(judge(Some(&Record::default()), Some(at(3))), Verdict::Push);
        assert_eq!(judge(Some(&Record::default()), None), Verdict::Neither);
        assert_eq!(judge(Some(&record(None, None)), None), Verdict::Stream);
    }

    #[test]
    fn both_ways_are_explained_by_when_the_call_was_made_and_when_the_acknowledgement_was_known() {
        let judge = |acknowledged, lost, pushed| {
            judge(41, Some(&record(acknowledged, lost)), Some(at(pushed)), MARGIN)
        };
        assert_eq!(judge(None, None, 13), Verdict::Both(Both::NotAcknowledged));
        assert_eq!(
            judge(Some(12), None, 13),
            Verdict::Both(Both::AcknowledgedLate),
            "the call was under way"
        );
        assert_eq!(judge(Some(20), None, 13), Verdict::Both(Both::AcknowledgedLate));
        assert_eq!(judge(Some(20), Some(11), 13), Verdict::Both(Both::LostInBetween));
        assert_eq!(judge(Some(11), None, 13), Verdict::Both(Both::AcknowledgedBefore));
        assert_eq!(
            judge(Some(11), Some(12), 14),
            Verdict::Both(Both::AcknowledgedBefore),
            "a break is no excuse"
        );
    }
}
