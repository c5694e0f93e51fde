//! Which broadcasts a sweep looks at: those that are not final, a thousand a step.
//!
//! They are not found in the index of open broadcasts at each step: where somebody holds an old snapshot, it keeps an entry for
//! each broadcast that has ended since, and after a million of short ones a look at all of it takes a second. So a lane remembers
//! which are open, drops those that have ended, and looks only at what is new; and at all of it again now and then.

use std::time::{Duration, Instant};

use sqlx::PgConnection;

use crate::error::Result;

/// Broadcasts in one step.
const STEP: usize = 1_000;
/// How often all of the index is looked at, for whose row was seen late or whose id is of a clock that went wrong …
const LOOK_AT_ALL: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// … and how many times as long as such a look took.
const LOOK_AT_ALL_SHARE: u32 = 50;

/// The open broadcasts as one lane knows them. Steps go through them in rounds.
#[derive(Debug, Default)]
pub(super) struct OpenBroadcasts {
    /// Of this round: those that are still to be looked at, the latest first, and those that were open when they were.
    rest: Vec<i64>,
    kept: Vec<i64>,
    /// What is created from now on has a greater id than this.
    from: i64,
    looked_at_all: Option<Instant>,
    look_at_all_every: Duration,
}

impl OpenBroadcasts {
    /// The next ones to look at, in order of their ids. None: there are no open broadcasts.
    pub(super) async fn step(&mut self, connection: &mut PgConnection) -> Result<Vec<i64>> {
        if self.rest.is_empty() {
            self.begin_round(connection).await?;
        }
        let step: Vec<i64> = self.rest.iter().rev().take(STEP).copied().collect();
        if step.is_empty() {
            return Ok(step);
        }
        let open =
            sqlx::query_file_scalar!("queries/sweep_still_open.sql", &step).fetch_all(connection).await?;
        self.rest.truncate(self.rest.len() - step.len());
        self.kept.extend(&open);
        Ok(open)
    }

    /// The last step's, which were so many, are looked at again.
    pub(super) fn stay(&mut self, ids: usize) {
        let again = self.kept.split_off(self.kept.len().saturating_sub(ids));
        self.rest.extend(again.into_iter().rev());
    }

    /// Whether each was looked at that was there when the round began.
    pub(super) fn is_round_over(&self) -> bool {
        self.rest.is_empty()
    }

    async fn begin_round(&mut self, connection: &mut PgConnection) -> Result<()> {
        let began = Instant::now();
        let all = self.looked_at_all.is_none_or(|looked| looked + self.look_at_all_every <= began);
        let from = if all { i64::MIN } else { self.from };
        let look = sqlx::query_file!("queries/sweep_open.sql", from).fetch_one(connection).await;
        if all {
            // Also where it took too long: what is new is swept meanwhile.
            self.looked_at_all = Some(began);
            self.look_at_all_every =
                (began.elapsed() * LOOK_AT_ALL_SHARE).clamp(LOOK_AT_ALL.0, LOOK_AT_ALL.1);
        }
        let look = look?;
        self.rest = std::mem::take(&mut self.kept);
        self.rest.retain(|id| *id < from);
        self.rest.extend(look.open);
        self.rest.reverse();
        self.from = look.next;
        Ok(())
    }
}
