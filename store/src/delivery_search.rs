//! Lists of deliveries. There is no index but the primary key, so what few rows match is looked for in steps of bounded length, and
//! each says where the next begins.

use time::OffsetDateTime;

use crate::answers::{Delivery, DeliveryFilter};
use crate::connect::{Store, bounded};
use crate::delivery::{DeadReason, DeliveryState};
use crate::error::Result;
use crate::ids::{DeviceId, ProviderId};

/// Deliveries that one step looks at, where it is to find some among them: about 20 milliseconds.
pub const SEARCH_STEP: i64 = 20_000;

/// Whose deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    User(String),
    Devices(Vec<DeviceId>),
}

/// Which deliveries of a broadcast to look for, beside what the filter says.
#[derive(Debug, Clone)]
pub struct DeliverySearch {
    pub filter: DeliveryFilter,
    pub recipient: Option<Recipient>,
    /// Empty: any, none included.
    pub reasons: Vec<DeadReason>,
    /// Exactly this code of the last failed attempt.
    pub code: Option<String>,
    /// Settled not before.
    pub settled_from: Option<OffsetDateTime>,
    /// Settled before.
    pub settled_to: Option<OffsetDateTime>,
}

/// What one step found.
#[derive(Debug, Clone, Default)]
pub struct DeliveryPage {
    pub deliveries: Vec<Delivery>,
    /// After which the next step begins; `None` after the last one. There may be one although nothing was found.
    pub next: Option<(ProviderId, DeviceId)>,
}

impl From<DeliveryFilter> for DeliverySearch {
    fn from(filter: DeliveryFilter) -> Self {
        Self { filter, recipient: None, reasons: vec![], code: None, settled_from: None, settled_to: None }
    }
}

impl DeliverySearch {
    /// Whether a delivery may not match.
    fn narrows(&self) -> bool {
        !self.filter.states.is_empty()
            || !self.reasons.is_empty()
            || self.code.is_some()
            || self.settled_from.is_some()
            || self.settled_to.is_some()
    }

    /// After which key to begin, and the last provider.
    fn range(&self) -> ((ProviderId, DeviceId), ProviderId) {
        let after = self.filter.after.unwrap_or((ProviderId(0), DeviceId(0)));
        match self.filter.provider {
            Some(provider) => (after.max((provider, DeviceId(0))), provider),
            None => (after, ProviderId(i16::MAX)),
        }
    }
}

impl Store {
    /// The first deliveries that match, up to the filter's limit, in as many steps as that takes.
    pub async fn list_deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<Delivery>> {
        let mut search = DeliverySearch::from(filter.clone());
        let mut found = vec![];
        loop {
            let page = self.search_deliveries(&search).await?;
            found.extend(page.deliveries);
            search.filter.limit = filter.limit - found.len() as i64;
            search.filter.after = page.next;
            if page.next.is_none() || search.filter.limit <= 0 {
                return Ok(found);
            }
        }
    }

    /// One step: those that match among the next [`SEARCH_STEP`] deliveries, or all of the recipient's.
    pub async fn search_deliveries(&self, search: &DeliverySearch) -> Result<DeliveryPage> {
        match &search.recipient {
            Some(recipient) => bounded("list of deliveries", self.of_recipient(search, recipient)).await,
            None => bounded("list of deliveries", self.of_broadcast(search)).await,
        }
    }

    async fn of_broadcast(&self, search: &DeliverySearch) -> Result<DeliveryPage> {
        let DeliverySearch { filter, reasons, code, settled_from, settled_to, .. } = search;
        let ((provider, device), last) = search.range();
        let step = if search.narrows() { SEARCH_STEP.max(filter.limit) } else { filter.limit };
        let shards = self.shards().await?.list();
        let rows = sqlx::query_file!(
            "queries/delivery_list.sql",
            filter.broadcast.0,
            &shards,
            provider.0,
            device.0,
            last.0,
            &filter.states as _,
            reasons as _,
            code.as_deref(),
            *settled_from,
            *settled_to,
            step,
            filter.limit
        )
        .fetch_all(&self.pool)
        .await?;
        let end = rows
            .first()
            .filter(|row| row.looked_at >= step)
            .and_then(|row| row.end_provider.zip(row.end_device));
        let deliveries: Vec<Delivery> = rows
            .into_iter()
            .filter_map(|row| {
                Some(Delivery {
                    provider_id: row.provider_id?,
                    provider: row.provider?,
                    device: row.device?,
                    state: row.state?,
                    attempts: row.attempts?,
                    next_attempt_at: row.next_attempt_at,
                    last_code: row.last_code,
                    dead_reason: row.dead_reason,
                    settled_at: row.settled_at,
                    user_id: row.user_id,
                })
            })
            .collect();
        // A full page ends before the step does.
        let next = full_page(&deliveries, filter.limit).or(end);
        Ok(DeliveryPage { deliveries, next })
    }

    async fn of_recipient(&self, search: &DeliverySearch, recipient: &Recipient) -> Result<DeliveryPage> {
        let DeliverySearch { filter, reasons, code, settled_from, settled_to, .. } = search;
        let ((provider, device), last) = search.range();
        let (user, devices) = match recipient {
            Recipient::User(user) => (Some(user.as_str()), vec![]),
            Recipient::Devices(devices) => (None, devices.iter().map(|id| id.0).collect()),
        };
        let shards = self.shards().await?.list();
        let deliveries = sqlx::query_file_as!(
            Delivery,
            "queries/delivery_list_devices.sql",
            filter.broadcast.0,
            &shards,
            provider.0,
            device.0,
            last.0,
            &filter.states as _,
            reasons as _,
            code.as_deref(),
            *settled_from,
            *settled_to,
            user,
            &devices,
            filter.limit
        )
        .fetch_all(&self.pool)
        .await?;
        let next = full_page(&deliveries, filter.limit);
        Ok(DeliveryPage { deliveries, next })
    }
}

fn full_page(deliveries: &[Delivery], limit: i64) -> Option<(ProviderId, DeviceId)> {
    let full = deliveries.len() as i64 >= limit;
    deliveries.last().filter(|_| full).map(|last| (last.provider_id, last.device))
}
