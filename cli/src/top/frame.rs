//! What is seen, as lines of text that fit.

use unicode_width::UnicodeWidthStr as _;

use super::look::{Seen, SeenBroadcast, SeenProvider};
use crate::table::{number, printable, shortened};
use crate::times::{span, to_the_second};
use crate::words::word;
use bongsu_proto::v1::{self, BroadcastState, ParkReason, SenderState};

/// Columns of a bar.
const BAR: usize = 12;
/// The narrowest frame: below it lines are cut.
const LEAST_COLUMNS: usize = 72;
/// Columns of what stands beside a title, its gaps included.
const BESIDE_TITLE: usize = 61;

/// Senders shown; the rest is counted.
const MOST_SENDERS: usize = 8;

/// At most `rows` lines of at most `columns`: a summary, providers as a whole, senders, and as many broadcasts as there is room for.
pub fn frame(seen: &Seen, columns: usize, rows: usize) -> Vec<String> {
    let mut lines = vec![summary(seen)];
    lines.extend(seen.problem.iter().map(|problem| format!("! {problem}; asking again")));
    lines.push(String::new());
    lines.push(format!("{:<16} {:<8} {:>9} {:>11}  STATE", "PROVIDER", "KIND", "RATE", "PENDING"));
    lines.extend(seen.providers.iter().map(provider));
    lines.push(String::new());
    lines.push(format!("{:<16} {:<8} {:>9} {:>11}  VERSION", "SENDER", "STATE", "IN FLIGHT", "LEASED"));
    lines.extend(seen.senders.iter().take(MOST_SENDERS).map(sender));
    if seen.senders.len() > MOST_SENDERS {
        lines.push(format!("… and {} more", number((seen.senders.len() - MOST_SENDERS) as i64)));
    }
    lines.push(String::new());
    let title = columns.max(LEAST_COLUMNS) - BESIDE_TITLE;
    lines.push(format!(
        "{} {:<11} {:<17} {:>8} {:>7} {:>6} {:>6}",
        padded("BROADCAST", title),
        "STATE",
        "PROGRESS",
        "RATE",
        "LEFT",
        "RETRY",
        "DEAD"
    ));
    let room = rows.saturating_sub(lines.len());
    if seen.broadcasts.len() <= room {
        lines.extend(seen.broadcasts.iter().map(|of| broadcast(of, title)));
    } else {
        let shown = room.saturating_sub(1);
        lines.extend(seen.broadcasts.iter().take(shown).map(|of| broadcast(of, title)));
        lines.push(format!("… and {} more", number((seen.broadcasts.len() - shown) as i64)));
    }
    lines.truncate(rows);
    lines.iter().map(|line| shortened(&printable(line), columns).trim_end().to_owned()).collect()
}

fn summary(seen: &Seen) -> String {
    let open: Vec<_> = seen.broadcasts.iter().filter(|of| is_open(of)).collect();
    let pending: i64 = open.iter().map(|of| of.counts.pending).sum();
    let rate = open.iter().filter_map(|of| of.rate).sum::<f64>();
    let parked = seen.providers.iter().filter(|of| of.provider.parked_since.is_some()).count();
    let mut text = format!(
        "bongsu top: {} open, {} pending, {}/s",
        number(open.len() as i64),
        number(pending),
        number(rate.round() as i64)
    );
    if parked > 0 {
        text.push_str(&format!(", {parked} of {} providers parked", seen.providers.len()));
    }
    text.push_str("  (q quits)");
    text
}

fn is_open(of: &SeenBroadcast) -> bool {
    of.state != BroadcastState::Completed as i32 && of.state != BroadcastState::Cancelled as i32
}

fn provider(of: &SeenProvider) -> String {
    let said = &of.provider;
    let state = match (&said.parked_since, &said.held_until) {
        // Since when is in `providers list`: it must fit into 80 columns.
        (Some(_), _) => match word::<ParkReason>(said.park_reason) {
            reason if reason == said.parked_code => format!("parked: {reason}"),
            reason => format!("parked: {reason} ({})", said.parked_code),
        },
        (None, Some(until)) => format!("held until {}", to_the_second(Some(until))),
        (None, None) => "ok".to_owned(),
    };
    let name = padded(&shortened(&said.name, 16), 16);
    format!("{name} {:<8} {:>9} {:>11}  {state}", said.kind, rate(of.rate), number(of.pending))
}

fn sender(of: &v1::Sender) -> String {
    // The beginning of an id tells them apart; the whole is in `bongsu senders`.
    let id = of.id.split('-').next().unwrap_or_default();
    let state = word::<SenderState>(of.state);
    let in_flight = number(of.calls_in_flight.into());
    format!("{id:<16} {state:<8} {in_flight:>9} {:>11}  {}", number(of.leased_deliveries), of.version)
}

fn broadcast(of: &SeenBroadcast, title: usize) -> String {
    let counts = &of.counts;
    let state = if of.paused { "paused".to_owned() } else { word::<BroadcastState>(of.state) };
    // What has no title is told by its id.
    let name = if of.title.is_empty() { of.id.to_string() } else { printable(&of.title) };
    let settled = counts.total - counts.pending;
    let left = of.rate.filter(|rate| *rate >= 1.0 && counts.pending > 0 && is_open(of));
    let left = left.map(|rate| span((counts.pending as f64 / rate).ceil() as u64));
    format!(
        "{} {:<11} {} {:>3}% {:>8} {:>7} {:>6} {:>6}",
        padded(&shortened(&name, title), title),
        state,
        bar(settled, counts.total),
        percent(settled, counts.total),
        rate(of.rate),
        left.unwrap_or_else(|| "-".to_owned()),
        number(counts.retrying),
        number(counts.dead)
    )
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", number(rate.round() as i64)))
}

fn percent(done: i64, total: i64) -> i64 {
    if total > 0 { done * 100 / total } else { 0 }
}

fn bar(done: i64, total: i64) -> String {
    let full =
        if total > 0 { usize::try_from(done * BAR as i64 / total).unwrap_or_default().min(BAR) } else { 0 };
    format!("{}{}", "=".repeat(full), ".".repeat(BAR - full))
}

/// With blanks up to so many columns of a terminal.
fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bongsu_proto::v1::{DeliveryCounts, Provider};

    fn broadcast(id: i64, title: &str, state: BroadcastState, sent: i64, pending: i64) -> SeenBroadcast {
        let counts = DeliveryCounts {
            total: sent + pending + 3,
            sent,
            pending,
            retrying: 12,
            dead: 3,
            ..Default::default()
        };
        let rate = (pending > 0).then_some(1_234.0);
        SeenBroadcast { id, title: title.into(), state: state as i32, paused: false, counts, rate }
    }

    fn seen(broadcasts: usize) -> Seen {
        let parked = Provider {
            name: "push".into(),
            kind: "webhook".into(),
            parked_since: Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 }),
            park_reason: ParkReason::Failing as i32,
            parked_code: "503".into(),
            ..Default::default()
        };
        let fine = Provider { name: "apns".into(), kind: "apns".into(), ..Default::default() };
        let mut all = vec![
            broadcast(1, "서버 점검 안내: 오늘 밤 자정부터", BroadcastState::Delivering, 60_000, 39_997),
            broadcast(2, "", BroadcastState::Accepted, 0, 0),
            broadcast(3, "Hello", BroadcastState::Completed, 997, 0),
        ];
        all[1].counts = DeliveryCounts::default();
        all.extend(
            (4..).map(|id| broadcast(id, "공지", BroadcastState::Completed, 97, 0)).take(broadcasts - 3),
        );
        Seen {
            broadcasts: all,
            providers: vec![
                SeenProvider { provider: fine, pending: 1_000, rate: Some(1_234.4) },
                SeenProvider { provider: parked, pending: 38_997, rate: None },
            ],
            senders: vec![v1::Sender {
                id: "6f0c3a52-6e0b-4d7e-9d50-0b2d3f7f8a11".into(),
                state: SenderState::Alive as i32,
                version: "0.1.0".into(),
                calls_in_flight: 512,
                leased_deliveries: 4_500,
                ..Default::default()
            }],
            problem: None,
        }
    }

    #[test]
    fn a_frame_shows_state_progress_rate_and_time_left_in_columns_whatever_the_script() {
        let lines = frame(&seen(3), 80, 24);
        let expected = "\
bongsu top: 2 open, 39,997 pending, 1,234/s, 1 of 2 providers parked  (q quits)

PROVIDER         KIND          RATE     PENDING  STATE
apns             apns       1,234/s       1,000  ok
push             webhook          -      38,997  parked: failing (503)

SENDER           STATE    IN FLIGHT      LEASED  VERSION
6f0c3a52         alive          512       4,500  0.1.0

BROADCAST           STATE       PROGRESS              RATE    LEFT  RETRY   DEAD
서버 점검 안내: 오… delivering  =======.....  60%  1,234/s     33s     12      3
2                   accepted    ............   0%        -       -      0      0
Hello               completed   ============ 100%        -       -     12      3";
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn whatever_there_is_fits_the_terminal_and_what_does_not_is_counted() {
        let mut seen = seen(40);
        seen.problem = Some("the database is away".into());
        for (columns, rows) in [(80, 24), (120, 30), (40, 10), (10, 3), (200, 1)] {
            let lines = frame(&seen, columns, rows);
            assert!(lines.len() <= rows, "{columns}x{rows}: {}", lines.len());
            assert!(lines.iter().all(|line| line.width() <= columns), "{columns}x{rows}: {lines:#?}");
        }
        let lines = frame(&seen, 80, 24);
        assert_eq!(lines.last().map(String::as_str), Some("… and 28 more"));
        assert_eq!(lines[1], "! the database is away; asking again");
        assert_eq!(frame(&seen, 80, usize::MAX).len(), 11 + 40);
    }

    #[test]
    fn a_title_cannot_drive_the_terminal() {
        let mut seen = seen(3);
        seen.broadcasts[0].title = "\x1b[2Jgone\n".into();
        assert!(frame(&seen, 80, 24).iter().all(|line| !line.contains('\x1b') && !line.contains('\n')));
    }
}
