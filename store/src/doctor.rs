//! Examining a live database: the invariants of the queue, and conditions that an operator should know of.
//!
//! The invariants hold at every moment, in every snapshot; the tests of the queue check them after each step.

use serde::Serialize;
use sqlx::Connection as _;

use crate::connect::Store;
use crate::error::Result;
use crate::retention::{Partition, PartitionState};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// An invariant does not hold: a bug, or somebody has changed rows by hand.
    Broken,
    /// Nothing is wrong with the data, but somebody should look.
    Attention,
}

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub severity: Severity,
    /// What it is about: `broadcast 63239275003510785`.
    pub subject: String,
    pub detail: String,
    /// What to do.
    pub remedy: &'static str,
}

/// A partition that was to be dropped so many days ago is overdue.
const OVERDUE_DAYS: u32 = 2;

/// A row of a check.
struct Found {
    subject: String,
    detail: String,
}

const REPORT: &str = "stop the senders and report it as a bug, with this output; `bongsu broadcasts cancel` ends the broadcast";

/// Runs one check on a connection and adds what it finds.
macro_rules! check {
    ($findings:ident, $connection:ident, $check:literal, $query:literal, $severity:ident, $remedy:expr) => {
        let found = sqlx::query_file_as!(Found, $query).fetch_all(&mut $connection).await?;
        $findings.extend(found.into_iter().map(|found| Finding {
            check: $check,
            severity: Severity::$severity,
            subject: found.subject,
            detail: found.detail,
            remedy: $remedy,
        }));
    };
}

impl Store {
    /// What breaks an invariant: nothing, unless there is a bug. Counts deliveries, so it takes seconds for millions.
    pub async fn broken_invariants(&self) -> Result<Vec<Finding>> {
        let mut connection = self.patient_connection().await?;
        let mut findings = Vec::new();
        check!(findings, connection, "coverage", "queries/doctor_coverage.sql", Broken, REPORT);
        check!(findings, connection, "sums", "queries/doctor_sums.sql", Broken, REPORT);
        check!(findings, connection, "final", "queries/doctor_final.sql", Broken, REPORT);
        check!(findings, connection, "shards", "queries/doctor_shards.sql", Broken, REPORT);
        check!(findings, connection, "inboxes", "queries/doctor_inboxes.sql", Broken, REPORT);
        connection.close().await?;
        Ok(findings)
    }

    /// What an operator should know of, where deliveries are kept for so many days (0: for ever). Cheap.
    pub async fn conditions(&self, retention_days: u32) -> Result<Vec<Finding>> {
        let mut connection = self.patient_connection().await?;
        let mut findings = Vec::new();
        check!(
            findings,
            connection,
            "senders",
            "queries/doctor_senders.sql",
            Attention,
            "start sender-svc, or look at its log and its /ready: it may not reach this database"
        );
        check!(
            findings,
            connection,
            "overdue",
            "queries/doctor_overdue.sql",
            Attention,
            "is a sender running that is configured with this provider, and an intake? Their logs say what they wait for"
        );
        check!(
            findings,
            connection,
            "reclaimed",
            "queries/doctor_reclaimed.sql",
            Attention,
            "look at the logs of the senders that ended; if it is always one device, unregister it, or cancel the broadcast"
        );
        check!(
            findings,
            connection,
            "parked",
            "queries/doctor_parked.sql",
            Attention,
            "look after the provider, its address and our credentials; deliveries wait and go on by themselves"
        );
        check!(
            findings,
            connection,
            "parked_by_hand",
            "queries/doctor_parked_by_hand.sql",
            Attention,
            "nobody calls it, and its deliveries wait until they expire; `bongsu providers unpark` takes it up again"
        );
        check!(
            findings,
            connection,
            "doubted",
            "queries/doctor_doubted.sql",
            Attention,
            "look whether address, credentials and environment are those of the app; no device of these answers was retired. \
             Then `bongsu providers unpark` it, and `bongsu dead-letters replay` what died"
        );
        check!(
            findings,
            connection,
            "quarantined",
            "queries/doctor_quarantined.sql",
            Attention,
            "`bongsu devices list --state quarantined` tells why; once that is mended, `bongsu devices restore`"
        );
        check!(
            findings,
            connection,
            "partitions",
            "queries/doctor_partitions.sql",
            Attention,
            "start an intake or a sender: they make them; if one runs, its log says why it cannot"
        );
        check!(
            findings,
            connection,
            "snapshots",
            "queries/doctor_snapshots.sql",
            Attention,
            "end it (SELECT pg_terminate_backend(pid), or ROLLBACK PREPARED): while it is open, dead rows pile up and claims get slow"
        );
        check!(
            findings,
            connection,
            "dead_rows",
            "queries/doctor_dead_rows.sql",
            Attention,
            "look for old transactions and for autovacuum being off, then VACUUM the table"
        );
        connection.close().await?;
        // Those that are past it even if they were kept a little longer.
        let days = if retention_days == 0 { 0 } else { retention_days + OVERDUE_DAYS };
        findings.extend(self.partitions(days).await?.iter().filter_map(leftover));
        Ok(findings)
    }
}

/// What retention should have dropped, and has not.
fn leftover(partition: &Partition) -> Option<Finding> {
    let (detail, remedy) = match partition.state {
        PartitionState::Kept | PartitionState::Foreign => return None,
        PartitionState::HalfWay { .. } => (
            "is detached half way".to_owned(),
            "the next retention goes on, `bongsu retention --apply` does at once; if it cannot, end the sessions that use it",
        ),
        PartitionState::Detached => (
            "is detached and not dropped yet".to_owned(),
            "the next retention goes on, `bongsu retention --apply` does at once; if it cannot, end the sessions that use it",
        ),
        PartitionState::Due => (
            "is old enough to be dropped, and nobody has".to_owned(),
            "start an intake, whose log says why it cannot; `bongsu retention --apply` does it now",
        ),
        PartitionState::Waiting { broadcasts, first } => (
            format!("is kept beyond its time: {broadcasts} broadcasts of the day are open, {first} for one"),
            "look why they do not end: paused, or nobody sends? `bongsu broadcasts cancel` ends one",
        ),
    };
    Some(Finding {
        check: "retention",
        severity: Severity::Attention,
        subject: format!("partition {}", partition.name),
        detail,
        remedy,
    })
}
