//! Moments between the wire and the store.

use prost_types::Timestamp;
use time::OffsetDateTime;

/// Beginning of the year 1, where protobuf's timestamps begin.
const FIRST_SECOND: i64 = -62_135_596_800;

pub fn to_timestamp(moment: OffsetDateTime) -> Timestamp {
    // A nanosecond within a second is below 10^9 and fits.
    Timestamp { seconds: moment.unix_timestamp(), nanos: moment.nanosecond().cast_signed() }
}

/// None for what is no moment of the years 1 to 9999.
pub fn from_timestamp(moment: &Timestamp) -> Option<OffsetDateTime> {
    if moment.seconds < FIRST_SECOND {
        return None;
    }
    let nanos = u32::try_from(moment.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    OffsetDateTime::from_unix_timestamp(moment.seconds).ok()?.replace_nanosecond(nanos).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_go_to_the_wire_and_back() {
        for (seconds, nanos) in [(0, 0), (1_764_460_800, 123_456_000), (-1, 999_999_999)] {
            let sent = Timestamp { seconds, nanos };
            assert_eq!(to_timestamp(from_timestamp(&sent).expect("a moment")), sent);
        }
        for (seconds, nanos) in [(0, -1), (0, 1_000_000_000), (i64::MAX, 0), (FIRST_SECOND - 1, 0)] {
            assert_eq!(from_timestamp(&Timestamp { seconds, nanos }), None);
        }
    }
}
