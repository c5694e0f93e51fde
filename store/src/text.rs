//! Providers' words, as they are stored.

/// Bytes of a provider's code and words that are kept.
pub(crate) const CODE_BYTES: usize = 64;
pub(crate) const DETAIL_BYTES: usize = 512;

/// A provider's bytes, made safe to store and to show: control characters (Postgres text cannot hold NUL) become spaces,
/// and what is longer than `bytes` is cut at a character.
pub(crate) fn printable(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if out.len() + c.len_utf8() > bytes {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_says_is_stored_printable_and_within_its_bound() {
        assert_eq!(printable("a\0b\nc", 64), "a b c");
        assert_eq!(printable("봉수봉수", 7), "봉수");
        assert_eq!(printable("", 64), "");
    }
}
