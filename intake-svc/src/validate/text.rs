//! Rules for strings.

use std::fmt::Display;
use std::ops::RangeInclusive;

use bongsu_ops::api::Violations;

/// The most characters of a topic.
const MAX_TOPIC_BYTES: usize = 128;

/// A name or an address: its length in bytes, and no control character.
pub(super) fn name(
    field: impl Display,
    value: &str,
    bytes: RangeInclusive<usize>,
    violations: &mut Violations,
) {
    length(&field, value, &bytes, violations);
    if let Some(c) = value.chars().find(|c| c.is_control()) {
        violations
            .add(&field, format!("has the control character U+{:04X}; there must be none", u32::from(c)));
    }
}

/// Text for people: its length in bytes, and no control character but tab and line breaks.
pub(super) fn prose(field: impl Display, value: &str, most: usize, violations: &mut Violations) {
    length(&field, value, &(0..=most), violations);
    if let Some(c) = value.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r')) {
        violations.add(
            &field,
            format!("has the control character U+{:04X}; only tab and line breaks are allowed", u32::from(c)),
        );
    }
}

/// Data for the app: anything that Postgres can keep.
pub(super) fn opaque(field: impl Display, value: &str, violations: &mut Violations) {
    if value.contains('\0') {
        violations
            .add(&field, "has the character U+0000, which cannot be stored; encode binary data as base64");
    }
}

/// A topic's name.
pub(crate) fn topic(field: impl Display, value: &str, violations: &mut Violations) {
    length(&field, value, &(1..=MAX_TOPIC_BYTES), violations);
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_~%".contains(c);
    if let Some(c) = value.chars().find(|c| !allowed(*c)) {
        violations.add(
            &field,
            format!("has the character {c:?}; only letters A-Z and a-z, digits and . _ ~ % - are allowed"),
        );
    }
}

fn length(field: &impl Display, value: &str, bytes: &RangeInclusive<usize>, violations: &mut Violations) {
    if bytes.contains(&value.len()) {
        return;
    }
    let (least, most) = (bytes.start(), bytes.end());
    if value.is_empty() {
        violations.add(field, format!("is missing; give {least} to {most} bytes"));
    } else {
        violations.add(field, format!("has {} bytes; at most {most} are allowed", value.len()));
    }
}

/// A key is the caller's text of any length: shown cut, and to be escaped.
pub(super) fn shown(key: &str) -> String {
    key.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(check: impl FnOnce(&mut Violations)) -> Option<String> {
        let mut violations = Violations::default();
        check(&mut violations);
        (!violations.is_empty()).then(|| violations.summary())
    }

    #[test]
    fn length_is_counted_in_bytes_and_the_limit_itself_is_allowed() {
        assert_eq!(problem(|v| name("x", &"a".repeat(256), 1..=256, v)), None);
        assert!(problem(|v| name("x", &"a".repeat(257), 1..=256, v)).is_some());
        assert_eq!(problem(|v| prose("x", &"봉".repeat(341), 1023, v)), None);
        let error = problem(|v| prose("x", &"봉".repeat(342), 1023, v));
        assert_eq!(error.as_deref(), Some("x: has 1026 bytes; at most 1023 are allowed"));
    }

    #[test]
    fn control_characters_are_refused_emoji_and_line_breaks_in_prose_are_not() {
        for bad in ["\0", "a\u{1b}[31m", "\u{7f}", "\u{85}"] {
            assert!(problem(|v| name("x", bad, 1..=256, v)).is_some(), "{bad:?}");
            assert!(problem(|v| prose("x", bad, 256, v)).is_some(), "{bad:?}");
        }
        assert!(problem(|v| name("x", "a\nb", 1..=256, v)).is_some());
        assert_eq!(problem(|v| prose("x", "봉화가\n올랐다\t🔥👨‍👩‍👧", 256, v)), None);
        assert!(problem(|v| opaque("x", "a\0b", v)).is_some());
        assert_eq!(problem(|v| opaque("x", "a\u{1}b", v)), None);
    }

    #[test]
    fn topics_have_a_small_alphabet() {
        assert_eq!(problem(|v| topic("x", "news.kr-2026_a~b%20", v)), None);
        for bad in ["", "a b", "뉴스", "a/b", &"a".repeat(129)] {
            assert!(problem(|v| topic("x", bad, v)).is_some(), "{bad:?}");
        }
        assert_eq!(problem(|v| topic("x", &"a".repeat(128), v)), None);
    }
}
