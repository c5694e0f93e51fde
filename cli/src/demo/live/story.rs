//! The story of the live demo as a table.

use super::facts::{Facts, Spread};
use crate::table::{Align, Table, number};

pub fn tell(facts: &Facts) -> String {
    let both = &facts.by_both;
    let timeout = f64::from(facts.ack_timeout_ms) / 1e3;
    let rows = [
        ("by stream, acknowledged in time: no push", number(facts.by_stream.into())),
        ("by push: not connected", number(facts.by_push.into())),
        ("by both, shown once", number(both.sum().into())),
        ("  the client did not acknowledge", number(both.not_acknowledged.into())),
        ("  its sender was killed in between", number(both.lost_in_between.into())),
        ("  acknowledged too late", number(both.acknowledged_late.into())),
        ("  although the acknowledgement was known", number(both.acknowledged_before.into())),
        ("by neither", number(facts.by_neither.into())),
    ];
    let mut table = Table::new(&[("HOW USERS GOT IT", Align::Left), ("USERS", Align::Right)]);
    let rows = rows.into_iter().map(|(what, count)| vec![what.to_owned(), count]).collect();
    let mut text = format!("\n{}\n", table.page(rows));
    text += &format!(
        "{} users, {} of them connected to {} senders, {timeout} s to acknowledge; the whole broadcast took {}\n",
        number(facts.users.into()),
        number(facts.connected.into()),
        facts.senders,
        seconds(facts.total_ms)
    );
    text += &format!("from the call to clients that stayed connected: {}\n", spread(&facts.stream_ms));
    text += &format!(
        "SIGKILL for a sender as {} clients had it cut off {}; they were connected again after {}; {} did not come back\n",
        count(facts.received_at_kill),
        count(facts.cut_off),
        spread(&facts.back_ms),
        count(facts.not_back)
    );
    text += &format!(
        "{} came again after a break and were not shown again; {} events, {} acknowledged; {} calls to the provider were \
         saved\n",
        number(facts.came_again.into()),
        number(facts.events),
        number(facts.acknowledged),
        number(facts.skipped)
    );
    text += &format!(
        "duplicates at the provider: {}, of {} in flight at the kill\n",
        number(facts.duplicates.cast_signed()),
        number(facts.in_flight_at_kill.cast_signed())
    );
    text
}

fn spread(times: &Spread) -> String {
    format!("{} (median), {} (99 %), {} (all)", millis(times.p50), millis(times.p99), millis(times.longest))
}

fn millis(ms: u64) -> String {
    format!("{} ms", number(ms.cast_signed()))
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}

fn count(value: usize) -> String {
    number(i64::try_from(value).unwrap_or(i64::MAX))
}
