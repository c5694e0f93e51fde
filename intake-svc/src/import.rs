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
        let mut valid = Vec::new();
        loop {
            // A message is read, decoded and waited for while the one before is being stored.
            let (imported, message) = tokio::try_join!(self.store(&valid), next(&mut stream, shutdown))?;
            self.count(&imported);
            match message {
                Some(message) => valid = self.check(message).await?,
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

    async fn store(&self, valid: &[Registration]) -> Result<Imported, Status> {
        self.store.import(valid).await.map_err(|e| status::from_store(&e, "ImportDevices"))
    }

    /// The rows of a message that can be stored; the others are reported.
    async fn check(&mut self, message: ImportDevicesRequest) -> Result<Vec<Registration>, Status> {
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
        let first_row = self.report.rows;
        self.report.rows += sent.len() as i64;
        let mut valid: Vec<Registration> = Vec::with_capacity(sent.len());
        for (row, registration) in (first_row..).zip(sent) {
            let mut violations = Violations::default();
            let provider = known.named(&registration.provider);
            if provider.is_none() && !registration.provider.is_empty() {
                let shown: String = registration.provider.chars().take(64).collect();
                violations.add("provider", status::unknown_provider_text(&shown, &known.names()));
            }
            match validate::registration(registration, provider, &mut violations) {
                Some(registration) => valid.push(registration),
                None => self.reject(row, violations),
            }
        }
        metrics::rejected(self.report.rows - first_row - valid.len() as i64);
        Ok(valid)
    }

    fn reject(&mut self, row: i64, violations: Violations) {
        self.report.rejected += 1;
        if self.report.errors.len() < MAX_REPORTED
            && let Some(first) = violations.into_first()
        {
            self.report.errors.push(ImportError { row, field: first.field, description: first.description });
        }
    }

    fn count(&mut self, imported: &Imported) {
        self.report.created += imported.created as i64;
        self.report.refreshed += imported.refreshed as i64;
        self.report.superseded += imported.superseded as i64;
        self.report.retired += imported.retired as i64;
        metrics::imported(imported);
    }
}

/// The next message; None at the end of the stream.
async fn next(
    stream: &mut Streaming<ImportDevicesRequest>,
    shutdown: &CancellationToken,
) -> Result<Option<ImportDevicesRequest>, Status> {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => Err(status::draining()),
        message = tokio::time::timeout(MAX_SILENCE, stream.message()) => {
            message.map_err(|_| status::import_idle(MAX_SILENCE))?
        }
    }
}
