//! graphile_worker in Rust: jobs fetched in batches into a local queue, completed in batches.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RefetchDelayConfig, TaskHandler, WorkerContext,
    WorkerOptions,
};
use reqwest::Client;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};

// As in Bongsu, so that no allocator is compared.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many jobs one bulk insert makes.
const CHUNK: usize = 10_000;
/// What the simulator lets one HTTP/2 connection carry.
const MAX_STREAMS: usize = 250;
/// How long a local queue waits after it found almost nothing.
const REFETCH_DELAY: Duration = Duration::from_millis(100);
/// The text is the same for everybody: a job carries the token alone, which is kinder to a queue than repeating the text.
const NOTIFICATION: &str = r#"{"broadcast_id":"peers","title":"The beacon is lit","body":"Fire on the southern ridge: five fires, all the way to the capital.","data":{}}"#;

#[derive(Clone, Deserialize, Serialize)]
struct Push {
    to: String,
}

impl TaskHandler for Push {
    const IDENTIFIER: &'static str = "push";

    async fn run(self, ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        let pusher = ctx.get_ext::<Pusher>().ok_or("no pusher")?;
        pusher.push(&self.to).await.map_err(|error| error.to_string())
    }
}

/// Calls the push provider.
#[derive(Clone, Debug)]
struct Pusher {
    url: String,
    clients: Arc<[Client]>,
    next: Arc<AtomicUsize>,
}

impl Pusher {
    /// With at most `in_flight` calls, over HTTP/2 or over as many connections.
    fn new(in_flight: usize, h2c: bool) -> Result<Self, Box<dyn Error>> {
        let builder = || Client::builder().no_proxy().pool_max_idle_per_host(usize::MAX);
        let clients: Result<Arc<[Client]>, _> = if h2c {
            (0..in_flight.div_ceil(MAX_STREAMS)).map(|_| builder().http2_prior_knowledge().build()).collect()
        } else {
            [builder().build()].into_iter().collect()
        };
        let url = format!("{}/push", env::var("BENCH_SIM")?);
        Ok(Self { url, clients: clients?, next: Arc::default() })
    }

    async fn push(&self, token: &str) -> reqwest::Result<()> {
        let client = &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()];
        let request = client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("peers/{token}"))
            .body(format!(r#"{{"to":"{token}","notification":{NOTIFICATION}}}"#));
        request.send().await?.error_for_status()?.bytes().await.map(drop)
    }
}

/// What `run` passes to a peer.
struct Bench {
    jobs: usize,
    concurrency: usize,
    settings: Settings,
}

#[derive(Deserialize)]
struct Settings {
    pool: u32,
    local_queue: usize,
    queue_count: usize,
    complete_delay_ms: u64,
    http: String,
    threads: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let bench = Bench {
        jobs: env::var("BENCH_JOBS")?.parse()?,
        concurrency: env::var("BENCH_CONCURRENCY")?.parse()?,
        settings: serde_json::from_str(&env::var("BENCH_SETTINGS")?)?,
    };
    let mut runtime = match bench.settings.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(bench.settings.threads).enable_all().build()?;
    runtime.block_on(async {
        match env::args().nth(1).as_deref() {
            // `init` runs the migrations.
            Some("setup") => options(&bench)?.init().await.map(drop).map_err(Into::into),
            Some("enqueue") => enqueue(&bench).await,
            Some("work") => work(&bench).await,
            _ => Err("setup, enqueue or work?".into()),
        }
    })?;
    // Whatever is locked dies with the cluster.
    std::process::exit(0);
}

fn options(bench: &Bench) -> Result<WorkerOptions, Box<dyn Error>> {
    let settings = &bench.settings;
    let delay = Duration::from_millis(settings.complete_delay_ms);
    // While only retries are left to wait for, a local queue without this asks Postgres again and again without a pause.
    let refetch_delay = RefetchDelayConfig::default().with_duration(REFETCH_DELAY).with_threshold(10);
    let queue = LocalQueueConfig::default()
        .with_size(settings.local_queue)
        .with_queue_count(settings.queue_count)
        .with_refetch_delay(refetch_delay);
    Ok(WorkerOptions::default()
        .database_url("postgres:///") // the rest is in PGHOST, PGUSER and PGDATABASE
        .max_pg_conn(settings.pool)
        .concurrency(bench.concurrency)
        .local_queue(queue)
        .complete_job_batch_delay(delay)
        .fail_job_batch_delay(delay)
        .add_extension(Pusher::new(bench.concurrency, settings.http == "h2c")?)
        .define_job::<Push>())
}

async fn enqueue(bench: &Bench) -> Result<(), Box<dyn Error>> {
    let worker = options(bench)?.init().await?;
    let utils = worker.create_utils();
    let spec = JobSpec::default();
    let tokens: Vec<String> = (0..bench.jobs).map(|i| format!("good-{i}")).collect();
    let start = Instant::now();
    for chunk in tokens.chunks(CHUNK) {
        let jobs: Vec<_> = chunk.iter().map(|to| (Push { to: to.clone() }, &spec)).collect();
        utils.add_jobs::<Push>(&jobs).await?;
    }
    println!(r#"{{"seconds":{}}}"#, start.elapsed().as_secs_f64());
    Ok(())
}

async fn work(bench: &Bench) -> Result<(), Box<dyn Error>> {
    let worker = options(bench)?.init().await?;
    println!("ready");
    let mut orders = BufReader::new(stdin()).lines();
    orders.next_line().await?;
    // The end of input means: all is done, or `run` is gone.
    tokio::select! {
        ended = worker.run() => ended.map_err(Into::into),
        _ = orders.next_line() => Ok(()),
    }
}
