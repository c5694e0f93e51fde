//! Providers: the configured ways out.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::ProviderId;

/// Which protocol a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// HTTP POST of JSON to one URL.
    Webhook,
    /// Firebase Cloud Messaging, HTTP v1.
    Fcm,
    /// Apple Push Notification service.
    Apns,
    /// RFC 8030, to whatever push service a browser has chosen.
    WebPush,
}

impl ProviderKind {
    /// Spelling in the database and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Fcm => "fcm",
            Self::Apns => "apns",
            Self::WebPush => "webpush",
        }
    }

    /// The most bytes that an encoded notification may have.
    pub fn max_notification_bytes(self) -> usize {
        match self {
            Self::Webhook => 65_536,
            Self::Fcm | Self::Apns => 4_096,
            // Push services take 4,096 bytes at least (RFC 8030, section 7.2): 86 are the header of the encryption, 16 its tag,
            // one ends the padding (RFC 8188, RFC 8291).
            Self::WebPush => 4_096 - 86 - 16 - 1,
        }
    }

    /// All of them.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::Fcm, Self::Apns, Self::WebPush];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A configured way out under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub id: ProviderId,
    pub name: String,
    pub kind: ProviderKind,
}

/// A provider with what its senders agree on.
#[derive(Debug, Clone)]
pub struct ProviderInfo {
    pub id: ProviderId,
    pub name: String,
    /// As the database spells it: a newer version may know more kinds.
    pub kind: String,
    /// Until when it asked to be left alone.
    pub held_until: Option<OffsetDateTime>,
    /// Set with the next four while it is parked.
    pub parked_since: Option<OffsetDateTime>,
    pub parked_code: Option<String>,
    pub parked_detail: Option<String>,
    /// When the next probe is due, and how many failed.
    pub probe_at: Option<OffsetDateTime>,
    pub probes_failed: i32,
    /// Parked because it called so many tokens gone that it is not believed.
    pub doubted: bool,
    /// Parked by an operator, until an operator unparks it.
    pub by_hand: bool,
}

impl Store {
    /// Every provider known, with its state, in order of name.
    pub async fn list_providers(&self) -> Result<Vec<ProviderInfo>> {
        let reading = sqlx::query_file_as!(ProviderInfo, "queries/provider_list.sql").fetch_all(&self.pool);
        bounded("list of providers", async { Ok(reading.await?) }).await
    }

    /// Every provider known, in order of name. One of a kind that this program does not know is left out.
    pub async fn providers(&self) -> Result<Vec<Provider>> {
        let reading =
            sqlx::query!(r#"SELECT id AS "id: ProviderId", name, kind FROM provider ORDER BY name"#)
                .fetch_all(&self.pool);
        let rows = bounded("read of providers", async { Ok(reading.await?) }).await?;
        Ok(rows
            .into_iter()
            .filter_map(|r| {
                Some(Provider { id: r.id, name: r.name, kind: ProviderKind::from_name(&r.kind)? })
            })
            .collect())
    }

    /// Makes a configured provider known to all processes, or finds it. `None` where the name stands for another kind.
    pub async fn register_provider(&self, name: &str, kind: ProviderKind) -> Result<Option<ProviderId>> {
        sqlx::query!(
            "INSERT INTO provider (name, kind) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
            name,
            kind.name()
        )
        .execute(&self.pool)
        .await?;
        let id = sqlx::query_scalar!(
            r#"SELECT id AS "id: ProviderId" FROM provider WHERE name = $1 AND kind = $2"#,
            name,
            kind.name()
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(id)
    }

    /// No call to this provider starts within the next `pause`; a longer pause that holds already stays.
    pub async fn hold_provider(&self, id: ProviderId, pause: Duration) -> Result<()> {
        let holding = sqlx::query!(
            "UPDATE provider SET held_until = greatest(held_until, now() + $2::float8 * interval '1 second') WHERE id = $1",
            id.0,
            pause.as_secs_f64()
        )
        .execute(&self.pool);
        bounded("hold", async {
            holding.await?;
            Ok(())
        })
        .await
    }
}
