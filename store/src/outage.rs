//! Parking providers that fail as a whole, and probing whether they work again. Senders agree on it here.

use std::time::Duration;

use time::OffsetDateTime;

use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::ProviderId;
use crate::text::{CODE_BYTES, DETAIL_BYTES, printable};

/// The code of a provider that is parked because it called so many tokens gone.
const MASS_INVALIDATION: &str = "mass_invalidation";
/// The code of a provider that an operator has parked.
const BY_HAND: &str = "by_hand";

/// The right to try, for a while and alone, whether a parked provider works again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    pub provider: ProviderId,
    /// Which outage it looks into: an answer that comes after its end says nothing of the next one.
    since: OffsetDateTime,
    /// How long the provider had been parked.
    pub parked: Duration,
    /// Parked because it called so many tokens gone that it is not believed.
    pub doubted: bool,
}

impl Store {
    /// Parks a provider that fails. True where it was not parked before.
    pub async fn park_provider(&self, id: ProviderId, code: &str, detail: &str) -> Result<bool> {
        self.park(id, code, detail, false).await
    }

    /// Parks a provider that calls so many tokens gone that it is not believed. True where it was not parked before.
    pub async fn doubt_provider(&self, id: ProviderId, detail: &str) -> Result<bool> {
        self.park(id, MASS_INVALIDATION, detail, true).await
    }

    async fn park(&self, id: ProviderId, code: &str, detail: &str, doubted: bool) -> Result<bool> {
        let (code, detail) = (printable(code, CODE_BYTES), printable(detail, DETAIL_BYTES));
        bounded("park", async {
            let parked = sqlx::query_file!("queries/provider_park.sql", id.0, code, detail, doubted)
                .execute(&self.pool)
                .await?;
            Ok(parked.rows_affected() > 0)
        })
        .await
    }

    /// Takes the probe that is due, for at most `patience`; `None` where somebody else was faster.
    pub async fn take_probe(&self, id: ProviderId, patience: Duration) -> Result<Option<Probe>> {
        bounded("probe", async {
            let taken = sqlx::query_file!("queries/provider_take_probe.sql", id.0, patience.as_secs_f64())
                .fetch_optional(&self.pool)
                .await?;
            Ok(taken.map(|taken| Probe {
                provider: id,
                since: taken.since,
                parked: Duration::from_secs_f64(taken.seconds.max(0.0)),
                doubted: taken.doubted,
            }))
        })
        .await
    }

    /// The probe taken was not made; another one is due soon.
    pub async fn postpone_probe(&self, probe: Probe) -> Result<()> {
        bounded("probe", async {
            sqlx::query_file!("queries/provider_postpone_probe.sql", probe.provider.0, probe.since)
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    /// The probe failed; the next one comes later, and not before `pause`.
    pub async fn probe_failed(&self, probe: Probe, code: &str, detail: &str, pause: Duration) -> Result<()> {
        let (code, detail) = (printable(code, CODE_BYTES), printable(detail, DETAIL_BYTES));
        bounded("probe", async {
            sqlx::query_file!(
                "queries/provider_probe_failed.sql",
                probe.provider.0,
                code,
                detail,
                pause.as_secs_f64(),
                probe.since
            )
            .execute(&self.pool)
            .await?;
            Ok(())
        })
        .await
    }

    /// The provider works again. True where it is still parked for the outage that the probe looked into.
    pub async fn unpark_provider(&self, probe: Probe) -> Result<bool> {
        bounded("unpark", async {
            let unparked = sqlx::query_file!("queries/provider_unpark.sql", probe.provider.0, probe.since)
                .execute(&self.pool)
                .await?;
            Ok(unparked.rows_affected() > 0)
        })
        .await
    }

    /// An operator parks a provider: until an operator unparks it, whatever it would answer. False where there is none.
    pub async fn park_by_hand(&self, name: &str, reason: &str) -> Result<bool> {
        let reason = printable(reason, DETAIL_BYTES);
        bounded("park", async {
            let parked = sqlx::query_file_scalar!("queries/provider_park_by_hand.sql", name, BY_HAND, reason)
                .fetch_optional(&self.pool)
                .await?;
            Ok(parked.is_some())
        })
        .await
    }

    /// An operator takes a provider up again, whatever it is parked for. Whether it was; `None` where there is none.
    pub async fn unpark_by_hand(&self, name: &str) -> Result<Option<bool>> {
        bounded("unpark", async {
            let parked = sqlx::query_file_scalar!("queries/provider_unpark_by_hand.sql", name)
                .fetch_optional(&self.pool)
                .await?;
            Ok(parked)
        })
        .await
    }
}
