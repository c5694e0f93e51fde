//! The Redis of live trials: killed, frozen, and back.

use std::sync::Arc;
use std::time::Duration;

use bongsu_ops::local_redis::LocalRedis;

/// A private one, which ends with the run.
#[derive(Debug)]
pub struct Redis(Arc<LocalRedis>);

impl Redis {
    pub async fn start() -> anyhow::Result<Self> {
        let server = tokio::task::spawn_blocking(|| LocalRedis::start(None)).await??;
        Ok(Self(Arc::new(server)))
    }

    /// What intakes and senders are told.
    pub fn args(&self) -> [String; 2] {
        ["--live-redis".to_owned(), self.0.url()]
    }

    /// Kills it, and starts it again after a while: it has forgotten everything.
    pub async fn kill(&self, down_for: Duration) -> anyhow::Result<()> {
        let server = self.0.clone();
        tokio::task::spawn_blocking(move || server.kill_server()).await??;
        tokio::time::sleep(down_for).await;
        let server = self.0.clone();
        Ok(tokio::task::spawn_blocking(move || server.start_server()).await??)
    }

    /// Lets it stand still for a while.
    pub async fn pause(&self, length: Duration) -> anyhow::Result<()> {
        let server = self.0.clone();
        tokio::task::spawn_blocking(move || server.pause_server()).await??;
        tokio::time::sleep(length).await;
        let server = self.0.clone();
        Ok(tokio::task::spawn_blocking(move || server.resume_server()).await??)
    }
}
