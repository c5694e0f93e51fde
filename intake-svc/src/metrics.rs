//! Names of the intake's metrics, and the only place that writes them. Label values come from the lists here.

use std::time::Duration;

use bongsu_ops::api::Meter;
use bongsu_ops::metric::{self, Metric};
use bongsu_store::{Imported, Purged};
use metrics::{counter, histogram};
use tonic::Code;

const CALLS: &str = "bongsu_intake_calls_total";
const CALL_SECONDS: &str = "bongsu_intake_call_seconds";
const BROADCASTS: &str = "bongsu_intake_broadcasts_total";
const IMPORT_ROWS: &str = "bongsu_intake_import_rows_total";
const STARTS: &str = "bongsu_intake_starts_total";
const START_LATE_SECONDS: &str = "bongsu_intake_start_late_seconds";
const PAGES: &str = "bongsu_intake_fan_out_pages_total";
const PAGE_SECONDS: &str = "bongsu_intake_fan_out_page_seconds";
const DELIVERIES: &str = "bongsu_intake_fan_out_deliveries_total";
const EVENTS: &str = "bongsu_intake_live_events_total";
const PARTITIONS_DROPPED: &str = "bongsu_intake_partitions_dropped_total";
const PARTITION_DROP_SECONDS: &str = "bongsu_intake_partition_drop_seconds";
const PURGED: &str = "bongsu_intake_purged_rows_total";
const BACKGROUND_ERRORS: &str = "bongsu_intake_background_errors_total";

/// All metrics of an intake. docs/metrics.md is checked against this.
pub const METRICS: [Metric; 14] = [
    Metric::counter(CALLS, &["method", "code"], "Calls ended, by method and gRPC code"),
    Metric::seconds(CALL_SECONDS, &["method"], "From a call's arrival to its answer, by method"),
    Metric::counter(
        BROADCASTS,
        &["outcome"],
        "CreateBroadcast by what became of it: new, replayed, key_reused",
    ),
    Metric::counter(
        IMPORT_ROWS,
        &["outcome"],
        "Rows of ImportDevices by what became of them: created, refreshed, superseded, rejected",
    ),
    Metric::counter(
        STARTS,
        &["outcome"],
        "Scheduled broadcasts whose time came, by what became of them: started, expired",
    ),
    Metric::seconds(START_LATE_SECONDS, &[], "From a scheduled broadcast's time to its start"),
    Metric::counter(PAGES, &[], "Pages of fan-out made"),
    Metric::seconds(PAGE_SECONDS, &[], "The time one page of fan-out took"),
    Metric::counter(DELIVERIES, &[], "Deliveries made by pages of fan-out"),
    Metric::counter(EVENTS, &[], "Notifications put into inboxes of users, by pages of fan-out and at once"),
    Metric::counter(
        PARTITIONS_DROPPED,
        &[],
        "Partitions of deliveries dropped at the end of their retention",
    ),
    Metric::seconds(
        PARTITION_DROP_SECONDS,
        &[],
        "From the first step of a partition's end to the last: nobody waits meanwhile",
    ),
    Metric::counter(
        PURGED,
        &["what"],
        "Rows deleted at the end of their retention: audiences, dead_letters, broadcasts, failures, device_events, inbox",
    ),
    Metric::counter(BACKGROUND_ERRORS, &["task"], "Failed steps of background work, by task"),
];

/// Calls that are counted: path and label.
const METHODS: [(&str, &str); 16] = [
    ("/bongsu.v1.BroadcastService/CreateBroadcast", "CreateBroadcast"),
    ("/bongsu.v1.BroadcastService/GetBroadcast", "GetBroadcast"),
    ("/bongsu.v1.BroadcastService/ListBroadcasts", "ListBroadcasts"),
    ("/bongsu.v1.BroadcastService/PauseBroadcast", "PauseBroadcast"),
    ("/bongsu.v1.BroadcastService/ResumeBroadcast", "ResumeBroadcast"),
    ("/bongsu.v1.BroadcastService/CancelBroadcast", "CancelBroadcast"),
    ("/bongsu.v1.BroadcastService/RescheduleBroadcast", "RescheduleBroadcast"),
    ("/bongsu.v1.DeviceService/RegisterDevice", "RegisterDevice"),
    ("/bongsu.v1.DeviceService/UnregisterDevice", "UnregisterDevice"),
    ("/bongsu.v1.DeviceService/UpdateConsent", "UpdateConsent"),
    ("/bongsu.v1.DeviceService/GetDevice", "GetDevice"),
    ("/bongsu.v1.DeviceService/ListDevices", "ListDevices"),
    ("/bongsu.v1.DeviceService/SubscribeTopic", "SubscribeTopic"),
    ("/bongsu.v1.DeviceService/UnsubscribeTopic", "UnsubscribeTopic"),
    ("/bongsu.v1.DeviceService/ImportDevices", "ImportDevices"),
    ("/bongsu.v1.DeviceService/RestoreDevices", "RestoreDevices"),
];

/// What became of a CreateBroadcast.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Accepted {
    New,
    Replayed,
    KeyReused,
}

/// Says what each metric means.
pub(crate) fn describe() {
    metric::describe(&METRICS);
    metric::describe(&bongsu_live::METRICS);
}

/// How calls are measured.
pub(crate) const METER: Meter = Meter { label: method, record: call };

/// The label of one of our methods; None for what is not ours.
pub(crate) fn method(path: &str) -> Option<&'static str> {
    METHODS.iter().find(|(known, _)| *known == path).map(|(_, label)| *label)
}

pub(crate) fn call(method: &'static str, code: Code, took: Duration) {
    counter!(CALLS, "method" => method, "code" => code_name(code)).increment(1);
    histogram!(CALL_SECONDS, "method" => method).record(took);
}

pub(crate) fn broadcast(accepted: Accepted) {
    let outcome = match accepted {
        Accepted::New => "new",
        Accepted::Replayed => "replayed",
        Accepted::KeyReused => "key_reused",
    };
    counter!(BROADCASTS, "outcome" => outcome).increment(1);
}

pub(crate) fn imported(imported: &Imported) {
    let rows = [
        ("created", imported.created),
        ("refreshed", imported.refreshed),
        ("superseded", imported.superseded),
    ];
    for (outcome, rows) in rows {
        counter!(IMPORT_ROWS, "outcome" => outcome).increment(rows as u64);
    }
}

pub(crate) fn rejected(rows: i64) {
    counter!(IMPORT_ROWS, "outcome" => "rejected").increment(rows.unsigned_abs());
}

pub(crate) fn started(expired: bool, late_seconds: f64) {
    let outcome = if expired { "expired" } else { "started" };
    counter!(STARTS, "outcome" => outcome).increment(1);
    histogram!(START_LATE_SECONDS).record(late_seconds);
}

pub(crate) fn fan_out_page(deliveries: i64, took: Duration) {
    counter!(PAGES).increment(1);
    counter!(DELIVERIES).increment(deliveries.unsigned_abs());
    histogram!(PAGE_SECONDS).record(took);
}

pub(crate) fn events(made: usize) {
    counter!(EVENTS).increment(made as u64);
}

pub(crate) fn partition_dropped(took: Duration) {
    counter!(PARTITIONS_DROPPED).increment(1);
    histogram!(PARTITION_DROP_SECONDS).record(took);
}

pub(crate) fn inbox_purged(rows: u64) {
    counter!(PURGED, "what" => "inbox").increment(rows);
}

pub(crate) fn purged(purged: &Purged) {
    let rows = [
        ("audiences", purged.audiences),
        ("dead_letters", purged.dead_letters),
        ("broadcasts", purged.broadcasts),
        ("failures", purged.failures),
        ("device_events", purged.device_events),
    ];
    for (what, rows) in rows {
        counter!(PURGED, "what" => what).increment(rows);
    }
}

pub(crate) fn background_error(task: &'static str) {
    counter!(BACKGROUND_ERRORS, "task" => task).increment(1);
}

/// Codes as gRPC spells them.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bongsu_proto::v1::broadcast_service_server::SERVICE_NAME as BROADCASTS_NAME;
    use bongsu_proto::v1::device_service_server::SERVICE_NAME as DEVICES_NAME;

    #[test]
    fn paths_and_labels_agree() {
        for (path, label) in METHODS {
            let service = path.trim_start_matches('/').strip_suffix(label).expect("ends in the label");
            assert!([BROADCASTS_NAME, DEVICES_NAME].contains(&service.trim_end_matches('/')), "{path}");
            assert_eq!(method(path), Some(label));
        }
        assert_eq!(method("/grpc.health.v1.Health/Check"), None);
    }
}
