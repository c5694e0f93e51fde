//! The statements of a registration, shard by shard and in that order, so that two registrations wait for each other in one
//! direction only.
//!
//! A token has one shard, and the index there lets one device of it live. An installation may change its token, and with it
//! the shard: where there are several, registrations of the same installation are let in one after the other by a lock.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use crate::device_event::note_refreshed;
use crate::device_plan::{Chunk, NewDevice, Plan, Standing, plan};
use crate::device_register::{Failed, Imported, Registration};
use crate::ids::{DeviceId, ProviderId, Shard};
use crate::shards::{Shards, by_shard};

/// Locks that all installations share: as many as 10,000 rows at a time may take without filling the server's table of locks.
const INSTALLATION_LOCKS: u16 = 256;

/// The devices a chunk ended up with.
pub(crate) type Devices<'a> = HashMap<(ProviderId, &'a str), DeviceId>;

/// Does what a chunk asks for.
pub(crate) async fn carry_out<'a>(
    tx: &mut PgConnection,
    chunk: &Chunk<'a>,
    shards: Shards,
) -> Result<(Imported, Devices<'a>), Failed> {
    if shards != Shards(1) {
        lock_installations(tx, chunk).await?;
    }
    let (standing, places) = lock_standing(tx, chunk, shards).await?;
    let plan = plan(chunk, &standing);
    retire(tx, &plan, &places).await?;
    note_refreshed(tx, &plan, &standing, |id| places.of(id)).await?;
    refresh(tx, &plan, &places).await?;
    let mut devices: Devices<'a> = plan.refresh.iter().map(|(id, row)| (row.token_key(), *id)).collect();
    insert(tx, &plan.insert, shards, &mut devices).await?;
    inherit_topics(tx, &plan, shards, &places, &devices).await?;
    add_topics(tx, chunk, shards, &devices).await?;
    let imported = Imported {
        created: plan.insert.len(),
        refreshed: plan.refresh.len(),
        superseded: chunk.superseded,
        retired: plan.retire.len(),
    };
    Ok((imported, devices))
}

/// Where the devices are that stand in the way of a chunk.
struct Places(HashMap<DeviceId, Shard>);

impl Places {
    fn of(&self, id: DeviceId) -> Shard {
        self.0.get(&id).copied().unwrap_or_default()
    }
}

/// Waits for whoever registers one of the same installations. In order of the locks' numbers.
async fn lock_installations(tx: &mut PgConnection, chunk: &Chunk<'_>) -> Result<(), sqlx::Error> {
    let slots: BTreeSet<i32> = chunk
        .installations()
        .map(|(provider, installation)| {
            let hash =
                Sha256::new().chain_update(format!("{provider}:")).chain_update(installation).finalize();
            i32::from(u16::from(hash[0]) % INSTALLATION_LOCKS)
        })
        .collect();
    if slots.is_empty() {
        return Ok(());
    }
    let slots: Vec<i32> = slots.into_iter().collect();
    sqlx::query!(
        "SELECT count(pg_advisory_xact_lock(hashtext('bongsu:installation'), slot)) FROM unnest($1::int[]) AS slot",
        &slots
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Returns them in order of id.
async fn lock_standing(
    tx: &mut PgConnection,
    chunk: &Chunk<'_>,
    shards: Shards,
) -> Result<(Vec<Standing>, Places), sqlx::Error> {
    let (providers, installations): (Vec<_>, Vec<_>) = chunk.installations().map(|(p, i)| (p.0, i)).unzip();
    let mut tokens = by_shard(chunk.tokens(), |(provider, token)| shards.of(*provider, token));
    let (mut standing, mut places) = (vec![], HashMap::new());
    for shard in shards.all() {
        let tokens = tokens.remove(&shard).unwrap_or_default();
        if tokens.is_empty() && installations.is_empty() {
            continue;
        }
        let (token_providers, tokens): (Vec<_>, Vec<_>) = tokens.into_iter().map(|(p, t)| (p.0, t)).unzip();
        let found = sqlx::query_file_as!(
            Standing,
            "queries/device_lock.sql",
            shard,
            &token_providers,
            &tokens as _,
            &providers,
            &installations as _
        )
        .fetch_all(&mut *tx)
        .await?;
        places.extend(found.iter().map(|device| (device.id, shard)));
        standing.extend(found);
    }
    standing.sort_unstable_by_key(|device| device.id);
    Ok((standing, Places(places)))
}

async fn retire(tx: &mut PgConnection, plan: &Plan<'_>, places: &Places) -> Result<(), sqlx::Error> {
    for (shard, ids) in by_shard(plan.retire.iter().copied(), |id| places.of(*id)) {
        sqlx::query_file!("queries/device_retire.sql", shard, &ids as _).execute(&mut *tx).await?;
    }
    for (shard, ids) in by_shard(plan.vacate.iter().copied(), |id| places.of(*id)) {
        sqlx::query_file!("queries/device_vacate.sql", shard, &ids as _).execute(&mut *tx).await?;
    }
    Ok(())
}

async fn refresh(tx: &mut PgConnection, plan: &Plan<'_>, places: &Places) -> Result<(), sqlx::Error> {
    for (shard, devices) in by_shard(&plan.refresh, |(id, _)| places.of(*id)) {
        let ids: Vec<DeviceId> = devices.iter().map(|(id, _)| *id).collect();
        let consents: Vec<Option<bool>> = devices.iter().map(|(_, row)| row.consent).collect();
        let installations: Vec<Option<&str>> =
            devices.iter().map(|(_, row)| row.installation_id.as_deref()).collect();
        sqlx::query_file!(
            "queries/device_refresh.sql",
            shard,
            &ids as _,
            &consents as _,
            &installations as _
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Makes the new devices and adds them to `devices`.
async fn insert<'a>(
    tx: &mut PgConnection,
    new: &[NewDevice<'a>],
    shards: Shards,
    devices: &mut Devices<'a>,
) -> Result<(), Failed> {
    for (shard, new) in by_shard(new, |new| place(shards, new.registration)) {
        let rows = || new.iter().map(|new| new.registration);
        let providers: Vec<i16> = rows().map(|row| row.provider_id.0).collect();
        let tokens: Vec<&str> = rows().map(|row| row.token.as_str()).collect();
        let users: Vec<&str> = rows().map(|row| row.user_id.as_str()).collect();
        let installations: Vec<Option<&str>> = rows().map(|row| row.installation_id.as_deref()).collect();
        let consents: Vec<bool> = new.iter().map(|new| new.consent).collect();
        let made = sqlx::query_file!(
            "queries/device_insert.sql",
            shard,
            &providers,
            &tokens as _,
            &users as _,
            &installations as _,
            &consents,
            shards.0
        )
        .fetch_all(&mut *tx)
        .await?;
        if made.is_empty() {
            return Err(Failed::OtherShards);
        }
        let ids: HashMap<_, _> =
            made.iter().map(|made| ((made.provider_id, made.token.as_str()), made.id)).collect();
        devices.extend(rows().filter_map(|row| Some((row.token_key(), *ids.get(&row.token_key())?))));
    }
    Ok(())
}

fn place(shards: Shards, row: &Registration) -> Shard {
    shards.of(row.provider_id, &row.token)
}

/// Hands the topics of replaced devices on where the user is the same, and takes them away.
async fn inherit_topics(
    tx: &mut PgConnection,
    plan: &Plan<'_>,
    shards: Shards,
    places: &Places,
    devices: &Devices<'_>,
) -> Result<(), sqlx::Error> {
    let (mut from, mut ancestors, mut to, mut heirs) = (vec![], vec![], vec![], vec![]);
    for new in &plan.insert {
        let Some(heir) = devices.get(&new.registration.token_key()) else { continue };
        for ancestor in &new.ancestors {
            from.push(places.of(*ancestor));
            ancestors.push(*ancestor);
            to.push(place(shards, new.registration));
            heirs.push(*heir);
        }
    }
    if !ancestors.is_empty() {
        sqlx::query_file!("queries/topic_inherit.sql", &from, &ancestors as _, &to, &heirs as _)
            .execute(&mut *tx)
            .await?;
    }
    for (shard, retired) in by_shard(plan.retire.iter().copied(), |id| places.of(*id)) {
        sqlx::query!(
            "DELETE FROM device_topic WHERE shard = $1 AND device_id = ANY ($2)",
            shard,
            &retired as _
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

async fn add_topics(
    tx: &mut PgConnection,
    chunk: &Chunk<'_>,
    shards: Shards,
    devices: &Devices<'_>,
) -> Result<(), sqlx::Error> {
    let with_topics = chunk.rows.iter().copied().filter(|row| !row.topics.is_empty());
    for (shard, rows) in by_shard(with_topics, |row| place(shards, row)) {
        let (mut topics, mut providers, mut ids) = (vec![], vec![], vec![]);
        for row in rows {
            let Some(id) = devices.get(&row.token_key()) else { continue };
            for topic in &row.topics {
                topics.push(topic.as_str());
                providers.push(row.provider_id.0);
                ids.push(*id);
            }
        }
        sqlx::query_file!("queries/topic_add.sql", shard, &topics as _, &providers, &ids as _)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}
