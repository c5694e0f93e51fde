//! The statements of an explanation, each by the keys that the one before found.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::row::Row;
use super::{
    Explained, ExplainedBroadcast, ExplainedDelivery, ExplainedDevice, FailedAttempt, MOST_DEVICES,
    MOST_EVENTS, MOST_REPLAYS, ReplayOutcome,
};
use crate::broadcast::{AudienceKind, BroadcastState};
use crate::connect::{Store, bounded};
use crate::delivery::{DeadReason, DeliveryState};
use crate::delivery_search::Recipient;
use crate::device::RetireReason;
use crate::device_event::{DeviceEvent, DeviceEventKind};
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};

impl Store {
    /// All that is stored of a broadcast and the newest devices of a user, or these devices. None where there is no such
    /// broadcast.
    pub async fn explain(&self, id: BroadcastId, recipient: &Recipient) -> Result<Option<Explained>> {
        bounded("explanation", self.read_explanation(id, recipient)).await
    }

    async fn read_explanation(&self, id: BroadcastId, recipient: &Recipient) -> Result<Option<Explained>> {
        let shards = self.shards().await?.list();
        let mut tx = self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let Some(broadcast) = broadcast(&mut tx, id).await? else { return Ok(None) };
        let mut keys = keys(&mut tx, recipient, &shards).await?;
        let more_devices = keys.len() > MOST_DEVICES;
        keys.truncate(MOST_DEVICES);
        let mut devices = devices(&mut tx, &broadcast, &keys).await?;
        failures(&mut tx, &broadcast, &mut devices).await?;
        events(&mut tx, &mut devices).await?;
        replays(&mut tx, &mut devices).await?;
        listed(&mut tx, &broadcast, &mut devices).await?;
        tx.rollback().await?;
        Ok(Some(Explained { broadcast, devices, more_devices }))
    }
}

async fn broadcast(tx: &mut PgConnection, id: BroadcastId) -> Result<Option<ExplainedBroadcast>> {
    let row = sqlx::query_file!("queries/explain_broadcast.sql", id.0).fetch_optional(&mut *tx).await?;
    let Some(row) = row else { return Ok(None) };
    let dropped = sqlx::query_file_scalar!("queries/delivery_dropped.sql", id.0).fetch_optional(tx).await?;
    Ok(Some(ExplainedBroadcast {
        id: row.id,
        state: row.state,
        paused: row.paused,
        created_at: row.created_at,
        expires_at: row.expires_at,
        settled_at: row.settled_at,
        audience: row.audience,
        topics: row.topics,
        replay_of: row.replay_of,
        live_first: row.live_first,
        fan_out_until: row.fan_out_until,
        fan_out_page_at: row.fan_out_page_at,
        dropped: dropped.unwrap_or(false),
        read_at: row.now,
        fan_out: (row.fan_out_provider, row.fan_out_shard, row.fan_out_cursor),
    }))
}

/// One more than are explained, where there are so many.
async fn keys(tx: &mut PgConnection, recipient: &Recipient, shards: &[Shard]) -> Result<Vec<(Shard, i64)>> {
    Ok(match recipient {
        Recipient::User(user) => {
            sqlx::query_file!("queries/explain_devices_user.sql", user, MOST_DEVICES as i64 + 1)
                .fetch_all(tx)
                .await?
                .into_iter()
                .map(|row| (row.shard, row.id))
                .collect()
        }
        Recipient::Devices(ids) => sqlx::query!(
            "SELECT shard, id FROM device WHERE shard = ANY ($1) AND id = ANY ($2) ORDER BY id DESC",
            shards,
            ids as _
        )
        .fetch_all(tx)
        .await?
        .into_iter()
        .map(|row| (row.shard, row.id))
        .collect(),
    })
}

async fn devices(
    tx: &mut PgConnection,
    broadcast: &ExplainedBroadcast,
    keys: &[(Shard, i64)],
) -> Result<Vec<ExplainedDevice>> {
    let (shards, ids): (Vec<_>, Vec<_>) = keys.iter().copied().unzip();
    let rows = sqlx::query_file_as!(
        Row,
        "queries/explain_devices.sql",
        broadcast.id.0,
        &shards,
        &ids,
        &broadcast.topics,
        broadcast.replay_of.map(|id| id.0)
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(ExplainedDevice::from).collect())
}

async fn failures(
    tx: &mut PgConnection,
    broadcast: &ExplainedBroadcast,
    devices: &mut [ExplainedDevice],
) -> Result<()> {
    let shards: Vec<Shard> = devices.iter().map(|d| d.shard).collect();
    let providers: Vec<i16> = devices.iter().map(|d| d.provider_id.0).collect();
    let ids: Vec<i64> = devices.iter().map(|d| d.device.id.0).collect();
    let rows = sqlx::query_file!("queries/explain_failures.sql", broadcast.id.0, &shards, &providers, &ids)
        .fetch_all(tx)
        .await?;
    let mut found: HashMap<DeviceId, Vec<FailedAttempt>> = HashMap::new();
    for row in rows {
        found.entry(row.device).or_default().push(FailedAttempt {
            attempt: row.attempt,
            at: row.at,
            due_at: row.due_at,
            charged: row.charged,
            code: row.code,
            detail: row.detail,
        });
    }
    for device in devices {
        device.failures = found.remove(&device.device.id).unwrap_or_default();
    }
    Ok(())
}

async fn events(tx: &mut PgConnection, devices: &mut [ExplainedDevice]) -> Result<()> {
    let (shards, ids): (Vec<Shard>, Vec<i64>) = devices.iter().map(|d| (d.shard, d.device.id.0)).unzip();
    let rows =
        sqlx::query_file!("queries/explain_events.sql", &shards, &ids, MOST_EVENTS).fetch_all(tx).await?;
    let mut found: HashMap<DeviceId, Vec<DeviceEvent>> = HashMap::new();
    for row in rows {
        found.entry(row.device).or_default().push(DeviceEvent {
            at: row.at,
            kind: row.kind,
            since: row.since,
            code: row.code,
            detail: row.detail,
            broadcast: row.broadcast,
        });
    }
    for device in devices {
        device.events = found.remove(&device.device.id).unwrap_or_default();
    }
    Ok(())
}

/// Follows the replays that took up dead letters, and those that took up what these left dead.
async fn replays(tx: &mut PgConnection, devices: &mut [ExplainedDevice]) -> Result<()> {
    let letter = |d: &ExplainedDevice| d.dead_letter.as_ref().and_then(|letter| letter.replayed_by);
    let mut next: HashMap<DeviceId, BroadcastId> =
        devices.iter().filter_map(|d| Some((d.device.id, letter(d)?))).collect();
    for _ in 0..MOST_REPLAYS {
        if next.is_empty() {
            break;
        }
        let (mut broadcasts, mut shards, mut providers, mut ids) = (vec![], vec![], vec![], vec![]);
        for device in &*devices {
            if let Some(replay) = next.get(&device.device.id) {
                broadcasts.push(replay.0);
                shards.push(device.shard);
                providers.push(device.provider_id.0);
                ids.push(device.device.id.0);
            }
        }
        let rows = sqlx::query_file!("queries/explain_replays.sql", &broadcasts, &shards, &providers, &ids)
            .fetch_all(&mut *tx)
            .await?;
        next.clear();
        for row in rows {
            let delivery = row.state.zip(row.attempts).map(|(state, attempts)| ExplainedDelivery {
                state,
                attempts,
                next_attempt_at: row.next_attempt_at,
                last_code: row.last_code,
                dead_reason: row.dead_reason,
                settled_at: row.settled_at,
            });
            next.extend(row.replayed_by.map(|replay| (row.device, replay)));
            let outcome = ReplayOutcome { broadcast: row.broadcast, state: row.broadcast_state, delivery };
            if let Some(device) = devices.iter_mut().find(|d| d.device.id == row.device) {
                device.replays.push(outcome);
            }
        }
    }
    Ok(())
}

/// Looks into the explicit list, which may be long, only where it decides something.
async fn listed(
    tx: &mut PgConnection,
    broadcast: &ExplainedBroadcast,
    devices: &mut [ExplainedDevice],
) -> Result<()> {
    let explicit = matches!(broadcast.audience, AudienceKind::Users | AudienceKind::Devices);
    let Some(first) = devices.first().filter(|_| explicit) else { return Ok(()) };
    let user = first.device.user_id.clone();
    let ids: Vec<i64> = devices.iter().map(|d| d.device.id.0).collect();
    let found = sqlx::query_file!("queries/explain_listed.sql", broadcast.id.0, &ids, user)
        .fetch_optional(tx)
        .await?;
    let Some(found) = found else { return Ok(()) };
    for device in devices {
        device.listed = Some(match broadcast.audience {
            AudienceKind::Users => found.user,
            _ => found.devices.contains(&device.device.id),
        });
    }
    Ok(())
}
