//! The terminal: drawn over, and left as it was, whatever ends us.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic;
use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the top; the rest of the line, and of the screen, is emptied.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
const BOLD: (&str, &str) = ("\x1b[1m", "\x1b[0m");

/// Whether there is one to read keys from and to draw on.
pub fn is_one() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Its columns and rows.
pub fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// A screen of our own, until it is dropped.
#[derive(Debug)]
pub struct Screen {
    before: Arc<Termios>,
    bold: bool,
}

impl Screen {
    pub fn enter() -> io::Result<Self> {
        let before = Arc::new(tcgetattr(io::stdin())?);
        let mut keys = Termios::clone(&before);
        // Keys come one by one and are not shown. Ctrl-C stays a signal.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &keys)?;
        // What a panic says must be seen: first the terminal, then the words.
        let (words, modes) = (panic::take_hook(), before.clone());
        panic::set_hook(Box::new(move |panicked| {
            leave(&modes);
            words(panicked);
        }));
        let screen = Self { before, bold: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
        let mut stdout = io::stdout().lock();
        stdout.write_all(ENTER.as_bytes())?;
        stdout.flush()?;
        Ok(screen)
    }

    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (n, line) in lines.iter().enumerate() {
            if n > 0 {
                text.push_str("\r\n");
            }
            match n {
                0 if self.bold => text.extend([BOLD.0, line, BOLD.1]),
                _ => text.push_str(line),
            }
            text.push_str(REST_OF_LINE);
        }
        text.push_str(REST_OF_SCREEN);
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave(&self.before);
    }
}

fn leave(before: &Termios) {
    // Nobody is left to tell if that fails.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(LEAVE.as_bytes());
    let _ = stdout.flush();
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
}
