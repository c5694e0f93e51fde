//! Deliveries as CSV or as lines of JSON, a page at a time, so that memory holds one page of a million rows.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bongsu_proto::v1;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::error::Failure;
use crate::output::Output;
use crate::table::number;
use crate::times::rfc3339;
use crate::view::DeliveryView;
use crate::words::word;

/// How deliveries are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// RFC 4180, with a header
    Csv,
    /// One JSON object per line, as with --json
    Jsonl,
}

const COLUMNS: [&str; 10] = [
    "broadcast_id",
    "device_id",
    "user_id",
    "provider",
    "state",
    "attempts",
    "next_attempt_time",
    "last_code",
    "dead_reason",
    "settle_time",
];

/// An export under way.
pub struct Export {
    format: Format,
    to: To,
    rows: i64,
}

enum To {
    Stdout(BufWriter<io::Stdout>),
    /// Beside the file that it becomes at the end: whoever reads that has the old one or the whole new one.
    File {
        file: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
}

impl Export {
    /// Begins one, to a file or to stdout.
    pub fn begin(format: Format, path: Option<PathBuf>) -> Result<Self, Failure> {
        let to = match path {
            None => To::Stdout(BufWriter::new(io::stdout())),
            Some(path) => {
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let file = NamedTempFile::new_in(folder)
                    .with_context(|| format!("{} cannot be written", path.display()))?;
                To::File { file: BufWriter::new(file), path }
            }
        };
        let mut export = Self { format, to, rows: 0 };
        if format == Format::Csv {
            let mut header = String::new();
            push_record(&mut header, &COLUMNS);
            export.write(&header)?;
        }
        Ok(export)
    }

    pub fn page(&mut self, deliveries: &[v1::Delivery]) -> Result<(), Failure> {
        let mut text = String::new();
        for delivery in deliveries {
            match self.format {
                Format::Csv => push_record(&mut text, &fields(delivery)),
                Format::Jsonl => {
                    let view = DeliveryView::from(delivery);
                    text.push_str(&serde_json::to_string(&view).map_err(anyhow::Error::from)?);
                    text.push('\n');
                }
            }
        }
        self.rows += i64::try_from(deliveries.len()).unwrap_or_default();
        self.write(&text)
    }

    /// Writes what is left, and puts the file in its place.
    pub fn end(self, output: Output) -> Result<(), Failure> {
        match self.to {
            To::Stdout(mut stdout) => stdout.flush().map_err(Failure::from_stdout),
            To::File { file, path } => {
                let failed = || format!("{} cannot be written", path.display());
                let file = file.into_inner().map_err(io::IntoInnerError::into_error).with_context(failed)?;
                file.as_file().sync_all().with_context(failed)?;
                file.persist(&path).map_err(|error| error.error).with_context(failed)?;
                let note = format!("{} deliveries written to {}", number(self.rows), path.display());
                output.note_with(&note, json!({ "deliveries": self.rows }));
                Ok(())
            }
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.to {
            To::Stdout(stdout) => stdout.write_all(text.as_bytes()).map_err(Failure::from_stdout),
            To::File { file, path } => {
                let written = file.write_all(text.as_bytes());
                Ok(written.with_context(|| format!("{} cannot be written", path.display()))?)
            }
        }
    }
}

fn fields(delivery: &v1::Delivery) -> [String; 10] {
    let time = |time: Option<&prost_types::Timestamp>| time.and_then(rfc3339).unwrap_or_default();
    [
        delivery.broadcast_id.to_string(),
        delivery.device_id.to_string(),
        delivery.user_id.clone(),
        delivery.provider.clone(),
        word::<v1::DeliveryState>(delivery.state),
        delivery.attempts.to_string(),
        time(delivery.next_attempt_time.as_ref()),
        delivery.last_code.clone(),
        word::<v1::DeadReason>(delivery.dead_reason),
        time(delivery.settle_time.as_ref()),
    ]
}

/// A line of CSV: what holds a separator, a quote or a line's end is quoted, and its quotes are doubled.
fn push_record(text: &mut String, fields: &[impl AsRef<str>]) {
    for (i, field) in fields.iter().map(AsRef::as_ref).enumerate() {
        if i > 0 {
            text.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(field);
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(user: &str) -> v1::Delivery {
        let state = v1::DeliveryState::Sent.into();
        v1::Delivery { broadcast_id: 1, device_id: 2, user_id: user.into(), state, ..Default::default() }
    }

    fn exported(format: Format, path: &Path) {
        let mut export = Export::begin(format, Some(path.to_owned())).expect("begins");
        export.page(&[delivery("a,\"b\"\nc")]).expect("writes");
        export.page(&[delivery("봉수")]).expect("writes");
        assert!(!path.exists(), "not before it is whole");
        export.end(Output { json: false }).expect("ends");
    }

    #[test]
    fn a_file_is_there_once_it_is_whole_and_quotes_what_would_break_a_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let csv = folder.path().join("out.csv");
        exported(Format::Csv, &csv);
        let text = std::fs::read_to_string(csv).expect("is there");
        let expected = "1,2,\"a,\"\"b\"\"\nc\",,sent,0,,,,\r\n1,2,봉수,,sent,0,,,,\r\n";
        assert_eq!(text, format!("{}\r\n{expected}", COLUMNS.join(",")));
        let lines = folder.path().join("out.jsonl");
        exported(Format::Jsonl, &lines);
        let text = std::fs::read_to_string(lines).expect("is there");
        let users: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(users.iter().map(|u| &u["user_id"]).collect::<Vec<_>>(), ["a,\"b\"\nc", "봉수"]);
    }

    #[test]
    fn an_export_that_is_given_up_leaves_what_was_there_and_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.csv");
        std::fs::write(&path, "before").expect("writes");
        let mut export = Export::begin(Format::Csv, Some(path.clone())).expect("begins");
        export.page(&[delivery("u")]).expect("writes");
        drop(export);
        assert_eq!(std::fs::read_to_string(&path).expect("is there"), "before");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
