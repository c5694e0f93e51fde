//! What starts later: nothing of it is to be seen before, and it starts once.

use std::collections::BTreeMap;

use bongsu_store::{Acceptance, Audience, BroadcastId, Guarantee, NewBroadcast};

use super::expected::Broadcast;
use super::machine::{Check, Machine, same};
use crate::stage::{HOUR, new_broadcast, now};

impl Machine {
    /// An odd one is to everyone, an even one to a list that would be short enough to be fanned out as it is accepted.
    pub(super) async fn schedule(&mut self, at_most_once: bool) -> Check {
        self.made += 1;
        let guarantee = if at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce };
        let audience = match self.made % 2 {
            1 => Audience::Everyone,
            _ => Audience::users(vec!["user-1".into(), "user-2".into()]),
        };
        let key = format!("k{}", self.made);
        let new = NewBroadcast { guarantee, schedule: Some(now() + HOUR), ..new_broadcast(&key, audience) };
        let Acceptance::New(broadcast) = self.store.accept(&new).await.unwrap() else {
            return Err("not new".into());
        };
        let scheduled = Broadcast { at_most_once, scheduled: true, ..Broadcast::default() };
        self.model.broadcasts.insert(broadcast.id, scheduled);
        Ok(())
    }

    pub(super) async fn start(&mut self) -> Check {
        sqlx::query(
            "UPDATE broadcast SET scheduled_at = least(scheduled_at, now()) WHERE state = 'scheduled'",
        )
        .execute(self.store.test_pool())
        .await
        .unwrap();
        let started = self.store.start_due().await.unwrap();
        let found: BTreeMap<BroadcastId, bool> = started.iter().map(|s| (s.id, s.expired)).collect();
        let waiting = self.model.broadcasts.iter_mut().filter(|(_, b)| b.scheduled);
        let expected = waiting.map(|(id, b)| {
            b.scheduled = false;
            (*id, b.expired)
        });
        same("started, and whether they had expired", &found, &expected.collect())?;
        self.note_final().await;
        Ok(())
    }
}
