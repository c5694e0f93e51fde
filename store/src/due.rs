//! What is left to do in claimed batches, and where to call.
//!
//! Deliveries first, then the devices, as they are then; both in ranges where these are dense, since finding a row by its key
//! costs as much as reading several beside each other.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::claim::{ClaimLane, LeasedBatch};
use crate::error::Result;
use crate::ids::{BatchId, DeviceId, ProviderId, SenderId, Shard};
use crate::range::DeviceRange;
use crate::shards::by_shard;

/// A delivery that waits for a call.
#[derive(Debug)]
pub struct DueDelivery {
    pub batch: BatchId,
    pub device: DeviceId,
    pub due: Due,
}

impl DueDelivery {
    /// Where to call; `None` where no call is to be made.
    pub fn target(&self) -> Option<&Target> {
        match &self.due {
            Due::Call(target) => Some(target),
            Due::Skip | Due::Interrupted | Due::SeenLive | Due::AwaitAck(_) => None,
        }
    }
}

/// What to do about it.
#[derive(Debug)]
pub enum Due {
    /// Call the device, as it was when read.
    Call(Target),
    /// The device is gone, retired or without consent, and must not be called.
    Skip,
    /// At most once: whoever held the batch before was calling it, and nobody knows how that ended.
    Interrupted,
    /// A client of the user has acknowledged the notification: no call is needed. Not said by [`ClaimLane::read`], which knows
    /// nothing of events.
    SeenLive,
    /// The user is connected, and has so long to acknowledge before the call is made. Likewise.
    AwaitAck(Duration),
}

/// Where to call.
#[derive(Debug)]
pub struct Target {
    pub token: String,
    /// Which registration of the token this is.
    pub registered_at: OffsetDateTime,
}

impl ClaimLane {
    /// What is pending in these batches, as far as they are still this sender's; of each batch in order of device.
    pub async fn read(&mut self, batches: &[LeasedBatch]) -> Result<Vec<DueDelivery>> {
        let mut due = vec![];
        for (shard, batches) in by_shard(batches.iter().copied(), |batch| batch.shard) {
            due.extend(self.read_in(shard, &batches).await?);
        }
        Ok(due)
    }

    async fn read_in(&mut self, shard: Shard, batches: &[LeasedBatch]) -> Result<Vec<DueDelivery>> {
        let sender = self.sender;
        self.lane
            .run("read", async |connection| {
                let pending = pending(connection, shard, sender, batches).await?;
                let mut targets = targets(connection, shard, &pending).await?;
                let mut due = Vec::with_capacity(pending.iter().map(|p| p.devices.len()).sum());
                for batch in pending {
                    let targets = targets.remove(&batch.id).unwrap_or_default();
                    due.extend(batch.join(targets));
                }
                Ok(due)
            })
            .await
    }
}

/// What is pending of a batch.
struct Pending {
    id: BatchId,
    provider: ProviderId,
    /// Sorted.
    devices: Vec<DeviceId>,
    /// Those of them that an owner before was calling. Sorted.
    sending: Vec<DeviceId>,
    /// The devices that can be called in its range, where it is one of a broadcast to everyone: hardly any are others.
    callable: Option<u64>,
}

impl Pending {
    fn new(
        lease: &LeasedBatch,
        mut devices: Vec<DeviceId>,
        mut sending: Vec<DeviceId>,
        everyone: bool,
    ) -> Self {
        devices.sort_unstable();
        sending.sort_unstable();
        let callable = everyone.then(|| u64::from(lease.size.unsigned_abs()));
        Self { id: lease.id, provider: lease.provider, devices, sending, callable }
    }

    /// The range of devices to read, where that is cheaper than one by one.
    fn range(&self) -> Option<DeviceRange> {
        DeviceRange::of(self.devices.iter().copied())
            .filter(|range| range.pays_for(self.devices.len(), self.callable))
    }

    /// Each delivery with its target, if it has one; `targets` are sorted.
    fn join(self, targets: Vec<(DeviceId, Target)>) -> impl Iterator<Item = DueDelivery> {
        let mut targets = targets.into_iter().peekable();
        self.devices.into_iter().map(move |device| {
            while targets.next_if(|(other, _)| *other < device).is_some() {}
            let target = targets.next_if(|(same, _)| *same == device);
            let due = match target {
                _ if self.sending.binary_search(&device).is_ok() => Due::Interrupted,
                Some((_, target)) => Due::Call(target),
                None => Due::Skip,
            };
            DueDelivery { batch: self.id, device, due }
        })
    }
}

async fn pending(
    connection: &mut PgConnection,
    shard: Shard,
    sender: SenderId,
    batches: &[LeasedBatch],
) -> Result<Vec<Pending>> {
    let mut pending = Vec::with_capacity(batches.len());
    let lease = |id| batches.iter().find(|b| b.id == id);
    let ids =
        |ranged| -> Vec<i64> { batches.iter().filter(|b| b.ranged == ranged).map(|b| b.id.0).collect() };
    let ranged = ids(true);
    if !ranged.is_empty() {
        let rows = sqlx::query_file!("queries/batch_read_range.sql", shard, &ranged, sender.0)
            .fetch_all(&mut *connection)
            .await?;
        pending.extend(
            rows.into_iter().filter_map(|row| {
                Some(Pending::new(lease(row.batch)?, row.devices, row.sending, row.everyone))
            }),
        );
    }
    let listed = ids(false);
    if !listed.is_empty() {
        let rows = sqlx::query_file!("queries/batch_read_listed.sql", shard, &listed, sender.0)
            .fetch_all(connection)
            .await?;
        pending.extend(
            rows.into_iter()
                .filter_map(|row| Some(Pending::new(lease(row.batch)?, row.devices, row.sending, false))),
        );
    }
    Ok(pending)
}

/// The devices that can be called, by batch and in order.
async fn targets(
    connection: &mut PgConnection,
    shard: Shard,
    pending: &[Pending],
) -> Result<BTreeMap<BatchId, Vec<(DeviceId, Target)>>> {
    let mut targets: BTreeMap<BatchId, Vec<(DeviceId, Target)>> = BTreeMap::new();
    let (mut batches, mut providers, mut firsts, mut lasts) = (vec![], vec![], vec![], vec![]);
    let (mut of, mut devices) = (vec![], vec![]);
    for batch in pending {
        if let Some(range) = batch.range() {
            batches.push(batch.id.0);
            providers.push(batch.provider.0);
            firsts.push(range.first.0);
            lasts.push(range.last.0);
        } else {
            of.extend(batch.devices.iter().map(|_| batch.id.0));
            devices.extend(batch.devices.iter().map(|device| device.0));
        }
    }
    if !batches.is_empty() {
        let rows =
            sqlx::query_file!("queries/target_range.sql", shard, &batches, &providers, &firsts, &lasts)
                .fetch_all(&mut *connection)
                .await?;
        for row in rows {
            let found = row.devices.into_iter().zip(row.tokens.into_iter().zip(row.registered_at));
            let mut found: Vec<_> = found
                .map(|(device, (token, registered_at))| (device, Target { token, registered_at }))
                .collect();
            found.sort_unstable_by_key(|(device, _)| *device);
            targets.insert(row.batch, found);
        }
    }
    if !devices.is_empty() {
        let rows = sqlx::query_file!("queries/target_listed.sql", shard, &of, &devices)
            .fetch_all(connection)
            .await?;
        for row in rows {
            let target = Target { token: row.token, registered_at: row.registered_at };
            targets.entry(row.batch).or_default().push((row.device, target));
        }
        // In order already, unless the plan has changed it.
        targets.values_mut().for_each(|found| found.sort_unstable_by_key(|(device, _)| *device));
    }
    Ok(targets)
}
