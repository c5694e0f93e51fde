//! The bare loop, as a process of its own: the sender's own client and nothing else, no database, as fast as it goes.
//!
//! What the product does is to be compared with this, so it uses the very type that the engine calls, on the runtime that
//! the sender runs on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bongsu_store::{BroadcastId, DeviceId, Message, Priority};
use sender_svc::WebhookArg;
use sender_svc::provider::webhook::{Settings, Webhook};
use sender_svc::provider::{Adapter, Answer, Brief, Call, Prepared};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::audience::{BODY, TITLE, token};
use super::kernel::own_cpu_seconds;

/// An id as long as those of real broadcasts.
const BROADCAST: BroadcastId = BroadcastId(63_239_275_003_510_785);
/// The sender's default.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The webhook to call, as a sender is told it
    #[arg(long, value_name = "NAME=URL")]
    webhook: WebhookArg,

    /// Calls under way
    #[arg(long, value_name = "N", default_value_t = 512)]
    in_flight: u32,

    /// Calls to make, of which the first and the last tenth are not measured
    #[arg(long, value_name = "N")]
    calls: u64,

    /// Calls to make before those
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u64,
}

/// What it writes at its end, as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// All, the warm-up included.
    pub calls: u64,
    /// Of those, answered with anything but "accepted".
    pub not_accepted: u64,
    /// The length of the measured part.
    pub seconds: f64,
    pub calls_per_s: f64,
    /// Of this process.
    pub cpu_us_per_call: f64,
}

#[derive(Debug)]
struct Loop {
    prepared: Prepared,
    calls: u64,
    started: AtomicU64,
    ended: AtomicU64,
    not_accepted: AtomicU64,
    first: Edge,
    last: Edge,
}

/// One end of the measured part: after so many calls.
#[derive(Debug)]
struct Edge {
    after: u64,
    seen: OnceLock<(Instant, f64)>,
}

impl Edge {
    fn after(calls: u64) -> Self {
        Self { after: calls, seen: OnceLock::new() }
    }

    fn pass(&self, ended: u64) -> anyhow::Result<()> {
        if ended == self.after {
            let cpu = own_cpu_seconds()?;
            self.seen.get_or_init(|| (Instant::now(), cpu));
        }
        Ok(())
    }

    fn seen(&self) -> anyhow::Result<(Instant, f64)> {
        self.seen.get().copied().context("--calls is too few to measure anything")
    }
}

/// Makes the calls and says how it went.
pub async fn run(args: Args) -> anyhow::Result<Measured> {
    let message = Message { title: TITLE.to_owned(), body: BODY.to_owned(), data: Default::default() };
    let settings = Settings::new(args.webhook.endpoint);
    let adapter = Adapter::Webhook(Arc::new(Webhook::new(settings, args.in_flight as usize, CALL_TIMEOUT)?));
    let brief = Brief { origin: BROADCAST, message: &message, priority: Priority::Normal };
    let tenth = args.calls.div_ceil(10);
    let calls = Arc::new(Loop {
        prepared: adapter.prepare(brief),
        calls: args.warmup + args.calls,
        started: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        not_accepted: AtomicU64::new(0),
        first: Edge::after(args.warmup + tenth),
        last: Edge::after(args.warmup + args.calls.saturating_sub(tenth)),
    });
    let mut workers = JoinSet::new();
    for _ in 0..args.in_flight {
        workers.spawn(calls.clone().work());
    }
    while let Some(worked) = workers.join_next().await {
        worked??;
    }
    calls.measured()
}

impl Loop {
    async fn work(self: Arc<Self>) -> anyhow::Result<()> {
        loop {
            let n = self.started.fetch_add(1, Ordering::Relaxed);
            if n >= self.calls {
                return Ok(());
            }
            let call = Call {
                now: tokio::time::Instant::now(),
                origin: BROADCAST,
                device: DeviceId(n.cast_signed()),
                token: &token(n),
                time_left: CALL_TIMEOUT,
                trace: None,
            };
            let answer = self.prepared.call(call).await;
            if !matches!(answer, Answer::Accepted) {
                self.not_accepted.fetch_add(1, Ordering::Relaxed);
            }
            let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
            self.first.pass(ended)?;
            self.last.pass(ended)?;
        }
    }

    fn measured(&self) -> anyhow::Result<Measured> {
        let ((began, cpu_before), (ended, cpu_after)) = (self.first.seen()?, self.last.seen()?);
        let calls = (self.last.after - self.first.after) as f64;
        let seconds = ended.duration_since(began).as_secs_f64();
        Ok(Measured {
            calls: self.ended.load(Ordering::Relaxed),
            not_accepted: self.not_accepted.load(Ordering::Relaxed),
            seconds,
            calls_per_s: calls / seconds,
            cpu_us_per_call: (cpu_after - cpu_before) * 1e6 / calls,
        })
    }
}
