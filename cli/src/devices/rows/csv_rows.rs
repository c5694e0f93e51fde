//! CSV with a header.

use std::io::BufRead;

use anyhow::bail;
use bongsu_proto::v1::DeviceRegistration;

use super::records::{Record, Records};
use super::{COLUMNS, Malformed, Metered, Row, malformed};

/// Columns that must be there.
const REQUIRED: [&str; 3] = ["user_id", "provider", "token"];
/// Between the topics of a row.
const TOPIC_SEPARATOR: char = ';';

pub fn read(input: Metered<impl BufRead>, mut take: impl FnMut(Row) -> bool) -> anyhow::Result<()> {
    let mut records = Records::new(input);
    let Some(first) = records.next()? else {
        bail!("the file is empty: its first line names the columns, such as {}", COLUMNS.join(","));
    };
    let header = Header::parse(&first)?;
    while let Some(record) = records.next()? {
        if !take(Row { line: record.line, content: header.registration(&record) }) {
            break;
        }
    }
    Ok(())
}

/// Which column is which.
#[derive(Debug)]
struct Header {
    /// By position in the file.
    columns: Vec<&'static str>,
}

impl Header {
    /// Strict about names: a misspelt `consent` that is passed over would notify somebody who has said no.
    fn parse(record: &Record<'_>) -> anyhow::Result<Self> {
        let mut columns = Vec::new();
        let line = record.line;
        for name in record.fields() {
            let name = String::from_utf8_lossy(name);
            let Some(column) = COLUMNS.into_iter().find(|column| *column == name) else {
                bail!(
                    "line {line} names a column `{name}`, which is unknown: there are {}",
                    COLUMNS.join(", ")
                );
            };
            if columns.contains(&column) {
                bail!("line {line} names the column `{name}` twice");
            }
            columns.push(column);
        }
        if let Some(missing) = REQUIRED.into_iter().find(|column| !columns.contains(column)) {
            bail!("line {line} does not name the column `{missing}`; it must name {}", REQUIRED.join(", "));
        }
        Ok(Self { columns })
    }

    fn registration(&self, record: &Record<'_>) -> Result<DeviceRegistration, Malformed> {
        let (there, named) = (record.fields().len(), self.columns.len());
        if there != named {
            return Err(malformed("", format!("the row has {there} fields, the header names {named}")));
        }
        let mut registration = DeviceRegistration::default();
        for (&column, value) in self.columns.iter().zip(record.fields()) {
            let value = std::str::from_utf8(value).map_err(|_| malformed(column, "is not UTF-8"))?;
            match column {
                "user_id" => registration.user_id = value.to_owned(),
                "provider" => registration.provider = value.to_owned(),
                "token" => registration.token = value.to_owned(),
                "installation_id" => registration.installation_id = value.to_owned(),
                "consent" => registration.consent = parse_consent(value)?,
                _ => registration.topics = parse_topics(value),
            }
        }
        Ok(registration)
    }
}

/// Empty is unset: on for a new device, unchanged for a known one.
fn parse_consent(value: &str) -> Result<Option<bool>, Malformed> {
    match value.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "true" | "yes" | "on" | "1" => Ok(Some(true)),
        "false" | "no" | "off" | "0" => Ok(Some(false)),
        _ => {
            let value = value.chars().take(20).collect::<String>();
            Err(malformed(
                "consent",
                format!("is `{value}`; write true or false, or nothing to leave it as it is"),
            ))
        }
    }
}

fn parse_topics(value: &str) -> Vec<String> {
    value.split(TOPIC_SEPARATOR).map(str::trim).filter(|topic| !topic.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &[u8]) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let take = |row| {
            rows.push(row);
            true
        };
        read(Metered::new(text, Default::default()), take)?;
        Ok(rows)
    }

    fn rows(text: &str) -> Vec<Row> {
        read_all(text.as_bytes()).expect("a readable file")
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let rows =
            rows("\u{feff}token, user_id,provider,topics,consent,installation_id\nt,u,p,\"a; b;\",no,i\n");
        let expected = DeviceRegistration {
            user_id: "u".into(),
            provider: "p".into(),
            token: "t".into(),
            installation_id: "i".into(),
            consent: Some(false),
            topics: vec!["a".into(), "b".into()],
        };
        assert_eq!(rows, [Row { line: 2, content: Ok(expected) }]);
    }

    #[test]
    fn rows_know_their_line_past_empty_lines_and_line_breaks_in_quotes() {
        for newline in ["\n", "\r\n"] {
            let lines = ["user_id,provider,token", "u1,p,t", "", "", "\"u\n2\",p,t", "u3,p,t", "", "u4,p,t"];
            let text = lines.join(newline);
            let found: Vec<u64> = rows(&text).iter().map(|row| row.line).collect();
            assert_eq!(found, [2, 5, 7, 9], "{newline:?}");
        }
    }

    #[test]
    fn a_bad_row_does_not_stop_its_neighbours() {
        let text = b"user_id,provider,token,consent\nu,p,t,maybe\nu,p\nu,p,t,true,more\n\xff,p,t,\nu,p,t,\n";
        let rows = read_all(text).expect("a readable file");
        let problems: Vec<(u64, &str)> =
            rows.iter().filter_map(|row| Some((row.line, row.content.as_ref().err()?.field))).collect();
        assert_eq!(problems, [(2, "consent"), (3, ""), (4, ""), (5, "user_id")]);
        assert_eq!(rows[4].content.as_ref().expect("a good row").consent, None);
    }

    #[test]
    fn a_header_that_may_mean_something_else_is_refused() {
        for (text, words) in [
            ("", "the file is empty"),
            ("user_id,provider,token,consnt\n", "`consnt`, which is unknown"),
            ("user_id,provider\n", "does not name the column `token`"),
            ("user_id,provider,token,token\n", "`token` twice"),
            ("u1,push,abc\n", "`u1`, which is unknown"),
        ] {
            let error = read_all(text.as_bytes()).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_quote_that_is_never_closed_does_not_take_the_memory() {
        let text = format!("user_id,provider,token\n\nu,p,\"t\n{}", "u,p,t\n".repeat(1_000_000));
        let error = read_all(text.as_bytes()).expect_err("an open quote");
        let error = format!("{error:#}");
        assert!(error.contains("line 3") && error.contains("quote that is not closed"), "{error}");
    }
}
