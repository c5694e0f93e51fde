//! Pausing, resuming and cancelling broadcasts. Each is a flag that claims look at, so that it acts at once; owners of
//! leased batches read it four times a second, and the sweep does the rest.

use crate::broadcast::{BroadcastState, Controlled};
use crate::connect::Store;
use crate::error::Result;
use crate::ids::BroadcastId;
use crate::sweep::hold_and_offer;

impl Store {
    /// Cancels a broadcast that has not ended. No batch of it is claimed any more once this returns; what is leased is
    /// settled by its owner, the rest by the sweep.
    pub async fn cancel_broadcast(&self, id: BroadcastId) -> Result<Controlled> {
        let cancelled = sqlx::query_file!("queries/broadcast_cancel.sql", id.0).execute(&self.pool).await?;
        if cancelled.rows_affected() > 0 {
            self.complete(&[id]).await?;
        }
        self.controlled(id, |state| state != BroadcastState::Completed).await
    }

    /// Pauses a broadcast that has not ended. No batch of it is claimed any more once this returns; owners give theirs back.
    pub async fn pause_broadcast(&self, id: BroadcastId) -> Result<Controlled> {
        sqlx::query_file!("queries/broadcast_pause.sql", id.0).execute(&self.pool).await?;
        self.controlled(id, is_running).await
    }

    /// Resumes a paused broadcast; its first batches are offered again when this returns.
    pub async fn resume_broadcast(&self, id: BroadcastId) -> Result<Controlled> {
        let resumed = sqlx::query_file!("queries/broadcast_resume.sql", id.0).execute(&self.pool).await?;
        if resumed.rows_affected() > 0 {
            // The sweep would do it within a second.
            let shards = self.shards().await?;
            hold_and_offer(&mut *self.pool.acquire().await?, shards, &[id.0]).await?;
        }
        self.controlled(id, is_running).await
    }

    async fn controlled(
        &self,
        id: BroadcastId,
        as_asked: impl FnOnce(BroadcastState) -> bool,
    ) -> Result<Controlled> {
        let Some(broadcast) = self.broadcast(id).await? else { return Ok(Controlled::NotFound) };
        let broadcast = Box::new(broadcast);
        Ok(if as_asked(broadcast.state) {
            Controlled::Done(broadcast)
        } else {
            Controlled::TooLate(broadcast)
        })
    }
}

fn is_running(state: BroadcastState) -> bool {
    !state.is_final() && state != BroadcastState::Cancelling
}
