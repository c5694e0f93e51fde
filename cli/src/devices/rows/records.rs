//! Records of a CSV file with the lines they begin in.
//!
//! This drives csv-core, the parser inside the crate csv, because that crate's own reader puts a record that follows
//! empty lines at the first of those, and reads a row of any length into memory.

use std::io::BufRead;

use anyhow::{Context as _, bail};
use csv_core::{ReadRecordResult, Reader};

use super::{MAX_ROW_BYTES, Metered};

/// More fields than any header of ours can name.
const MAX_FIELDS: usize = 256;

pub struct Records<R> {
    input: Metered<R>,
    parser: Reader,
    /// Line of the next byte.
    line: u64,
    /// The fields of one record, end to end.
    text: Vec<u8>,
    /// Where in `text` each of them ends.
    ends: Vec<usize>,
}

#[derive(Debug)]
pub struct Record<'a> {
    /// Line of the file it begins in, from 1.
    pub line: u64,
    text: &'a [u8],
    ends: &'a [usize],
}

impl<R: BufRead> Records<R> {
    pub fn new(input: Metered<R>) -> Self {
        let (text, ends) = (vec![0; MAX_ROW_BYTES], vec![0; MAX_FIELDS]);
        Self { input, parser: Reader::new(), line: 1, text, ends }
    }

    /// The next record; none at the end.
    pub fn next(&mut self) -> anyhow::Result<Option<Record<'_>>> {
        self.skip_empty_lines()?;
        let line = self.line;
        let (mut text_len, mut ends_len) = (0, 0);
        loop {
            let bytes =
                self.input.fill_buf().with_context(|| format!("line {} could not be read", self.line))?;
            let (text, ends) = (&mut self.text[text_len..], &mut self.ends[ends_len..]);
            let (result, read, written, ended) = self.parser.read_record(bytes, text, ends);
            self.line += newlines(&bytes[..read]);
            self.input.consume(read);
            text_len += written;
            ends_len += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::End => return Ok(None),
                ReadRecordResult::Record => {
                    self.input.row_done();
                    return Ok(Some(Record {
                        line,
                        text: &self.text[..text_len],
                        ends: &self.ends[..ends_len],
                    }));
                }
                ReadRecordResult::OutputFull => bail!(
                    "the row at line {line} is longer than {MAX_ROW_BYTES} bytes: is there a quote that is not closed?"
                ),
                ReadRecordResult::OutputEndsFull => {
                    bail!(
                        "the row at line {line} has more than {MAX_FIELDS} fields: is the separator a comma?"
                    )
                }
            }
        }
    }

    /// The parser would pass over them itself, and take them for the beginning of the record.
    fn skip_empty_lines(&mut self) -> anyhow::Result<()> {
        loop {
            let bytes =
                self.input.fill_buf().with_context(|| format!("line {} could not be read", self.line))?;
            let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if empty == 0 {
                return Ok(());
            }
            self.line += newlines(&bytes[..empty]);
            self.input.consume(empty);
        }
    }
}

impl<'a> Record<'a> {
    /// The fields without the white space around them.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let (text, ends) = (self.text, self.ends);
        (0..ends.len()).map(move |i| {
            let start = if i == 0 { 0 } else { ends[i - 1] };
            text[start..ends[i]].trim_ascii()
        })
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
