//! Whom a broadcast would reach now, and what stands in the way: read before it is sent, without disturbing who sends.
//!
//! What is counted is bounded. A large audience is estimated from windows of device ids, spread evenly over all there are: that
//! needs no statistics, and takes as long for ten million devices as for one.

use std::collections::HashMap;

use crate::broadcast::Audience;
use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::{DeviceId, ProviderId};
use crate::pace::positive;

/// Devices of a provider that are counted one by one.
const EXACT_DEVICES: i64 = 100_000;
/// Above that, so many windows of so many ids are counted.
const WINDOWS: i64 = 100;
const WINDOW_IDS: i64 = 1_000;
/// Of a longer list so many are looked up, spread evenly over it.
const LOOKED_UP: usize = 20_000;

/// Whom a broadcast would reach now.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// In order of name.
    pub providers: Vec<ProviderForecast>,
    /// Whether numbers of devices, or of those without one, are estimates.
    pub estimated: bool,
    /// Entries of an explicit list for which there is no device to call.
    pub without_device: i64,
    /// Topics that no device is subscribed to.
    pub empty_topics: Vec<String>,
    /// Senders heard of lately; `None` where there is no provider to send to.
    pub senders: Option<i64>,
}

/// What it would come to at a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderForecast {
    pub name: String,
    /// As the database spells it.
    pub kind: String,
    pub devices: i64,
    pub parked: bool,
    pub held: bool,
    /// Whether a sender that lives has it; `None` where that is not known.
    pub served: Option<bool>,
    /// Calls within a second at most.
    pub rate_per_second: Option<u32>,
    /// Calls in a second, as it was lately.
    pub recent_per_second: Option<f64>,
}

#[derive(Debug, Default)]
struct Counted {
    devices: HashMap<ProviderId, i64>,
    estimated: bool,
    without_device: i64,
}

impl Store {
    /// Whom a broadcast to this audience would reach now.
    pub async fn forecast(&self, audience: &Audience) -> Result<Forecast> {
        bounded("forecast", async {
            let shards = self.shards().await?.list();
            let counted = match audience {
                Audience::Everyone => self.count_spread(&shards, &[]).await?,
                Audience::Topics(topics) => self.count_spread(&shards, topics).await?,
                Audience::Users(users) => {
                    let looked_up = evenly(users, LOOKED_UP);
                    self.count_listed(&shards, &looked_up, &[], users.len()).await?
                }
                Audience::Devices(devices) => {
                    let looked_up: Vec<i64> =
                        evenly(devices, LOOKED_UP).into_iter().map(|DeviceId(id)| id).collect();
                    self.count_listed(&shards, &[], &looked_up, devices.len()).await?
                }
            };
            let empty_topics = match audience {
                Audience::Topics(topics) => {
                    sqlx::query_file_scalar!("queries/preflight_topics_empty.sql", &shards, topics)
                        .fetch_all(&self.pool)
                        .await?
                }
                _ => vec![],
            };
            let rows = sqlx::query_file!("queries/preflight_providers.sql").fetch_all(&self.pool).await?;
            let senders = rows.first().map(|row| row.senders);
            let providers = rows.into_iter().map(|row| ProviderForecast {
                devices: counted.devices.get(&row.id).copied().unwrap_or(0),
                name: row.name,
                kind: row.kind,
                parked: row.parked,
                held: row.held,
                served: row.served,
                rate_per_second: positive(row.rate_per_second),
                recent_per_second: row.recent_per_second,
            });
            Ok(Forecast {
                providers: providers.collect(),
                estimated: counted.estimated,
                without_device: counted.without_device,
                empty_topics,
                senders,
            })
        })
        .await
    }

    /// Everyone, or the subscribers of `topics`.
    async fn count_spread(&self, shards: &[i16], topics: &[String]) -> Result<Counted> {
        let most = (EXACT_DEVICES / i64::try_from(shards.len()).unwrap_or(1).max(1)).max(1);
        let (devices, more) = self.count_windows(shards, topics, &[0], i64::MAX / 2, most).await?;
        if !more {
            return Ok(Counted { devices, ..Counted::default() });
        }
        let last = sqlx::query_scalar!(r#"SELECT last_value AS "last!" FROM device_id_seq"#)
            .fetch_one(&self.pool)
            .await?;
        let apart = (last / WINDOWS).max(WINDOW_IDS);
        let windows: Vec<i64> = (0..WINDOWS).map(|n| n * apart).collect();
        let (devices, _) = self.count_windows(shards, topics, &windows, WINDOW_IDS, i64::MAX).await?;
        let scale = apart as f64 / WINDOW_IDS as f64;
        let devices = devices.into_iter().map(|(id, n)| (id, (n as f64 * scale) as i64)).collect();
        Ok(Counted { devices, estimated: true, without_device: 0 })
    }

    /// Devices by provider in these windows of ids, and whether there are perhaps more.
    async fn count_windows(
        &self,
        shards: &[i16],
        topics: &[String],
        after: &[i64],
        ids: i64,
        most: i64,
    ) -> Result<(HashMap<ProviderId, i64>, bool)> {
        let rows: Vec<(ProviderId, i64, bool)> = if topics.is_empty() {
            sqlx::query_file!("queries/preflight_everyone.sql", shards, after, ids, most)
                .fetch_all(&self.pool)
                .await?
                .into_iter()
                .map(|row| (row.provider, row.devices, row.more))
                .collect()
        } else {
            sqlx::query_file!("queries/preflight_topics.sql", shards, after, ids, most, topics)
                .fetch_all(&self.pool)
                .await?
                .into_iter()
                .map(|row| (row.provider, row.devices, row.more))
                .collect()
        };
        let more = rows.iter().any(|(.., more)| *more);
        Ok((rows.into_iter().map(|(id, devices, _)| (id, devices)).collect(), more))
    }

    /// An explicit list of `listed` entries, of which these are looked up.
    async fn count_listed(
        &self,
        shards: &[i16],
        users: &[String],
        devices: &[i64],
        listed: usize,
    ) -> Result<Counted> {
        let rows = sqlx::query_file!("queries/preflight_listed.sql", shards, users, devices)
            .fetch_all(&self.pool)
            .await?;
        let looked_up = (users.len() + devices.len()).max(1);
        let scale = listed as f64 / looked_up as f64;
        let scaled = |n: i64| (n as f64 * scale).round() as i64;
        let reached = rows.first().map_or(0, |row| row.reached);
        let without = i64::try_from(users.len() + devices.len()).unwrap_or(i64::MAX) - reached;
        Ok(Counted {
            devices: rows.iter().map(|row| (row.provider, scaled(row.devices))).collect(),
            estimated: looked_up < listed,
            without_device: scaled(without),
        })
    }
}

/// At most so many of the list, spread evenly over it.
fn evenly<T: Clone>(list: &[T], most: usize) -> Vec<T> {
    if list.len() <= most {
        return list.to_vec();
    }
    (0..most).map(|n| list[n * list.len() / most].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_looked_at_from_its_beginning_to_its_end() {
        let list: Vec<i32> = (0..100_000).collect();
        let some = evenly(&list, LOOKED_UP);
        assert_eq!((some.len(), some[0], some[LOOKED_UP - 1]), (LOOKED_UP, 0, 99_995));
        assert_eq!(evenly(&list[..3], LOOKED_UP), [0, 1, 2]);
    }
}
