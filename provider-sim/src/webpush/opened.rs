//! What browsers were sent last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Payloads that are kept; older ones are forgotten.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<VecDeque<(String, String)>>);

impl Opened {
    pub fn keep(&self, name: &str, payload: String) {
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.len() == MOST {
            opened.pop_front();
        }
        opened.push_back((name.to_owned(), payload));
    }

    pub fn last(&self, name: &str) -> Option<String> {
        let opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        opened.iter().rev().find(|(of, _)| of == name).map(|(_, payload)| payload.clone())
    }
}
