//! Devices: one registration each of user, provider, token and consent.
//!
//! ```text
//!  live ──▶ retired (requested | replaced | unregistered)
//!   │ ▲        │ unregistered: an operator may undo it
//!   ▼ └────────┘
//!  quarantined ──▶ live: registered again, or restored by an operator
//! ```
//!
//! A retired device does not come back by itself: the same token registered anew is a new device. It has no topics. A quarantined
//! device keeps its topics, is not called, and can be retired like a live one.

use serde::Serialize;
use time::OffsetDateTime;

use crate::connect::Store;
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId};

/// Why a device was retired. Spelled alike in SQL (`retire_reason`) and proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "retire_reason", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum RetireReason {
    /// A caller unregistered it.
    Requested,
    /// Its token was registered for another user, or its installation registered another token.
    Replaced,
    /// The provider answered that the token is no longer registered; the sender wrote this.
    Unregistered,
}

/// A registration as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub id: DeviceId,
    pub user_id: String,
    /// Name of the provider; never changes.
    pub provider: String,
    pub token: String,
    pub installation_id: Option<String>,
    /// Whether it asked to be notified.
    pub consent: bool,
    /// Latest registration of this token.
    pub registered_at: OffsetDateTime,
    /// None while it is live.
    pub retired_at: Option<OffsetDateTime>,
    /// Set with `retired_at`.
    pub retire_reason: Option<RetireReason>,
    /// Where a provider said that the token is gone: in answer to a call for this broadcast, with this code.
    pub retired_by: Option<BroadcastId>,
    pub retire_code: Option<String>,
    /// Set, with the next three, while it is not called because a provider said that token and credentials do not fit together.
    pub quarantined_at: Option<OffsetDateTime>,
    pub quarantine_code: Option<String>,
    pub quarantine_detail: Option<String>,
    pub quarantined_by: Option<BroadcastId>,
    /// In alphabetical order; empty in lists, which do not read them.
    pub topics: Vec<String>,
}

/// One device, named by what a caller knows.
#[derive(Debug, Clone)]
pub enum DeviceName {
    Id(DeviceId),
    /// The live one with this token.
    Token(ProviderId, String),
}

/// Whose consent.
#[derive(Debug, Clone)]
pub enum ConsentOf {
    Device(DeviceId),
    /// All live devices of this user.
    User(String),
}

/// In which states devices are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceStates {
    /// Not retired: live or quarantined.
    #[default]
    Registered,
    All,
    /// Neither retired nor quarantined.
    Live,
    /// Not retired.
    Quarantined,
    Retired,
}

impl DeviceStates {
    /// The count of NULLs in `retired_at` and in `quarantined_at` that a device must not have; 2: it may have any.
    fn excluded(self) -> (i32, i32) {
        match self {
            Self::Registered => (0, 2),
            Self::All => (2, 2),
            Self::Live => (0, 0),
            Self::Quarantined => (0, 1),
            Self::Retired => (1, 2),
        }
    }
}

/// Which devices to list, in order of id.
#[derive(Debug, Clone, Default)]
pub struct DeviceFilter {
    pub user_id: Option<String>,
    /// Name of a provider.
    pub provider: Option<String>,
    pub topic: Option<String>,
    pub states: DeviceStates,
    /// Only those after this one: the last of the page before.
    pub after: Option<DeviceId>,
    /// Rows at most.
    pub limit: i64,
}

impl Store {
    /// One device, live or retired, with its topics.
    pub async fn device(&self, id: DeviceId) -> Result<Option<Device>> {
        let shards = self.shards().await?.list();
        let device = sqlx::query_file_as!(Device, "queries/device_get.sql", &shards, id as _)
            .fetch_optional(&self.pool)
            .await?;
        Ok(device)
    }

    /// Retires a device at a caller's request; one that is retired already stays as it is. None where there is no such
    /// device.
    pub async fn unregister(&self, name: &DeviceName) -> Result<Option<Device>> {
        let id = match name {
            DeviceName::Id(id) => *id,
            DeviceName::Token(provider, token) => match self.live_device(*provider, token).await? {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        let shards = self.shards().await?.list();
        sqlx::query_file!("queries/device_unregister.sql", &shards, id as _).execute(&self.pool).await?;
        self.device(id).await
    }

    /// Sets consent; returns for how many devices it now holds. 0: there is no such device, or the user has none.
    pub async fn set_consent(&self, of: &ConsentOf, consent: bool) -> Result<i64> {
        let shards = self.shards().await?.list();
        let devices = match of {
            ConsentOf::Device(id) => {
                sqlx::query_file_scalar!("queries/device_set_consent.sql", &shards, id.0, consent)
                    .fetch_one(&self.pool)
                    .await?
            }
            ConsentOf::User(user_id) => {
                sqlx::query_file_scalar!("queries/device_set_user_consent.sql", &shards, user_id, consent)
                    .fetch_one(&self.pool)
                    .await?
            }
        };
        Ok(devices)
    }

    /// A page of devices.
    pub async fn list_devices(&self, filter: &DeviceFilter) -> Result<Vec<Device>> {
        let DeviceFilter { user_id, provider, topic, states, after, limit } = filter;
        let shards = self.shards().await?.list();
        let (provider, after) = (provider.as_deref(), after.unwrap_or(DeviceId(0)).0);
        let (retired, quarantined) = states.excluded();
        // One statement per index that finds the page, so that each has one good plan.
        let devices = match (user_id, topic) {
            (Some(user_id), topic) => {
                sqlx::query_file_as!(
                    Device,
                    "queries/device_list_user.sql",
                    user_id,
                    after,
                    retired,
                    quarantined,
                    provider,
                    limit,
                    topic.as_deref()
                )
                .fetch_all(&self.pool)
                .await?
            }
            (None, Some(topic)) => {
                sqlx::query_file_as!(
                    Device,
                    "queries/device_list_topic.sql",
                    &shards,
                    after,
                    retired,
                    quarantined,
                    provider,
                    limit,
                    topic
                )
                .fetch_all(&self.pool)
                .await?
            }
            (None, None) if *states == DeviceStates::Quarantined => {
                sqlx::query_file_as!(
                    Device,
                    "queries/device_list_quarantined.sql",
                    &shards,
                    after,
                    provider,
                    limit
                )
                .fetch_all(&self.pool)
                .await?
            }
            (None, None) if *states == DeviceStates::Retired => {
                sqlx::query_file_as!(
                    Device,
                    "queries/device_list_retired.sql",
                    &shards,
                    after,
                    provider,
                    limit
                )
                .fetch_all(&self.pool)
                .await?
            }
            (None, None) => {
                sqlx::query_file_as!(
                    Device,
                    "queries/device_list.sql",
                    &shards,
                    after,
                    retired,
                    quarantined,
                    provider,
                    limit
                )
                .fetch_all(&self.pool)
                .await?
            }
        };
        Ok(devices)
    }

    async fn live_device(&self, provider: ProviderId, token: &str) -> Result<Option<DeviceId>> {
        let shard = self.shards().await?.of(provider, token);
        let id = sqlx::query_scalar!(
            r#"SELECT id AS "id: DeviceId" FROM device
               WHERE shard = $1 AND provider_id = $2 AND token = $3 AND retired_at IS NULL"#,
            shard,
            provider as _,
            token
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(id)
    }
}
