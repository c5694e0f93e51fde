//! Enums of the API as short words: `BROADCAST_STATE_FANNING_OUT` is `fanning_out`, in arguments, tables and JSON.

use bongsu_proto::v1;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// An id of the API, as an argument.
pub fn parse_id(text: &str) -> Result<i64, String> {
    match text.trim().parse() {
        Ok(id) if id > 0 => Ok(id),
        _ => Err("ids are numbers, such as 63239275003510785: lists show them, and `send` prints its own"
            .to_owned()),
    }
}

/// An enum of the API.
pub trait Word: TryFrom<i32> + Copy + Send + Sync + 'static {
    /// What the proto file writes before every word.
    const PREFIX: &'static str;
    fn full_name(self) -> &'static str;
}

macro_rules! words {
    ($($name:ident $prefix:literal),* $(,)?) => {$(
        impl Word for v1::$name {
            const PREFIX: &'static str = $prefix;
            fn full_name(self) -> &'static str {
                self.as_str_name()
            }
        }
    )*};
}

words! {
    BroadcastState "BROADCAST_STATE_",
    Priority "PRIORITY_",
    Guarantee "GUARANTEE_",
    Routing "ROUTING_",
    DeliveryState "DELIVERY_STATE_",
    DeadReason "DEAD_REASON_",
    RetireReason "RETIRE_REASON_",
    DeviceState "DEVICE_STATE_",
    ParkReason "PARK_REASON_",
    DurationBasis "DURATION_BASIS_",
    PreflightWarningKind "PREFLIGHT_WARNING_KIND_",
    DeliveryVerdict "DELIVERY_VERDICT_",
    DeviceEventKind "DEVICE_EVENT_KIND_",
    SenderState "SENDER_STATE_",
}

/// The word for a value of the wire; empty for unspecified, and the number of one that a newer server knows.
pub fn word<W: Word>(value: i32) -> String {
    match W::try_from(value) {
        Ok(_) if value == 0 => String::new(),
        Ok(known) => short(known),
        Err(_) => format!("unknown_{value}"),
    }
}

/// A parser for clap, which then also lists the words in help and completions. Takes dashes for underscores.
pub fn parser<W: Word>() -> impl TypedValueParser<Value = W> {
    // Values of our enums count up from 1 without gaps; 0 is "unspecified".
    let all = || (1..).map_while(|value| W::try_from(value).ok());
    // clap keeps words for ever anyway; without its feature `string` it wants them to be static.
    let possible = |word: String| {
        let dashed = word.replace('_', "-");
        let value = PossibleValue::new(&*word.leak());
        if dashed.contains('-') { value.alias(&*dashed.leak()) } else { value }
    };
    PossibleValuesParser::new(all().map(short).map(possible)).try_map(move |text| {
        let word = text.replace('-', "_");
        all().find(|value| short(*value) == word).ok_or("no such word") // clap has checked already
    })
}

/// The number of a word, and where it is none, the words there are.
pub fn value<W: Word + Into<i32>>(word: &str) -> Result<i32, String> {
    let all = || (1..).map_while(|value| W::try_from(value).ok());
    let wanted = word.to_ascii_lowercase();
    let found = all().find(|value| short(*value) == wanted).map(Into::into);
    found.ok_or_else(|| {
        let words: Vec<String> = all().map(short).collect();
        format!("`{word}` is not one of {}", words.join(", "))
    })
}

fn short<W: Word>(value: W) -> String {
    let name = value.full_name();
    name.strip_prefix(W::PREFIX).unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_lower_case() {
        assert_eq!(word::<v1::BroadcastState>(2), "fanning_out");
        assert_eq!(word::<v1::DeadReason>(v1::DeadReason::AttemptsExhausted as i32), "attempts_exhausted");
        assert_eq!(word::<v1::Priority>(0), "");
        assert_eq!(word::<v1::RetireReason>(99), "unknown_99");
    }

    #[test]
    fn every_word_but_unspecified_can_be_given() {
        let parser = parser::<v1::DeliveryState>();
        let words: Vec<String> =
            parser.possible_values().expect("a list").map(|value| value.get_name().to_owned()).collect();
        assert_eq!(
            words,
            ["pending", "sent", "dead", "expired", "skipped", "cancelled", "sending", "unconfirmed"]
        );
    }
}
