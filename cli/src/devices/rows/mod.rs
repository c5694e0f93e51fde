//! A file of registrations, read row by row: CSV with a header, or JSON lines.
//!
//! Only the form is checked here; what may stand in a field is the server's business, and it says so row by row.

use std::io::BufRead;
use std::path::Path;

use bongsu_proto::v1::DeviceRegistration;

mod csv_rows;
mod json_rows;
mod meter;
mod records;

pub use meter::{Meter, Metered};

/// The longest row, in bytes. In CSV one quote that is never closed makes the rest of the file one row.
const MAX_ROW_BYTES: usize = 256 * 1024;
/// Names of the columns, and of the fields in JSON.
const COLUMNS: [&str; 6] = ["user_id", "provider", "token", "installation_id", "consent", "topics"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Comma-separated, the columns named in the first line; topics separated by `;`
    Csv,
    /// One JSON object per line; topics as an array
    Jsonl,
}

impl Format {
    /// By the name of the file; none for stdin and for names that do not say.
    pub fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// A row, or what is wrong with it.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// Line of the file it begins in, from 1.
    pub line: u64,
    pub content: Result<DeviceRegistration, Malformed>,
}

/// Why a row cannot be read. Its neighbours can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Name of the column; empty: the row as a whole.
    pub field: &'static str,
    pub description: String,
}

/// Reads rows until the end and gives each to `take`, until that returns false.
///
/// # Errors
///
/// When the file as a whole makes no sense or cannot be read further; rows given before stay good.
pub fn read(
    format: Format,
    input: Metered<impl BufRead>,
    take: impl FnMut(Row) -> bool,
) -> anyhow::Result<()> {
    match format {
        Format::Csv => csv_rows::read(input, take),
        Format::Jsonl => json_rows::read(input, take),
    }
}

fn malformed(field: &'static str, description: impl Into<String>) -> Malformed {
    Malformed { field, description: description.into() }
}
