//! Asking the provider's simulator, which counts on its own.

use anyhow::Context as _;
use provider_sim::{BehaviourPatch, Stats};

/// The simulator, on a connection of our own.
#[derive(Clone, Debug)]
pub struct Provider {
    http: reqwest::Client,
    url: String,
}

impl Provider {
    pub fn new(url: String) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build().context("building the HTTP client")?;
        Ok(Self { http, url })
    }

    pub async fn stats(&self) -> anyhow::Result<Stats> {
        self.answer(self.http.get(format!("{}/stats", self.url))).await
    }

    /// Forgets what was counted.
    pub async fn reset(&self) -> anyhow::Result<Stats> {
        self.answer(self.http.post(format!("{}/reset", self.url))).await
    }

    /// Behaves otherwise from now on.
    pub async fn behave(&self, patch: &BehaviourPatch) -> anyhow::Result<()> {
        let request = self.http.patch(format!("{}/behaviour", self.url)).json(patch);
        request.send().await.and_then(reqwest::Response::error_for_status).context("provider-sim")?;
        Ok(())
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Stats> {
        let answer = request.send().await.context("asking provider-sim")?;
        answer
            .error_for_status()
            .context("provider-sim")?
            .json()
            .await
            .context("reading provider-sim's answer")
    }
}

/// What any process of ours offers at `/metrics` of its admin port.
pub async fn metrics(admin: std::net::SocketAddr) -> anyhow::Result<String> {
    let http = reqwest::Client::builder().no_proxy().build().context("building the HTTP client")?;
    let answer = http.get(format!("http://{admin}/metrics")).send().await.context("asking for metrics")?;
    answer.error_for_status().context("metrics")?.text().await.context("reading metrics")
}
