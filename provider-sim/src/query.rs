//! The query part of a URL.

/// The pairs of `query` in order, decoded. `None` where a percent sign is not followed by two hexadecimal digits or the
/// result is not UTF-8.
pub(crate) fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        })
        .collect()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        let decoded = pairs("key=a%2Fb%3A1+2&duplicates=true&flag&").expect("a query");
        let expected = [("key", "a/b:1 2"), ("duplicates", "true"), ("flag", "")];
        assert_eq!(decoded, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for bad in ["key=%", "key=%4", "key=%zz", "key=%ff"] {
            assert_eq!(pairs(bad), None, "{bad}");
        }
    }
}
