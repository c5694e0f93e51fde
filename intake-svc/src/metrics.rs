//! Names of the intake's metrics, and the only place that writes them. Label values come from the lists here.

use std::time::Duration;

use bongsu_ops::api::Meter;
use bongsu_store::{Imported, Purged};
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use tonic::Code;

/// Calls ended, by method and gRPC code.
const CALLS: &str = "bongsu_intake_calls_total";
/// From the call's arrival to its answer, by method.
const CALL_SECONDS: &str = "bongsu_intake_call_seconds";
/// CreateBroadcast by what became of it.
const BROADCASTS: &str = "bongsu_intake_broadcasts_total";
/// Rows of ImportDevices by what became of them.
const IMPORT_ROWS: &str = "bongsu_intake_import_rows_total";
/// Scheduled broadcasts whose time came, by what became of them.
const STARTS: &str = "bongsu_intake_starts_total";
/// From a broadcast's time to its start.
const START_LATE_SECONDS: &str = "bongsu_intake_start_late_seconds";
/// Pages of fan-out made.
const PAGES: &str = "bongsu_intake_fan_out_pages_total";
/// The time one page took.
const PAGE_SECONDS: &str = "bongsu_intake_fan_out_page_seconds";
/// Deliveries made by fan-out pages.
const DELIVERIES: &str = "bongsu_intake_fan_out_deliveries_total";
/// Partitions dropped at the end of their retention.
const PARTITIONS_DROPPED: &str = "bongsu_intake_partitions_dropped_total";
/// From the first step of a partition's end to the last.
const PARTITION_DROP_SECONDS: &str = "bongsu_intake_partition_drop_seconds";
/// Rows deleted after their retention, by what they were.
const PURGED: &str = "bongsu_intake_purged_rows_total";
/// Failed steps of background work, by which.
const BACKGROUND_ERRORS: &str = "bongsu_intake_background_errors_total";

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
    describe_counter!(CALLS, "Calls ended, by method and gRPC code");
    describe_histogram!(CALL_SECONDS, Unit::Seconds, "From a call's arrival to its answer, by method");
    describe_counter!(BROADCASTS, "CreateBroadcast by what became of it");
    describe_counter!(IMPORT_ROWS, "Rows of ImportDevices by what became of them");
    describe_counter!(STARTS, "Scheduled broadcasts whose time came, by what became of them");
    describe_histogram!(START_LATE_SECONDS, Unit::Seconds, "From a scheduled broadcast's time to its start");
    describe_counter!(PAGES, "Pages of fan-out made");
    describe_histogram!(PAGE_SECONDS, Unit::Seconds, "The time one page of fan-out took");
    describe_counter!(DELIVERIES, "Deliveries made by pages of fan-out");
    describe_counter!(PARTITIONS_DROPPED, "Partitions of deliveries dropped at the end of their retention");
    describe_histogram!(
        PARTITION_DROP_SECONDS,
        Unit::Seconds,
        "From the first step of a partition's end to the last: nobody waits meanwhile"
    );
    describe_counter!(PURGED, "Rows deleted at the end of their retention, by what they were");
    describe_counter!(BACKGROUND_ERRORS, "Failed steps of background work, by task");
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

pub(crate) fn partition_dropped(took: Duration) {
    counter!(PARTITIONS_DROPPED).increment(1);
    histogram!(PARTITION_DROP_SECONDS).record(took);
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
fn code_name(code: Code) -> &'static str {
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
