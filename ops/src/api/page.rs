//! Pages (AIP-158): sizes, and tokens that say where the next page begins, bound to the filter they were given for.

use sha2::{Digest, Sha256};

use super::Violations;

/// The size of a page: `default` where the caller gives none, never more than `most`.
pub fn page_size(requested: i32, default: i64, most: i64, violations: &mut Violations) -> i64 {
    match i64::from(requested) {
        ..0 => {
            violations.add("page_size", format!("is {requested}; give 0 for the default, or 1 to {most}"));
            default
        }
        0 => default,
        size => size.min(most),
    }
}

/// What a list is filtered by, as a number that stands for it in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFilter(u64);

impl PageFilter {
    /// `list` tells lists apart, `parts` their filters.
    pub fn new<S: AsRef<str>>(list: &str, parts: impl IntoIterator<Item = S>) -> Self {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            // With its length, so that parts cannot run into each other.
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        add(list);
        parts.into_iter().for_each(|part| add(part.as_ref()));
        let hash = hash.finalize();
        Self(hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The key of a page's last row, as a token for the next page.
    pub fn token<const N: usize>(self, last: [i64; N]) -> String {
        let key: String = last.iter().map(|part| format!("{part:016x}")).collect();
        format!("{key}{:016x}", self.0)
    }

    /// The key that a token begins after; None for the empty token.
    ///
    /// # Errors
    ///
    /// What is wrong with the token.
    pub fn parse<const N: usize>(self, token: &str) -> Result<Option<[i64; N]>, &'static str> {
        if token.is_empty() {
            return Ok(None);
        }
        let unknown = "is none that this service gave; send next_page_token of the page before as it was";
        let hex =
            token.len() == 16 * (N + 1) && token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !hex {
            return Err(unknown);
        }
        let number = |i: usize| u64::from_str_radix(&token[16 * i..16 * (i + 1)], 16).map_err(|_| unknown);
        if number(N)? != self.0 {
            return Err(
                "belongs to a list with another filter; send the same filter, or no token to begin anew",
            );
        }
        let mut key = [0; N];
        for (i, part) in key.iter_mut().enumerate() {
            *part = number(i)?.cast_signed();
        }
        Ok(Some(key))
    }

    /// Cuts `rows`, read with one more than `limit`, to a page; returns the token for the next one, empty on the last.
    pub fn cut<T, const N: usize>(
        self,
        rows: &mut Vec<T>,
        limit: i64,
        key: impl Fn(&T) -> [i64; N],
    ) -> String {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if rows.len() <= limit {
            return String::new();
        }
        rows.truncate(limit);
        rows.last().map_or_else(String::new, |last| self.token(key(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_with_more_behind_it_has_a_token() {
        let filter = PageFilter::new("x", [""; 0]);
        let mut rows = vec![1, 2, 3];
        assert_eq!(filter.cut(&mut rows, 3, |id| [*id]), "");
        assert_eq!(filter.cut(&mut rows, 2, |id| [*id]), filter.token([2]));
        assert_eq!(rows, [1, 2]);
    }

    #[test]
    fn a_token_comes_back_as_it_was_and_only_with_its_filter() {
        let (one, other) = (PageFilter::new("x", ["a", "b"]), PageFilter::new("x", ["ab", ""]));
        assert_ne!(one, other);
        let given = one.token([i64::MAX, -1]);
        assert_eq!(one.parse(&given), Ok(Some([i64::MAX, -1])));
        assert_eq!(one.parse::<2>(""), Ok(None));
        other.parse::<2>(&given).expect_err("another filter");
        one.parse::<1>(&given).expect_err("another list");
        for bad in ["x", &"g".repeat(48), &"봉".repeat(16), &given[1..], &format!("+{}", &given[1..])] {
            one.parse::<2>(bad).expect_err(bad);
        }
    }
}
