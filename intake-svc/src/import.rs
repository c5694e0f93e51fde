//! `ImportDevices`: registrations by the thousand, a message at a time.

use std::time::Duration;

use bongsu_ops::api::Violations;
use bongsu_proto::v1::{ImportDevicesRequest, ImportDevicesResponse, ImportError};
use bongsu_store::{Imported, MAX_REGISTRATIONS, Registration, Store};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use crate::providers::Providers;
use crate::{metrics, status, validate};

/// Rejected rows that the report names; further ones are counted.
const MAX_REPORTED: usize = 1_000;
/// How long a client may take to send its next message.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// One call of `ImportDevices` under way.
pub(crate) struct Import<'a> {
    store: &'a Store,
    providers: &'a Providers,
    report: ImportDevicesResponse,
}

impl<'a> Import<'a> {
    pub fn new(store: &'a Store, providers: &'a Providers) -> Self {
        Self { store, providers, report: ImportDevicesResponse::default() }
    }

    /// Takes the stream to its end. What was committed before an error stays; sending the same again is harmless.
    pub async fn run(
        mut self,
        mut stream: Streaming<ImportDevicesRequest>,
        shutdown: &CancellationToken,
    ) -> Result<ImportDevicesResponse, Status> {
        loop {
            let message = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Err(status::draining()),
                message = tokio::time::timeout(MAX_SILENCE, stream.message()) => message,
            };
            match message.map_err(|_| status::import_idle(MAX_SILENCE))?? {
                Some(message) => self.take(message).await?,
                None => break,
            }
        }
        let report = self.report;
        tracing::info!(
            rows = report.rows,
            created = report.created,
            refreshed = report.refreshed,
            superseded = report.superseded,
            rejected = report.rejected,
            retired = report.retired,
            "devices imported"
        );
        Ok(report)
    }

    async fn take(&mut self, message: ImportDevicesRequest) -> Result<(), Status> {
        let sent = message.registrations;
        if sent.len() > MAX_REGISTRATIONS {
            return Err(status::invalid_field(
                "registrations",
                format!(
                    "has {} rows in the message that begins at row {}; at most {MAX_REGISTRATIONS} are allowed",
                    sent.len(),
                    self.report.rows
                ),
            ));
        }
        let known = self
            .providers
            .knowing(sent.iter().map(|row| row.provider.as_str()))
            .await
            .map_err(|e| status::from_store(&e, "ImportDevices"))?;
        let rows = sent.len();
        let rejected_before = self.report.rejected;
        let mut valid: Vec<Registration> = Vec::with_capacity(rows);
        for (row, registration) in (self.report.rows..).zip(sent) {
            let mut violations = Violations::default();
            let provider = known.id(&registration.provider);
            if provider.is_none() && !registration.provider.is_empty() {
                let shown: String = registration.provider.chars().take(64).collect();
                violations.add("provider", status::unknown_provider_text(&shown, &known.names()));
            }
            match validate::registration(registration, provider, &mut violations) {
                Some(registration) => valid.push(registration),
                None => self.reject(row, violations),
            }
        }
        let imported =
            self.store.import(&valid).await.map_err(|e| status::from_store(&e, "ImportDevices"))?;
        self.count(rows, &imported);
        metrics::imported(&imported, (self.report.rejected - rejected_before).unsigned_abs() as usize);
        Ok(())
    }

    fn reject(&mut self, row: i64, violations: Violations) {
        self.report.rejected += 1;
        if self.report.errors.len() < MAX_REPORTED
            && let Some(first) = violations.into_first()
        {
            self.report.errors.push(ImportError { row, field: first.field, description: first.description });
        }
    }

    fn count(&mut self, rows: usize, imported: &Imported) {
        self.report.rows += rows as i64;
        self.report.created += imported.created as i64;
        self.report.refreshed += imported.refreshed as i64;
        self.report.superseded += imported.superseded as i64;
        self.report.retired += imported.retired as i64;
    }
}
