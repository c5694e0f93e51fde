//! Where the words go: data to stdout, everything else to stderr, for people or as JSON.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Failure;

/// How this run talks. JSON is one object per line, on both streams, so that `jq` can read either.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
}

impl Output {
    /// Writes text that is data, as it is.
    pub fn data(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::from_stdout)
    }

    /// Writes one object on a line of its own.
    pub fn object(self, object: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_string(object).map_err(anyhow::Error::from)?;
        line.push('\n');
        self.data(&line)
    }

    /// Writes one object, or what people read instead.
    pub fn either(self, object: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { self.object(object) } else { self.data(&text()) }
    }

    /// Says something beside the data.
    pub fn note(self, text: &str) {
        self.note_with(text, json!({}));
    }

    /// Like [`Output::note`], with fields for machines. Values that people need as well belong into the text.
    pub fn note_with(self, text: &str, fields: Value) {
        if self.json {
            let mut note = json!({ "note": text });
            if let (Some(note), Value::Object(fields)) = (note.as_object_mut(), fields) {
                note.extend(fields);
            }
            complain(&note.to_string());
        } else {
            complain(text);
        }
    }

    /// Whether something may move on stderr.
    pub fn may_animate(self) -> bool {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !self.json && !dumb && io::stderr().is_terminal()
    }
}

/// Writes a line to stderr. Nobody is left to tell if that fails, and `eprintln!` would panic.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
