//! Callers of CreateBroadcast, each for one user, as many at a time as there are callers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use bongsu_proto::v1;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::audience::SPREAD;
use super::everyone::unix_ms;
use super::quantile::quantile;
use super::report::Figures;
use super::world::Accepted;
use crate::client::Client;

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Callers {
    /// Calls under way at most.
    pub count: u32,
    /// Calls begun in a second; none: as soon as there is a caller free.
    pub rate: Option<f64>,
    pub length: Duration,
    /// Users are drawn from so many.
    pub users: u64,
    pub seed: u64,
    /// What is asked for a user.
    pub request: fn(u64) -> v1::CreateBroadcastRequest,
}

/// A call that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub broadcast: i64,
    pub sent_at: SystemTime,
    pub took: Duration,
}

/// All of them.
#[derive(Debug)]
pub struct Calls {
    pub calls: Vec<Call>,
    /// When the first one was to begin.
    pub began: SystemTime,
    /// From there to the last answer.
    pub seconds: f64,
}

impl Callers {
    /// Calls until the time is over; `clients` are connections, shared by the callers in turn.
    pub async fn call(self, clients: &[Client]) -> anyhow::Result<Calls> {
        let (began, began_at) = (Instant::now(), SystemTime::now());
        let ticket = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        for client in clients.iter().cycle().take(self.count as usize) {
            callers.spawn(self.one(client.clone(), ticket.clone(), began));
        }
        let mut calls = Vec::new();
        while let Some(called) = callers.join_next().await {
            calls.append(&mut called??);
        }
        Ok(Calls { calls, began: began_at, seconds: began.elapsed().as_secs_f64() })
    }

    async fn one(self, client: Client, ticket: Arc<AtomicU64>, began: Instant) -> anyhow::Result<Vec<Call>> {
        let mut calls = Vec::new();
        loop {
            let n = ticket.fetch_add(1, Ordering::Relaxed);
            if let Some(rate) = self.rate {
                tokio::time::sleep_until(began + Duration::from_secs_f64(n as f64 / rate)).await;
            }
            if began.elapsed() >= self.length {
                return Ok(calls);
            }
            let user = (n ^ self.seed).wrapping_mul(SPREAD) % self.users;
            let sent_at = SystemTime::now();
            let accepted = create(&client, (self.request)(user)).await?;
            calls.push(Call { broadcast: accepted.id, sent_at, took: accepted.took });
        }
    }
}

/// Creates a broadcast.
pub async fn create(intake: &Client, request: v1::CreateBroadcastRequest) -> anyhow::Result<Accepted> {
    let began = Instant::now();
    let answer = intake.broadcasts().create_broadcast(request).await.context("CreateBroadcast")?;
    let (took, at) = (began.elapsed(), SystemTime::now());
    let broadcast = answer.into_inner().broadcast.context("the answer has no broadcast")?;
    Ok(Accepted { id: broadcast.id, took, at })
}

impl Calls {
    /// How long callers waited.
    pub fn put_accept(&self, figures: &mut Figures) {
        figures.put("calls_per_s", "broadcasts accepted, per s", self.calls.len() as f64 / self.seconds);
        let mut took: Vec<f64> = self.calls.iter().map(|call| call.took.as_secs_f64() * 1e3).collect();
        figures.put("accept_p50_ms", "accept, ms: median", quantile(&mut took, 0.5));
        figures.put("accept_p99_ms", "accept, ms: 99 %", quantile(&mut took, 0.99));
    }

    /// How long it took until the provider had it, by when it accepted the first delivery of each broadcast.
    pub fn put_latency(&self, figures: &mut Figures, accepted_unix_us: &HashMap<i64, u64>) {
        let latency = |call: &Call| {
            let at = *accepted_unix_us.get(&call.broadcast)?;
            Some(at as f64 / 1e3 - unix_ms(call.sent_at))
        };
        let since_answer = |call: &Call| Some(latency(call)? - call.took.as_secs_f64() * 1e3);
        let mut latencies: Vec<f64> = self.calls.iter().filter_map(latency).collect();
        put_quantiles(figures, "latency", "from call to provider", &mut latencies);
        let mut latencies: Vec<f64> = self.calls.iter().filter_map(since_answer).collect();
        put_quantiles(figures, "since_answer", "from answer to provider", &mut latencies);
    }

    /// Whether the rate holds: what the provider accepted in the first and in the last tenth of the time.
    pub fn put_decay(&self, figures: &mut Figures, length: Duration, accepted_unix_us: &HashMap<i64, u64>) {
        let began_ms = unix_ms(self.began);
        let ats = self.calls.iter().filter_map(|call| accepted_unix_us.get(&call.broadcast));
        let ats: Vec<f64> = ats.map(|at| (*at as f64 / 1e3 - began_ms) / 1e3).collect();
        let (first, last) = tenths(&ats, length.as_secs_f64());
        figures.put("first_tenth_per_s", "accepted in the first tenth, per s", first);
        figures.put("last_tenth_per_s", "accepted in the last tenth, per s", last);
        figures.put(
            "decay_percent",
            "from the first to the last tenth, less by %",
            (1.0 - last / first) * 100.0,
        );
    }
}

pub fn put_quantiles(figures: &mut Figures, name: &str, label: &str, values: &mut [f64]) {
    for (share, word, told) in [(0.5, "p50", "median"), (0.99, "p99", "99 %"), (1.0, "max", "longest")] {
        figures.put(format!("{name}_{word}_ms"), format!("{label}, ms: {told}"), quantile(values, share));
    }
}

/// Of moments in seconds, how many a second are in the first and in the last tenth of `length`.
fn tenths(ats: &[f64], length: f64) -> (f64, f64) {
    let tenth = length / 10.0;
    let rate = |from: f64| {
        let within = ats.iter().filter(|at| (from..from + tenth).contains(*at));
        within.count() as f64 / tenth
    };
    (rate(0.0), rate(length - tenth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_one_of_the_time_not_of_the_calls() {
        let ats = [0.0, 0.5, 0.9, 1.0, 5.0, 8.9, 9.5, 10.0];
        assert_eq!(tenths(&ats, 10.0), (3.0, 1.0));
    }
}
