//! Callers of CreateBroadcast, each for one user, as many at a time as there are callers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::audience::one_user;
use super::everyone::unix_ms;
use super::quantile::quantile;
use super::report::Figures;
use super::world::create;
use crate::client::Client;

/// Any odd number whose multiples are spread over all numbers.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

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
            let accepted = create(&client, one_user(user)).await?;
            calls.push(Call { broadcast: accepted.id, sent_at, took: accepted.took });
        }
    }
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
        let mut latencies: Vec<f64> = self.calls.iter().filter_map(latency).collect();
        figures.put("latency_p50_ms", "from call to provider, ms: median", quantile(&mut latencies, 0.5));
        figures.put("latency_p99_ms", "from call to provider, ms: 99 %", quantile(&mut latencies, 0.99));
        figures.put("latency_max_ms", "from call to provider, ms: longest", quantile(&mut latencies, 1.0));
    }
}
