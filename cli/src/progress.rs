//! Something that moves while it takes long: a bar on a terminal, now and then a line elsewhere, nothing with `--json`.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{Output, complain};

/// Without colours, so there is nothing for NO_COLOR to switch off.
const BAR: &str = "{bar:30} {percent:>3}%  {msg}";
const SPINNER: &str = "{spinner} {msg}";

#[derive(Debug)]
pub enum Progress {
    Bar(ProgressBar),
    Lines {
        every: Duration,
        /// None before the first line.
        last: Option<Instant>,
    },
    Silent,
}

impl Progress {
    /// Lines come at most `every` so often.
    pub fn new(output: Output, every: Duration) -> Self {
        if output.json {
            Self::Silent
        } else if output.may_animate() {
            let bar = ProgressBar::new(0);
            bar.enable_steady_tick(Duration::from_millis(200));
            Self::Bar(bar)
        } else {
            Self::Lines { every, last: None }
        }
    }

    /// Shows where it is: `done` of `total` – 0: not known – and `text`.
    pub fn show(&mut self, done: u64, total: u64, text: &str) {
        match self {
            Self::Bar(bar) => {
                let template = if total > 0 { BAR } else { SPINNER };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style.progress_chars("=> "));
                }
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(text.to_owned());
            }
            Self::Lines { every, last } => {
                if last.is_none_or(|last| last.elapsed() >= *every) {
                    *last = Some(Instant::now());
                    complain(text);
                }
            }
            Self::Silent => {}
        }
    }

    /// When the next line may be shown, if that is not now.
    pub fn next_line(&self) -> Option<Instant> {
        match self {
            Self::Lines { every, last: Some(last) } if last.elapsed() < *every => Some(*last + *every),
            _ => None,
        }
    }

    /// Says something without disturbing the bar.
    pub fn note(&self, output: Output, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| output.note(text)),
            Self::Lines { .. } | Self::Silent => output.note(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
