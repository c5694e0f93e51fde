//! The story as a table, beside what was measured of the two systems that came before.

use super::Args;
use super::facts::Facts;
use crate::table::{Align, Table, number};

/// Measured once on the systems that Bongsu replaces, with the same 10,000 devices: a request thread that looped over them,
/// and a version with Kafka.
const BEFORE: [(&str, &str, &str); 7] = [
    ("answer to the operator", "none: time-out after 60 s", "107 ms"),
    ("pressed again", "sent again", "6 ms, same"),
    ("other text, same key", "sent too", ""),
    ("duplicates at the provider", "9,246", "4"),
    ("devices missed", "207", "0, 200 in the dead-letter topic"),
    ("stall after a crash", "everything lost", "45 s"),
    ("whole broadcast", "5 min 16 s", "2 min 40 s"),
];

pub fn tell(args: &Args, facts: &Facts) -> String {
    let d = &facts.deliveries;
    let ours = [
        format!("{:.1} ms", facts.accept_ms),
        format!(
            "{:.1} ms, {}",
            facts.replay_ms,
            if facts.replay_same_broadcast { "same" } else { "ANOTHER" }
        ),
        if facts.conflict_refused { "refused" } else { "ACCEPTED" }.to_owned(),
        duplicates(args, facts),
        format!("{}, {} dead letters", number(facts.lost), number(d.dead)),
        stall(args, facts),
        seconds(facts.total_ms),
    ];
    let mut table = Table::new(&[
        ("", Align::Left),
        ("SYNCHRONOUS LOOP", Align::Left),
        ("KAFKA VERSION", Align::Left),
        ("BONGSU, JUST NOW", Align::Left),
    ]);
    let rows = BEFORE.iter().zip(ours).map(|((what, sync, kafka), ours)| {
        vec![(*what).to_owned(), (*sync).to_owned(), (*kafka).to_owned(), ours]
    });
    let mut text = format!("\n{}\n", table.page(rows.collect()));
    let reasons = &facts.dead_by_reason;
    text += &format!(
        "{} devices: {} sent; {} dead, of them {} unregistered, {} after all attempts, {} rejected; {} lost\n",
        number(facts.devices.into()),
        number(d.sent),
        number(d.dead),
        number(reasons.unregistered),
        number(reasons.attempts_exhausted),
        number(reasons.rejected),
        number(facts.lost)
    );
    text += &format!(
        "the provider saw {} calls and accepted {}; {} were answered 503 by chance first and got through later\n",
        unsigned(facts.provider.calls),
        unsigned(facts.provider.accepted),
        unsigned(facts.transient_recovered)
    );
    text
}

fn duplicates(args: &Args, facts: &Facts) -> String {
    let found = unsigned(facts.provider.duplicates);
    match facts.in_flight_at_kill {
        None => format!("{found}, nothing was killed"),
        Some(_) if args.provider_dedupe => {
            format!("{found}, the provider dropped {}", unsigned(facts.provider.suppressed))
        }
        Some(open) => format!("{found}, of {} in flight at the kill", unsigned(open)),
    }
}

fn stall(args: &Args, facts: &Facts) -> String {
    match facts.stall_ms {
        None => "no crash".to_owned(),
        Some(stall) if args.senders > 1 => format!("{stall} ms, the other sender went on"),
        Some(stall) => {
            format!("{}, restarted after {} s", seconds(stall), args.restart_after_s)
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1_000.0)
}

fn unsigned(value: u64) -> String {
    number(i64::try_from(value).unwrap_or(i64::MAX))
}
