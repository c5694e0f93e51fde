//! Devices that a provider's answer says are of no use: retired or quarantined, with the evidence.

use std::fmt;

use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, Shard};
use crate::text::{CODE_BYTES, DETAIL_BYTES, printable};

/// What becomes of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The provider said that its token is gone.
    Retired,
    /// The provider said that its token and our credentials do not fit together, in these words.
    Quarantined { detail: String },
}

/// A registration that is not to be called again, and why. It holds only where the device still has this token, and has not
/// registered since.
#[derive(Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The device's, and so that of its batch.
    pub shard: Shard,
    pub device: DeviceId,
    pub token: String,
    pub registered_at: OffsetDateTime,
    /// The broadcast whose call was answered so.
    pub broadcast: BroadcastId,
    pub code: String,
    pub fate: Fate,
}

// Without the token.
impl fmt::Debug for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} is {:?} by {} for {}", self.device, self.fate, self.broadcast, self.code)
    }
}

pub(super) async fn record(tx: &mut PgConnection, shard: Shard, unfit: &[Unfit]) -> Result<()> {
    // In order of id, like everything that takes several rows.
    let mut unfit: Vec<&Unfit> = unfit.iter().collect();
    unfit.sort_unstable_by_key(|unfit| unfit.device);
    let (retired, quarantined): (Vec<_>, Vec<_>) =
        unfit.into_iter().partition(|unfit| unfit.fate == Fate::Retired);
    if !retired.is_empty() {
        let Columns { ids, tokens, registered, broadcasts, codes } = Columns::of(&retired);
        sqlx::query_file!(
            "queries/device_retire_unregistered.sql",
            shard,
            &ids,
            &tokens as _,
            &registered,
            &broadcasts,
            &codes
        )
        .execute(&mut *tx)
        .await?;
    }
    if !quarantined.is_empty() {
        let details: Vec<String> = quarantined
            .iter()
            .map(|unfit| match &unfit.fate {
                Fate::Quarantined { detail } => printable(detail, DETAIL_BYTES),
                Fate::Retired => String::new(),
            })
            .collect();
        let Columns { ids, tokens, registered, broadcasts, codes } = Columns::of(&quarantined);
        sqlx::query_file!(
            "queries/device_quarantine.sql",
            shard,
            &ids,
            &tokens as _,
            &registered,
            &broadcasts,
            &codes,
            &details
        )
        .execute(tx)
        .await?;
    }
    Ok(())
}

/// What both statements are told.
struct Columns<'a> {
    ids: Vec<i64>,
    tokens: Vec<&'a str>,
    registered: Vec<OffsetDateTime>,
    broadcasts: Vec<i64>,
    codes: Vec<String>,
}

impl<'a> Columns<'a> {
    fn of(unfit: &[&'a Unfit]) -> Self {
        Self {
            ids: unfit.iter().map(|unfit| unfit.device.0).collect(),
            tokens: unfit.iter().map(|unfit| unfit.token.as_str()).collect(),
            registered: unfit.iter().map(|unfit| unfit.registered_at).collect(),
            broadcasts: unfit.iter().map(|unfit| unfit.broadcast.0).collect(),
            codes: unfit.iter().map(|unfit| printable(&unfit.code, CODE_BYTES)).collect(),
        }
    }
}
