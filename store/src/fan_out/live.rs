//! What a page of fan-out puts into inboxes: an event for each user of its devices who has none yet, however many devices,
//! providers and pages there are. Last come users who have no device of the audience: of everyone, whoever was ever connected, and
//! all that are listed.

use sqlx::PgConnection;

use super::Page;
use crate::broadcast::AudienceKind;
use crate::error::Result;
use crate::ids::ProviderId;
use crate::live::{self, Told, UserNo};

/// Devices, or users, in one page that makes events: each user is locked until it is committed, and with them whatever else is
/// for them.
pub(crate) const PAGE_DEVICES: i64 = 2_000;
/// Where the cursor stands behind the last provider, and goes through users.
const THE_REST: ProviderId = ProviderId(i16::MAX);

impl Page {
    /// Whether devices are looked for: once the cursor goes through users, not any more.
    pub(super) fn has_devices_left(&self) -> bool {
        // Those listed get their events below, whatever devices they have.
        let listed_alone = !self.pushes && self.kind == AudienceKind::Users;
        self.provider != THE_REST && (self.pushes || self.events) && !listed_alone
    }

    /// Makes events for the users of the page's devices.
    pub(super) async fn tell_owners(&self, tx: &mut PgConnection) -> Result<Told> {
        let users = sqlx::query_file_scalar!(
            "queries/fan_out_users.sql",
            self.broadcast.0,
            self.kind as _,
            self.shard,
            self.provider.0,
            self.after,
            self.to,
            self.until,
            &self.topics
        )
        .fetch_all(&mut *tx)
        .await?;
        live::make_unseen(tx, self.broadcast, &users).await
    }

    /// Makes events for the next users of the audience, with or without a device. None where nobody is left.
    pub(super) async fn tell_the_rest(&mut self, tx: &mut PgConnection) -> Result<Option<Told>> {
        if !self.events {
            return Ok(None);
        }
        if self.provider != THE_REST {
            (self.provider, self.shard, self.after, self.to, self.rank) = (THE_REST, 0, 0, 0, 0);
        }
        let (to, users) = match self.kind {
            AudienceKind::Everyone => {
                let known = sqlx::query_file!("queries/live_known_users.sql", self.after, PAGE_DEVICES)
                    .fetch_all(&mut *tx)
                    .await?;
                let last = known.last().map(|user| user.id.0);
                (last, known.into_iter().map(|user| user.user_id).collect())
            }
            AudienceKind::Users => {
                let row = sqlx::query_file!("queries/live_listed_users.sql", self.broadcast.0, self.after)
                    .fetch_optional(&mut *tx)
                    .await?;
                row.map_or((None, vec![]), |row| (Some(row.ordinal), row.user_ids))
            }
            AudienceKind::Topics | AudienceKind::Devices | AudienceKind::DeadLetters => (None, vec![]),
        };
        let Some(to) = to else { return Ok(None) };
        self.to = to;
        Ok(Some(live::make_unseen(tx, self.broadcast, &users).await?))
    }
}
