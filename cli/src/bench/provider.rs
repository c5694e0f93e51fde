//! Asking the provider's simulator, which counts on its own.

use std::collections::HashMap;

use anyhow::Context as _;
use provider_sim::{BehaviourPatch, DeliveryRecord, Stats};

/// How long it is waited for an acceptance.
const PATIENCE_MS: u64 = 3_600_000;

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

    /// Returns once so many were accepted, with the counts as they were then: the simulator tells, since looking would be late.
    pub async fn accepted(&self, count: u64) -> anyhow::Result<Stats> {
        self.answer(self.http.get(format!("{}/wait?accepted={count}&timeout_ms={PATIENCE_MS}", self.url)))
            .await
    }

    /// What a browser of this name registers with, in JSON.
    pub async fn web_push_subscription(&self, name: &str) -> anyhow::Result<serde_json::Value> {
        let answer = self.http.get(format!("{}/webpush/subscription/{name}", self.url)).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// From here the simulator notes the last acceptance before and the first after.
    pub async fn mark(&self) -> anyhow::Result<Stats> {
        self.answer(self.http.post(format!("{}/mark", self.url))).await
    }

    /// By broadcast, when the first of its deliveries was accepted, in microseconds since 1970.
    pub async fn first_acceptances(&self) -> anyhow::Result<HashMap<i64, u64>> {
        let mut first = HashMap::new();
        self.each_delivery(|record| note_first(&mut first, &record)).await?;
        Ok(first)
    }

    /// When each delivery was accepted for the first time, in microseconds since 1970, in order.
    pub async fn acceptances(&self) -> anyhow::Result<Vec<u64>> {
        let mut moments = Vec::new();
        self.each_delivery(|record| {
            moments.extend(record.first_accepted_unix_us);
            Ok(())
        })
        .await?;
        moments.sort_unstable();
        Ok(moments)
    }

    /// The longest time from one acceptance to the next, in milliseconds; none where there were not two.
    pub async fn longest_stall_ms(&self) -> anyhow::Result<Option<f64>> {
        Ok(longest_gap_us(&self.acceptances().await?, (0, u64::MAX)).map(|us| us as f64 / 1e3))
    }

    /// Everything that the simulator has counted, delivery by delivery.
    async fn each_delivery(
        &self,
        mut note: impl FnMut(DeliveryRecord) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let request = self.http.get(format!("{}/deliveries", self.url));
        let mut answer =
            request.send().await.and_then(reqwest::Response::error_for_status).context("provider-sim")?;
        let mut rest: Vec<u8> = Vec::new();
        // Line by line as they come: there may be millions.
        while let Some(chunk) = answer.chunk().await.context("reading the simulator's deliveries")? {
            rest.extend_from_slice(&chunk);
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                note(serde_json::from_slice(line).context("a delivery of the simulator")?)?;
            }
            rest.drain(..whole);
        }
        Ok(())
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

/// Keys are those that senders give: `<broadcast>-<device>`.
fn note_first(first: &mut HashMap<i64, u64>, record: &DeliveryRecord) -> anyhow::Result<()> {
    let Some(at) = record.first_accepted_unix_us else { return Ok(()) };
    let broadcast = record.key.split('-').next().and_then(|id| id.parse().ok());
    let broadcast = broadcast.with_context(|| format!("{:?} is not the key of a delivery", record.key))?;
    first.entry(broadcast).and_modify(|known: &mut u64| *known = at.min(*known)).or_insert(at);
    Ok(())
}

/// The longest time without an acceptance that touches the span, of moments in their order.
pub fn longest_gap_us(moments: &[u64], (from, to): (u64, u64)) -> Option<u64> {
    let gaps = moments.windows(2).filter(|pair| pair[1] >= from && pair[0] <= to);
    gaps.map(|pair| pair[1] - pair[0]).max()
}

/// The counter of this name in what `/metrics` answered, summed over all its labels.
pub fn counter(metrics: &str, name: &str) -> f64 {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once("} ")).map(|(_, value)| value);
        value.or_else(|| rest.strip_prefix(' '))?.trim().parse::<f64>().ok()
    });
    values.sum()
}

/// What any process of ours offers at `/metrics` of its admin port.
pub async fn metrics(admin: std::net::SocketAddr) -> anyhow::Result<String> {
    let http = reqwest::Client::builder().no_proxy().build().context("building the HTTP client")?;
    let answer = http.get(format!("http://{admin}/metrics")).send().await.context("asking for metrics")?;
    answer.error_for_status().context("metrics")?.text().await.context("reading metrics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_where_it_touches_the_span() {
        let moments = [10, 20, 50, 51, 52, 99];
        assert_eq!(longest_gap_us(&moments, (0, u64::MAX)), Some(47));
        assert_eq!(longest_gap_us(&moments, (45, 51)), Some(30), "it had begun before");
        assert_eq!(longest_gap_us(&moments, (60, 70)), Some(47), "it lasted all the time");
        assert_eq!(longest_gap_us(&[7], (0, 9)), None);
    }

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        let text =
            "# TYPE x_total counter\nx_total{a=\"1\"} 3\nx_total{a=\"{2} \"} 4\nx_total_more 9\ny_total 5\n";
        assert_eq!(
            [counter(text, "x_total"), counter(text, "y_total"), counter(text, "z_total")],
            [7.0, 5.0, 0.0]
        );
    }

    #[test]
    fn the_first_acceptance_of_each_broadcast_is_kept() {
        let mut first = HashMap::new();
        for (key, at) in
            [("7-1", Some(9)), ("7-2", Some(5)), ("8-1", None), ("9-1", Some(4)), ("7-3", Some(6))]
        {
            let record = DeliveryRecord {
                key: key.into(),
                calls: 1,
                accepted: 1,
                transient: 0,
                first_accepted_unix_us: at,
            };
            note_first(&mut first, &record).expect("a key of ours");
        }
        assert_eq!(first, HashMap::from([(7, 5), (9, 4)]));
    }
}
