//! JSON lines.

use std::io::{BufRead, Read as _};

use anyhow::{Context as _, bail};
use bongsu_proto::v1::DeviceRegistration;
use serde::Deserialize;

use super::{COLUMNS, MAX_ROW_BYTES, Malformed, Metered, Row, malformed};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Strict about names: a misspelt `consent` that is passed over would notify somebody who has said no.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRow {
    user_id: String,
    provider: String,
    token: String,
    #[serde(default)]
    installation_id: Option<String>,
    #[serde(default)]
    consent: Option<bool>,
    #[serde(default)]
    topics: Option<Vec<String>>,
}

pub fn read(mut input: Metered<impl BufRead>, mut take: impl FnMut(Row) -> bool) -> anyhow::Result<()> {
    let mut text = Vec::new();
    for line in 1_u64.. {
        text.clear();
        let read = input.by_ref().take(MAX_ROW_BYTES as u64).read_until(b'\n', &mut text);
        match read.with_context(|| format!("line {line} could not be read"))? {
            0 => break,
            MAX_ROW_BYTES if !text.ends_with(b"\n") => {
                bail!(
                    "line {line} is longer than {MAX_ROW_BYTES} bytes: is this JSON with one object on a line?"
                )
            }
            _ => {}
        }
        let text = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| line == 1).unwrap_or(&text).trim_ascii();
        if text.is_empty() {
            continue;
        }
        let content = parse(text);
        input.row_done();
        if !take(Row { line, content }) {
            break;
        }
    }
    Ok(())
}

fn parse(text: &[u8]) -> Result<DeviceRegistration, Malformed> {
    let row: JsonRow = serde_json::from_slice(text).map_err(|error| {
        let names = COLUMNS.join(", ");
        malformed("", format!("not a registration in JSON ({error}); an object on one line may have {names}"))
    })?;
    Ok(DeviceRegistration {
        user_id: row.user_id,
        provider: row.provider,
        token: row.token,
        installation_id: row.installation_id.unwrap_or_default(),
        consent: row.consent,
        topics: row.topics.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        let take = |row| {
            rows.push(row);
            true
        };
        read(Metered::new(text.as_bytes(), Default::default()), take).expect("a readable file");
        rows
    }

    #[test]
    fn a_line_is_a_row_and_empty_lines_are_passed_over() {
        let rows = rows(concat!(
            "\u{feff}{\"user_id\":\"u\",\"provider\":\"p\",\"token\":\"t\",\"consent\":false,\"topics\":[\"a\"]}\r\n",
            "\n",
            "{\"token\":\"t2\",\"user_id\":\"가\",\"provider\":\"p\",\"installation_id\":null}"
        ));
        let first = rows[0].content.as_ref().expect("a good row");
        assert_eq!(
            (rows[0].line, first.consent, first.topics.as_slice()),
            (1, Some(false), &["a".to_owned()][..])
        );
        let second = rows[1].content.as_ref().expect("a good row");
        assert_eq!((rows[1].line, second.user_id.as_str(), second.consent), (3, "가", None));
    }

    #[test]
    fn a_bad_line_does_not_stop_its_neighbours() {
        let good = r#"{"user_id":"u","provider":"p","token":"t"}"#;
        let bad = [
            "{",
            "[]",
            r#"{"user_id":"u","provider":"p"}"#,
            r#"{"user_id":"u","provider":"p","token":"t","consnt":false}"#,
            r#"{"user_id":"u","provider":"p","token":"t","consent":"no"}"#,
            r#"{"user_id":7,"provider":"p","token":"t"}"#,
        ];
        let rows = rows(&format!("{good}\n{}\n{good}\n", bad.join("\n")));
        let good_lines: Vec<u64> =
            rows.iter().filter(|row| row.content.is_ok()).map(|row| row.line).collect();
        assert_eq!((rows.len(), good_lines), (8, vec![1, 8]));
    }

    #[test]
    fn a_line_without_end_is_not_read_into_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let error = read(Metered::new(endless, Default::default()), |_| true).expect_err("too long");
        assert!(format!("{error:#}").contains("longer than 262144 bytes"), "{error:#}");
    }
}
