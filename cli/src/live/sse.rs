//! Server-sent events, read from bytes as they come.

use std::time::Duration;

/// Bytes of one event at most: the longest notification, with room for what JSON makes of it.
const MOST_BYTES: usize = 512 * 1024;
/// What an idle stream may keep of the room that a long event took, in bytes: there may be thousands of streams.
const IDLE_BYTES: usize = 1_024;

/// One event. Lines that came without any data are one, too, since they may say when to come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Empty where it was not named.
    pub event: String,
    pub id: Option<String>,
    pub data: String,
    /// How long to wait before coming back after a break.
    pub retry: Option<Duration>,
}

/// What came is no stream of events.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoFrame {
    #[error("an event of more than {MOST_BYTES} bytes")]
    TooLong,
    #[error("an event that is not UTF-8")]
    NotText,
}

/// Bytes on one side, events on the other.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// What is before was looked through and is no end of an event.
    looked: usize,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole event; none where more bytes are needed.
    ///
    /// # Errors
    ///
    /// What came cannot be read; nor can what follows.
    pub fn next(&mut self) -> Result<Option<Frame>, NoFrame> {
        while let Some(end) = self.end() {
            let frame = std::str::from_utf8(&self.bytes[..end]).map_err(|_| NoFrame::NotText).map(parse)?;
            self.bytes.drain(..end);
            self.looked = 0;
            if self.bytes.is_empty() && self.bytes.capacity() > IDLE_BYTES {
                self.bytes = Vec::new();
            }
            if frame != Frame::default() {
                return Ok(Some(frame));
            }
        }
        if self.bytes.len() > MOST_BYTES { Err(NoFrame::TooLong) } else { Ok(None) }
    }

    /// Where the empty line ends that ends the first event.
    fn end(&mut self) -> Option<usize> {
        let mut line = self.looked;
        while let Some(length) = self.bytes[line..].iter().position(|byte| *byte == b'\n') {
            let next = line + length + 1;
            if matches!(&self.bytes[line..next], b"\n" | b"\r\n") {
                return Some(next);
            }
            line = next;
        }
        self.looked = line;
        None
    }
}

fn parse(text: &str) -> Frame {
    let mut frame = Frame::default();
    let mut data: Vec<&str> = Vec::new();
    for line in text.lines() {
        // A line that begins with a colon is a comment: its field has no name.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut frame.event),
            "id" => frame.id = Some(value.to_owned()),
            "data" => data.push(value),
            "retry" => frame.retry = value.parse().ok().map(Duration::from_millis),
            _ => {}
        }
    }
    frame.data = data.join("\n");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "retry: 1500\n\n: hello\n\nevent: connected\ndata: {\"heartbeat_ms\":15000}\n\n\
        id: 7-1\r\nevent: notification\r\ndata: {\"title\":\r\ndata:\"봉수\"}\r\n\r\nevent: heartbeat\ndata: {}\n\n";

    fn frame(event: &str, id: Option<&str>, data: &str, retry_ms: Option<u64>) -> Frame {
        let retry = retry_ms.map(Duration::from_millis);
        Frame { event: event.to_owned(), id: id.map(str::to_owned), data: data.to_owned(), retry }
    }

    #[test]
    fn however_the_bytes_are_cut_the_events_are_the_same() {
        let expected = [
            frame("", None, "", Some(1_500)),
            frame("connected", None, "{\"heartbeat_ms\":15000}", None),
            frame("notification", Some("7-1"), "{\"title\":\n\"봉수\"}", None),
            frame("heartbeat", None, "{}", None),
        ];
        for size in 1..=STREAM.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for chunk in STREAM.as_bytes().chunks(size) {
                frames.push(chunk);
                while let Some(frame) = frames.next().expect("a stream") {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, expected, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn half_an_event_is_none_and_what_never_ends_is_refused() {
        let mut frames = Frames::default();
        frames.push(b"event: notification\ndata: {");
        assert_eq!(frames.next(), Ok(None));
        frames.push(&vec![b'x'; MOST_BYTES]);
        assert_eq!(frames.next(), Err(NoFrame::TooLong));
        let mut frames = Frames::default();
        frames.push(b"data: \xff\n\n");
        assert_eq!(frames.next(), Err(NoFrame::NotText));
    }
}
