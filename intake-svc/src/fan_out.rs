//! Background work: starting scheduled broadcasts, making deliveries, and looking after what crashed processes left undone.
//!
//! Every intake does all of it; what one does, the others find done. There is no leader to wait for.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bongsu_live::Bus;
use bongsu_ops::trace::{Traceparent, Tracer, Work};
use bongsu_store::{FanOut, Started, Store};
use rand::Rng as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics;
use crate::outage::Outage;

/// How often a worker without work looks for broadcasts that another intake accepted; ours wake it at once.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often it is looked for scheduled broadcasts whose time has come: a start is at most that late, and what a look takes.
const START_INTERVAL: Duration = Duration::from_millis(250);
/// How often broadcasts that nobody moves on are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How often the delivery partitions of the coming days are made.
const PARTITIONS_INTERVAL: Duration = Duration::from_secs(3600);

/// Runs `workers` fan-out workers and the upkeep until `shutdown`, and until each has finished the step it is at.
/// `wake` is notified once for each broadcast accepted here; `bus` is told who has new events.
pub(crate) async fn run(
    store: Store,
    bus: Bus,
    wake: Arc<Notify>,
    workers: u32,
    tracer: Tracer,
    shutdown: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (store, bus, wake) = (store.clone(), bus.clone(), Arc::clone(&wake));
        tasks.spawn(make_deliveries(store, bus, wake, tracer.clone(), shutdown.clone()));
    }
    tasks.spawn(start_scheduled(store.clone(), wake, shutdown.clone()));
    tasks.spawn(sweep(store.clone(), shutdown.clone()));
    tasks.spawn(keep_partitions(store, shutdown));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a background task failed");
        }
    }
}

async fn make_deliveries(
    store: Store,
    bus: Bus,
    wake: Arc<Notify>,
    tracer: Tracer,
    shutdown: CancellationToken,
) {
    let mut outage = Outage::new("fan_out");
    while !shutdown.is_cancelled() {
        let (started, began) = (Instant::now(), SystemTime::now());
        let pause = match store.fan_out_page().await {
            Ok(FanOut::Page { broadcast, deliveries, told, finished, trace_context }) => {
                outage.over();
                let events = told.len();
                bus.tell(told);
                let asked = trace_context.as_deref().and_then(Traceparent::of);
                let mut span = tracer.following("fan_out.page", Work::Internal, asked.as_ref(), began);
                span.set("bongsu.broadcast_id", broadcast.0);
                span.set("bongsu.deliveries", deliveries);
                drop(span);
                metrics::fan_out_page(deliveries, started.elapsed());
                metrics::events(events);
                tracing::debug!(
                    broadcast_id = broadcast.0,
                    deliveries,
                    events,
                    finished,
                    "a page of fan-out"
                );
                if finished {
                    tracing::info!(broadcast_id = broadcast.0, "every delivery of the broadcast is made");
                }
                // There may be more for a second worker.
                wake.notify_one();
                continue;
            }
            Ok(FanOut::Idle) => {
                outage.over();
                rand::rng().random_range(POLL_INTERVAL / 2..=POLL_INTERVAL)
            }
            Err(error) => outage.failed(&error),
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn start_scheduled(store: Store, wake: Arc<Notify>, shutdown: CancellationToken) {
    let mut outage = Outage::new("start");
    while !shutdown.is_cancelled() {
        let pause = match store.start_due().await {
            Ok(started) => {
                outage.over();
                for Started { id, expired, late_seconds } in &started {
                    metrics::started(*expired, *late_seconds);
                    if *expired {
                        tracing::warn!(
                            broadcast_id = id.0,
                            late_seconds,
                            "a scheduled broadcast expired before anybody started it: it ends without a delivery"
                        );
                    } else {
                        tracing::info!(broadcast_id = id.0, late_seconds, "a scheduled broadcast starts");
                        wake.notify_one();
                    }
                }
                if started.is_empty() { START_INTERVAL } else { Duration::ZERO }
            }
            Err(error) => outage.failed(&error),
        };
        wait(pause, &shutdown).await;
    }
}

async fn sweep(store: Store, shutdown: CancellationToken) {
    let mut lane = store.sweep_lane();
    let mut outage = Outage::new("sweep");
    while !shutdown.is_cancelled() {
        let began = Instant::now();
        let pause = match lane.sweep().await {
            Ok(swept) => {
                outage.over();
                if swept.settled > 0 || !swept.completed.is_empty() {
                    tracing::debug!(settled = swept.settled, completed = swept.completed.len(), "swept");
                }
                swept.pause(began.elapsed(), SWEEP_INTERVAL)
            }
            Err(error) => outage.failed(&error),
        };
        wait(pause, &shutdown).await;
    }
}

async fn keep_partitions(store: Store, shutdown: CancellationToken) {
    let mut outage = Outage::new("partitions");
    while !shutdown.is_cancelled() {
        let pause = match store.ensure_partitions().await {
            Ok(made) => {
                outage.over();
                if made > 0 {
                    tracing::info!(partitions = made, "delivery partitions made");
                }
                PARTITIONS_INTERVAL
            }
            Err(error) => outage.failed(&error),
        };
        wait(pause, &shutdown).await;
    }
}

async fn wait(pause: Duration, shutdown: &CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(pause) => {}
    }
}
