//! Whether the bus works, said once each time that changes.

use std::sync::{Arc, Mutex, PoisonError};

use crate::metrics;

/// One half of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Telling,
    Listening,
}

/// What this process knows of its bus. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    telling: Option<bool>,
    listening: Option<bool>,
}

/// What became of the whole.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// Known for the first time.
    Works,
    Broke,
    Back,
}

impl Known {
    /// None while nothing is known of either.
    fn up(&self) -> Option<bool> {
        match (self.telling, self.listening) {
            (None, None) => None,
            halves => Some(halves.0 != Some(false) && halves.1 != Some(false)),
        }
    }

    fn learn(&mut self, half: Half, works: bool) -> Option<Change> {
        let before = self.up();
        match half {
            Half::Telling => self.telling = Some(works),
            Half::Listening => self.listening = Some(works),
        }
        match (before, self.up()) {
            (None, Some(true)) => Some(Change::Works),
            (None | Some(true), Some(false)) => Some(Change::Broke),
            (Some(false), Some(true)) => Some(Change::Back),
            _ => None,
        }
    }
}

impl Health {
    pub(super) fn works(&self, half: Half) {
        let change = self.learn(half, true);
        if change == Some(Change::Back) {
            tracing::info!("the live bus is back");
        }
        if change.is_some() {
            metrics::bus_works();
        }
    }

    pub(super) fn broke(&self, half: Half, why: &str) {
        if self.learn(half, false) == Some(Change::Broke) {
            tracing::warn!(
                "the live bus is down, connected users hear of what is new some seconds later: {why}"
            );
            metrics::bus_broke();
        }
    }

    fn learn(&self, half: Half, works: bool) -> Option<Change> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).learn(half, works)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_is_said_once_and_so_is_its_end_whichever_half_it_was() {
        let mut known = Known::default();
        assert_eq!(known.learn(Half::Telling, true), Some(Change::Works));
        assert_eq!(known.learn(Half::Listening, true), None);
        assert_eq!(known.learn(Half::Listening, false), Some(Change::Broke));
        assert_eq!(known.learn(Half::Telling, false), None);
        assert_eq!(known.learn(Half::Listening, false), None);
        assert_eq!(known.learn(Half::Listening, true), None, "telling is still broken");
        assert_eq!(known.learn(Half::Telling, true), Some(Change::Back));
    }

    #[test]
    fn a_bus_that_is_down_from_the_start_is_said_to_be() {
        assert_eq!(Known::default().learn(Half::Telling, false), Some(Change::Broke));
    }
}
