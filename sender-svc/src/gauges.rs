//! What the sender asks the database at a scrape of its metrics: where the queue stands, whoever works on it. Every sender that
//! is scraped says the same, so whoever looks takes `max by (…)` of them.
//!
//! Several scrapes at a time are one look. It is at most one a second, and less where it takes long: never more than
//! a fiftieth of the time is spent on it.

use std::sync::Arc;
use std::time::Duration;

use bongsu_ops::metric::{Exposition, Metric};
use bongsu_store::{GaugeLane, Gauges, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A look is good for this long, and for so many times what it took.
const FRESH: Duration = Duration::from_secs(1);
const FRESH_SHARE: u32 = 50;

const UP: Metric = Metric::gauge(
    "bongsu_database_up",
    &[],
    "1 if the database answered the sender's questions of this scrape; else no other metric of the database is there",
);
const SCRAPE_SECONDS: Metric =
    Metric::gauge("bongsu_database_scrape_seconds", &[], "How long the database took to answer them");
const BROADCASTS: Metric =
    Metric::gauge("bongsu_broadcasts", &["state"], "Broadcasts that are not final, by state");
const FAN_OUT: Metric = Metric::gauge(
    "bongsu_fan_out_waiting_seconds",
    &[],
    "For how long the broadcast that waited longest has been without a page of fan-out; 0: none waits",
);
const DELIVERIES: Metric = Metric::gauge(
    "bongsu_deliveries",
    &["provider", "state"],
    "Deliveries of broadcasts that are not final, as far as they are made, by state; those of final ones are in counters",
);
const DEAD_LETTERS: Metric = Metric::gauge(
    "bongsu_dead_letters",
    &["provider", "reason"],
    "Dead letters of broadcasts that are not final, by reason",
);
const BATCHES: Metric =
    Metric::gauge("bongsu_batches", &["provider", "state"], "Batches that are not done, by state");
const DUE: Metric = Metric::gauge(
    "bongsu_oldest_due_seconds",
    &["provider", "work"],
    "For how long work has been due that nobody has taken: fresh (since the last page of its broadcast), retry, lease (that ran out)",
);
const PARKED: Metric = Metric::gauge(
    "bongsu_provider_parked_seconds",
    &["provider"],
    "For how long the provider has been parked; 0: it is not",
);
const DOUBTED: Metric = Metric::gauge(
    "bongsu_provider_doubted",
    &["provider"],
    "1 while it is parked because it called so many tokens gone that it is not believed",
);
const HELD: Metric = Metric::gauge(
    "bongsu_provider_held_seconds",
    &["provider"],
    "How long the provider has asked to be left alone from now on",
);
const RATE: Metric = Metric::gauge(
    "bongsu_provider_rate_limit",
    &["provider"],
    "Calls a second to the provider by all senders at most; absent where there is no limit",
);
const SENDERS: Metric = Metric::gauge("bongsu_senders_live", &[], "Senders that were heard of within 10 s");
const DATABASE_BYTES: Metric = Metric::gauge("bongsu_database_bytes", &[], "Size of the database");
const TRANSACTION: Metric = Metric::gauge(
    "bongsu_database_oldest_transaction_seconds",
    &[],
    "For how long the oldest transaction of the database has been open, as far as our role may see",
);
const SNAPSHOT: Metric = Metric::gauge(
    "bongsu_database_oldest_snapshot_age",
    &[],
    "How many transactions ago the oldest snapshot was taken that is still held: by a session, a prepared transaction or a replication slot",
);
const PARTITIONS: Metric = Metric::gauge(
    "bongsu_database_partitions",
    &[],
    "Days for which deliveries are kept, those ahead included",
);
const PARTITIONS_MISSING: Metric = Metric::gauge(
    "bongsu_database_partitions_missing",
    &[],
    "Of today and the two next days, how many have no partition",
);
const ROWS: Metric = Metric::gauge(
    "bongsu_database_rows",
    &["table", "rows"],
    "Rows of the tables that are written all the time, live and dead, as the statistics of Postgres have them",
);

/// All of them.
pub const METRICS: [Metric; 19] = [
    UP,
    SCRAPE_SECONDS,
    BROADCASTS,
    FAN_OUT,
    DELIVERIES,
    DEAD_LETTERS,
    BATCHES,
    DUE,
    PARKED,
    DOUBTED,
    HELD,
    RATE,
    SENDERS,
    DATABASE_BYTES,
    TRANSACTION,
    SNAPSHOT,
    PARTITIONS,
    PARTITIONS_MISSING,
    ROWS,
];

/// The last look, and what the next one is made with.
#[derive(Debug, Clone)]
pub struct DatabaseGauges(Arc<Mutex<Look>>);

#[derive(Debug)]
struct Look {
    lane: GaugeLane,
    text: String,
    fresh_until: Option<Instant>,
    /// Whether it has been said that the database does not answer.
    away: bool,
}

impl DatabaseGauges {
    pub fn new(store: &Store) -> Self {
        let look = Look { lane: store.gauge_lane(), text: String::new(), fresh_until: None, away: false };
        Self(Arc::new(Mutex::new(look)))
    }

    /// In the Prometheus format. Whoever comes while another one looks waits for what he sees.
    pub async fn render(&self) -> String {
        let mut look = self.0.lock().await;
        let now = Instant::now();
        if look.fresh_until.is_none_or(|until| until <= now) {
            look.again(now).await;
        }
        look.text.clone()
    }

    pub async fn close(&self) {
        self.0.lock().await.lane.close().await;
    }
}

impl Look {
    async fn again(&mut self, began: Instant) {
        let read = self.lane.read().await;
        let took = began.elapsed();
        self.fresh_until = Some(Instant::now() + fresh_for(took));
        self.text = match &read {
            Ok(gauges) => exposition(gauges, took),
            Err(_) => down(),
        };
        match read {
            Ok(_) => self.away = false,
            Err(error) if !self.away => {
                tracing::warn!("metrics are without those of the database: {error}");
                self.away = true;
            }
            Err(_) => {}
        }
    }
}

fn fresh_for(took: Duration) -> Duration {
    FRESH.max(took * FRESH_SHARE)
}

fn down() -> String {
    let mut text = Exposition::default();
    text.gauge(&UP, &[(&[], 0.0)]);
    text.into_text()
}

fn exposition(gauges: &Gauges, took: Duration) -> String {
    let mut text = Exposition::default();
    let mut alone = |metric: &Metric, value: f64| text.gauge(metric, &[(&[], value)]);
    let database = &gauges.database;
    alone(&UP, 1.0);
    alone(&SCRAPE_SECONDS, took.as_secs_f64());
    alone(&SENDERS, database.live_senders as f64);
    alone(&DATABASE_BYTES, database.bytes as f64);
    alone(&TRANSACTION, database.oldest_transaction_seconds);
    alone(&SNAPSHOT, database.oldest_snapshot_age as f64);
    alone(&PARTITIONS, database.partitions as f64);
    alone(&PARTITIONS_MISSING, database.missing_partitions as f64);
    let waiting = gauges.broadcasts.iter().map(|of| of.fan_out_seconds).fold(0.0, f64::max);
    alone(&FAN_OUT, waiting);
    let of_state: Vec<_> = gauges.broadcasts.iter().map(|of| ([&*of.state], of.broadcasts as f64)).collect();
    add(&mut text, &BROADCASTS, &of_state);
    work(&mut text, gauges);
    let providers = &gauges.providers;
    let mut each = |metric: &Metric, value: fn(&bongsu_store::ProviderPause) -> Option<f64>| {
        let series: Vec<_> = providers.iter().filter_map(|p| Some(([&*p.provider], value(p)?))).collect();
        add(&mut text, metric, &series);
    };
    each(&PARKED, |p| Some(p.parked_seconds));
    each(&DOUBTED, |p| Some(f64::from(u8::from(p.doubted))));
    each(&HELD, |p| Some(p.held_seconds));
    each(&RATE, |p| p.rate_per_second.map(f64::from));
    let rows: Vec<_> = gauges
        .tables
        .iter()
        .flat_map(|of| [([&*of.table, "live"], of.live as f64), ([&*of.table, "dead"], of.dead as f64)])
        .collect();
    add(&mut text, &ROWS, &rows);
    text.into_text()
}

fn work(text: &mut Exposition, gauges: &Gauges) {
    let (mut deliveries, mut dead, mut batches, mut due) = (vec![], vec![], vec![], vec![]);
    for of in &gauges.work {
        let provider = &*of.provider;
        let all_dead = of.dead_attempts_exhausted + of.dead_unregistered + of.dead_rejected;
        let states = [
            ("pending", of.pending),
            ("sent", of.sent),
            ("dead", all_dead),
            ("expired", of.expired),
            ("skipped", of.skipped),
            ("cancelled", of.cancelled),
            ("unconfirmed", of.unconfirmed),
        ];
        deliveries.extend(states.map(|(state, n)| ([provider, state], n as f64)));
        let reasons = [
            ("attempts_exhausted", of.dead_attempts_exhausted),
            ("unregistered", of.dead_unregistered),
            ("rejected", of.dead_rejected),
        ];
        dead.extend(reasons.map(|(reason, n)| ([provider, reason], n as f64)));
        let open = [("ready", of.ready), ("waiting", of.waiting), ("leased", of.leased), ("held", of.held)];
        batches.extend(open.map(|(state, n)| ([provider, state], n as f64)));
        let ages = [("fresh", of.fresh_seconds), ("retry", of.retry_seconds), ("lease", of.lease_seconds)];
        due.extend(ages.map(|(work, seconds)| ([provider, work], seconds)));
    }
    add(text, &DELIVERIES, &deliveries);
    add(text, &DEAD_LETTERS, &dead);
    add(text, &BATCHES, &batches);
    add(text, &DUE, &due);
}

fn add<const N: usize>(text: &mut Exposition, metric: &Metric, series: &[([&str; N], f64)]) {
    let series: Vec<(&[&str], f64)> = series.iter().map(|(labels, value)| (&labels[..], *value)).collect();
    text.gauge(metric, &series);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_fiftieth_of_the_time_at_most() {
        assert_eq!(fresh_for(Duration::from_millis(3)), FRESH);
        assert_eq!(fresh_for(Duration::from_millis(200)), Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_database_that_is_away_leaves_one_metric_that_says_so_to_all_who_ask() {
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let url = format!("postgres://nobody@{}/bongsu", nowhere.expect("an address"));
        let gauges = DatabaseGauges::new(&Store::new(&url, 1, "test").expect("a URL"));
        let (first, second) = tokio::join!(gauges.render(), gauges.render());
        assert!(first.ends_with("bongsu_database_up 0\n"), "{first}");
        assert_eq!(first, second);
        assert_eq!(first.matches("# TYPE").count(), 1);
    }
}
