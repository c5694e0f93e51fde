//! From rows to messages, on a thread of its own.

use std::io::BufRead;

use bongsu_proto::v1;
use tokio::sync::mpsc;

use super::report::{MAX_PROBLEMS, Problem};
use crate::devices::line_map::LineMap;
use crate::devices::rows::{self, Format, Metered};

/// Rows in a message.
const MAX_MESSAGE_ROWS: usize = 5_000;
/// Bytes in a message: room below the 4 MiB that gRPC servers take by default.
const MAX_MESSAGE_BYTES: usize = 3 * 1024 * 1024;

/// What came of reading the file.
#[derive(Debug, Default)]
pub struct Batches {
    /// Lines of the rows that went into messages.
    pub lines: LineMap,
    /// Rows that could be read.
    pub readable: u64,
    /// Rows that could not.
    pub malformed: u64,
    /// The first [`MAX_PROBLEMS`] of those.
    pub problems: Vec<Problem>,
    /// Why reading ended before the end of the file.
    pub failure: Option<anyhow::Error>,
}

impl Batches {
    /// Reads all rows and sends them on, until the file ends or nobody takes them any more.
    pub fn read(
        format: Format,
        input: Metered<impl BufRead>,
        messages: &mpsc::Sender<v1::ImportDevicesRequest>,
    ) -> Self {
        let mut batches = Self::default();
        let mut message = Message::default();
        let read = rows::read(format, input, |row| match row.content {
            Ok(registration) => {
                let full = message.push(registration);
                batches.lines.push(row.line);
                batches.readable += 1;
                full.is_none_or(|full| messages.blocking_send(full).is_ok())
            }
            Err(malformed) => {
                batches.malformed += 1;
                if batches.problems.len() < MAX_PROBLEMS {
                    let problem = Problem::new(row.line, malformed.field, malformed.description);
                    batches.problems.push(problem);
                }
                true
            }
        });
        batches.failure = read.err();
        if !message.rows.is_empty() {
            // Where nobody takes it, the call has failed and says so itself.
            let _ = messages.blocking_send(message.take());
        }
        batches
    }
}

/// The message that is being filled.
#[derive(Debug, Default)]
struct Message {
    rows: Vec<v1::DeviceRegistration>,
    bytes: usize,
}

impl Message {
    /// Adds a row; returns the message before it where that is full.
    fn push(&mut self, row: v1::DeviceRegistration) -> Option<v1::ImportDevicesRequest> {
        let bytes = encoded_bytes(&row);
        let full = self.rows.len() == MAX_MESSAGE_ROWS || self.bytes + bytes > MAX_MESSAGE_BYTES;
        let full = (full && !self.rows.is_empty()).then(|| self.take());
        self.bytes += bytes;
        self.rows.push(row);
        full
    }

    fn take(&mut self) -> v1::ImportDevicesRequest {
        let message = std::mem::take(self);
        v1::ImportDevicesRequest { registrations: message.rows }
    }
}

/// No less than the row takes in a message: each field has a tag and a length beside it.
fn encoded_bytes(row: &v1::DeviceRegistration) -> usize {
    const TAG_AND_LENGTH: usize = 4;
    let texts = [&row.user_id, &row.provider, &row.token, &row.installation_id];
    let text_bytes = |text: &String| text.len() + TAG_AND_LENGTH;
    2 * TAG_AND_LENGTH + texts.into_iter().chain(&row.topics).map(text_bytes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: String) -> (Vec<usize>, Batches) {
        let (sender, mut messages) = mpsc::channel(1);
        let reading = tokio::task::spawn_blocking(move || {
            let input = Metered::new(std::io::Cursor::new(text), Default::default());
            Batches::read(Format::Csv, input, &sender)
        });
        let mut sizes = Vec::new();
        while let Some(message) = messages.recv().await {
            sizes.push(message.registrations.len());
        }
        (sizes, reading.await.expect("no panic"))
    }

    #[tokio::test]
    async fn messages_are_bounded_in_rows_and_the_lines_of_their_rows_are_known() {
        let header = "user_id,provider,token\n";
        let (sizes, batches) = read(format!("{header}{}", "u,p,t\nmalformed\n".repeat(12_000))).await;
        assert_eq!(sizes, [5_000, 5_000, 2_000]);
        assert_eq!(
            (batches.readable, batches.malformed, batches.problems.len()),
            (12_000, 12_000, MAX_PROBLEMS)
        );
        assert_eq!(batches.lines.line(11_999), Some(24_000));
        assert!(batches.failure.is_none());
    }

    #[tokio::test]
    async fn messages_are_bounded_in_bytes() {
        let long = format!("u,p,{}\n", "t".repeat(100_000));
        let (sizes, _) = read(format!("user_id,provider,token\n{}", long.repeat(70))).await;
        assert_eq!(sizes, [31, 31, 8]);
    }

    #[tokio::test]
    async fn what_was_read_before_a_failure_is_sent() {
        let (sizes, batches) =
            read(format!("user_id,provider,token\nu,p,t\nu,p,\"{}", "x".repeat(1_000_000))).await;
        assert_eq!((sizes, batches.readable), (vec![1], 1));
        assert!(batches.failure.is_some());
    }
}
