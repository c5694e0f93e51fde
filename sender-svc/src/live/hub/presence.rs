//! Saying who is connected here. Whatever goes wrong with it ends no stream: a push is sent in vain, at worst.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::UserNo;

use super::Shared;

/// Users told of together.
const TOGETHER: usize = 1_000;
/// How long telling may take, before streams begin all the same.
const PATIENCE: Duration = Duration::from_secs(1);

pub async fn run(shared: Arc<Shared>) {
    let mut again = tokio::time::interval(shared.settings.look_every);
    loop {
        tokio::select! {
            () = shared.moved.notified() => {}
            // It may have been forgotten, or not have been heard.
            _ = again.tick() => shared.registry().moved_all(),
        }
        shared.tell_presence().await;
    }
}

impl Shared {
    /// Tells of everybody who came or went.
    pub(super) async fn tell_presence(&self) {
        let _turn = self.telling.lock().await;
        loop {
            let (here, gone) = self.registry().take_moved(TOGETHER);
            if here.is_empty() && gone.is_empty() {
                return;
            }
            let problem = match tokio::time::timeout(PATIENCE, self.tell(&here, &gone)).await {
                Ok(Ok(())) => continue,
                Ok(Err(problem)) => problem,
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            tracing::warn!(users = here.len() + gone.len(), "cannot tell who is connected here: {problem}");
            self.registry().moved(here.into_iter().chain(gone));
            return;
        }
    }

    async fn tell(&self, here: &[UserNo], gone: &[UserNo]) -> Result<(), String> {
        if !gone.is_empty() {
            self.presence.withdraw(self.sender, gone).await.map_err(|error| error.to_string())?;
        }
        if !here.is_empty() {
            self.presence.announce(self.sender, here).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Tells that nobody is here.
    pub(super) async fn withdraw_all(&self) {
        loop {
            let (here, gone) = self.registry().take_moved(TOGETHER);
            let users: Vec<UserNo> = here.into_iter().chain(gone).collect();
            if users.is_empty() || self.presence.withdraw(self.sender, &users).await.is_err() {
                return;
            }
        }
    }
}
