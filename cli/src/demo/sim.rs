//! Asking the provider's simulator, which counts on its own.

use anyhow::Context as _;
use provider_sim::{DeliveryRecord, Stats};

use crate::stack::Stack;

/// How long the crash waits for its moment.
const PATIENCE_MS: u64 = 600_000;

#[derive(Debug, Clone)]
pub struct Sim {
    http: reqwest::Client,
    url: String,
}

impl Sim {
    pub fn new(stack: &Stack) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build().context("building the HTTP client")?;
        Ok(Self { http, url: stack.provider_sim.url() })
    }

    pub async fn stats(&self) -> anyhow::Result<Stats> {
        self.answer(self.http.get(format!("{}/stats", self.url))).await
    }

    /// Returns the moment the nth acceptance is counted: the simulator tells, since polling would overshoot.
    pub async fn accepted(&self, n: u32) -> anyhow::Result<Stats> {
        self.answer(self.http.get(format!("{}/wait?accepted={n}&timeout_ms={PATIENCE_MS}", self.url))).await
    }

    /// From here the simulator notes the last acceptance before and the first after.
    pub async fn mark(&self) -> anyhow::Result<Stats> {
        self.answer(self.http.post(format!("{}/mark", self.url))).await
    }

    /// What became of each delivery.
    pub async fn deliveries(&self) -> anyhow::Result<Vec<DeliveryRecord>> {
        let answer =
            self.http.get(format!("{}/deliveries", self.url)).send().await.context("provider-sim")?;
        let text = answer.error_for_status()?.text().await.context("reading provider-sim's deliveries")?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
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
