//! Times and spans, as people type them and as we print them.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const SECONDS_PER_UNIT: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Parses `1h30m`, `90s`, `2d`: whole numbers, each with its unit, each unit once and the larger ones first.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let expected =
        || format!("`{text}` is no span of time: write numbers with units d, h, m, s, such as 1h30m or 90s");
    let mut seconds: u64 = 0;
    let mut units = SECONDS_PER_UNIT.iter();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(expected());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| expected())?;
        let unit = after.chars().next().ok_or_else(expected)?;
        let (_, factor) = units.find(|(name, _)| *name == unit).ok_or_else(expected)?;
        let part = number.checked_mul(*factor).ok_or_else(expected)?;
        seconds = seconds.checked_add(part).ok_or_else(expected)?;
        rest = &after[unit.len_utf8()..];
    }
    Ok(Duration::from_secs(seconds))
}

/// Parses a span that is not zero: a deadline of nothing would refuse every call.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_span(text)? {
        Duration::ZERO => Err("a time-out of 0 would end every call at once: give 1s or more".to_owned()),
        span => Ok(span),
    }
}

/// Parses an RFC 3339 time, such as `2026-11-29T18:00:00+09:00`.
pub fn parse_time(text: &str) -> Result<prost_types::Timestamp, String> {
    let time = OffsetDateTime::parse(text.trim(), &Rfc3339).map_err(|_| {
        format!("`{text}` is no RFC 3339 time: write date, time and zone, such as 2026-11-29T18:00:00+09:00")
    })?;
    Ok(prost_types::Timestamp {
        seconds: time.unix_timestamp(),
        nanos: i32::try_from(time.nanosecond()).unwrap_or_default(),
    })
}

/// So long from now by the clock of this machine; as late as there are times, where that is later.
pub fn from_now(span: Duration) -> prost_types::Timestamp {
    let now = OffsetDateTime::now_utc();
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    prost_types::Timestamp {
        seconds: now.unix_timestamp().saturating_add(seconds),
        nanos: i32::try_from(now.nanosecond()).unwrap_or_default(),
    }
}

/// RFC 3339 in UTC with its fraction, for machines.
pub fn rfc3339(time: &prost_types::Timestamp) -> Option<String> {
    to_time(time)?.format(&Rfc3339).ok()
}

/// To the second, for people; empty where unset.
pub fn to_the_second(time: Option<&prost_types::Timestamp>) -> String {
    let whole = time.and_then(to_time).and_then(|time| time.replace_nanosecond(0).ok());
    whole.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

fn to_time(time: &prost_types::Timestamp) -> Option<OffsetDateTime> {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()
}

/// The two largest units of a span: `1h 12m`, `48s`.
pub fn span(seconds: u64) -> String {
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, factor) in SECONDS_PER_UNIT {
        let count = rest / factor;
        rest %= factor;
        if count > 0 || !parts.is_empty() {
            parts.push((count, unit));
        }
    }
    let shown = parts.iter().take(2).filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown.map(|(count, unit)| format!("{count}{unit}")).collect();
    if shown.is_empty() { "0s".to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_units() {
        for (text, seconds) in
            [("90s", 90), ("1h30m", 5_400), ("2d", 172_800), ("1d2h3m4s", 93_784), (" 5m ", 300)]
        {
            assert_eq!(parse_span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused_with_an_example() {
        for text in
            ["", "90", "h", "1w", "30m1h", "1h1h", "-1h", "1.5h", "1h 30m", "99999999999999999999s", "9분"]
        {
            let error = parse_span(text).expect_err(text);
            assert!(error.contains("such as 1h30m"), "{text}: {error}");
        }
        parse_span(&format!("{}d", u64::MAX)).expect_err("too many seconds for 64 bits");
        parse_timeout("0s").expect_err("no time-out");
    }

    #[test]
    fn times_survive_the_way_there_and_back() {
        let time = parse_time("2026-11-29T18:00:00.5+09:00").expect("a time");
        assert_eq!(rfc3339(&time).as_deref(), Some("2026-11-29T09:00:00.5Z"));
        assert_eq!(to_the_second(Some(&time)), "2026-11-29T09:00:00Z");
        assert_eq!(to_the_second(None), "");
        for text in ["2026-11-29", "2026-11-29 18:00", "tomorrow", ""] {
            parse_time(text).expect_err(text);
        }
    }

    #[test]
    fn spans_are_shown_in_their_two_largest_units() {
        let shown: Vec<String> = [0, 48, 60, 3_600, 4_330, 90_061].into_iter().map(span).collect();
        assert_eq!(shown, ["0s", "48s", "1m", "1h", "1h 12m", "1d 1h"]);
    }
}
