//! A Redis or a fresh database for each test, and what tests wait for.

use std::time::Duration;

use bongsu_live::{Bus, Heard, LiveArgs};
use bongsu_ops::local_redis::LocalRedis;
use bongsu_store::{Store, UserNo, testing};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn redis() -> LocalRedis {
    LocalRedis::start(None).expect("a private Redis")
}

pub fn args(url: &str) -> LiveArgs {
    LiveArgs { redis: Some(url.parse().expect("a good URL")), ..LiveArgs::default() }
}

pub async fn store() -> Store {
    Store::new(&testing::fresh_database().await, 4, "test").expect("a valid URL")
}

/// One that nothing may be asked of.
pub fn no_store() -> Store {
    Store::new("postgres://127.0.0.1:1/none", 1, "test").expect("a valid URL")
}

/// A bus that ends with the test.
pub fn bus(args: &LiveArgs, store: &Store) -> (Bus, CancellationToken, DropGuard) {
    let shutdown = CancellationToken::new();
    (Bus::start(args, store.clone(), shutdown.clone()), shutdown.clone(), shutdown.drop_guard())
}

pub fn users(numbers: impl IntoIterator<Item = i64>) -> Vec<UserNo> {
    numbers.into_iter().map(UserNo).collect()
}

/// The next that is heard.
pub async fn next(hears: &mut Receiver<Heard>) -> Heard {
    timeout(PATIENCE, hears.recv()).await.expect("something is heard").expect("it still listens")
}

/// Waits until something may have been missed.
pub async fn anything(hears: &mut Receiver<Heard>) {
    while next(hears).await != Heard::Anything {}
}

/// Waits for a condition that another process brings about.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("did not come true: {what}"));
}
