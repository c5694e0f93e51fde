//! A break of the bus is found, ends by itself, and is heard of as "anything".

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bongsu_live::{Heard, LiveArgs};
use bongsu_ops::local_postgres::{LocalPostgres, Options};
use bongsu_ops::local_redis::LocalRedis;
use bongsu_store::Store;
use bongsu_store::testing::{self, Saboteur};

use crate::harness::{anything, args, bus, next, no_store, redis, until, users};
use crate::swallowing::Swallowing;

/// More than the six seconds for which a listener trusts a subscription that says nothing.
const SILENT_FOR: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_redis_that_is_killed_and_starts_again_empty_is_heard_again_after_anything() {
    let redis = redis();
    let told_by = bus(&args(&redis.url()), &no_store());
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    redis.kill_server().unwrap();
    // Told to nobody: it must come back as anything.
    told_by.0.tell(users([1]));
    redis.start_server().unwrap();
    anything(&mut hears).await;
    // And once more by the teller who owes it, before or after; then all is as before.
    until("messages arrive again", async || {
        told_by.0.tell(users([2]));
        next(&mut hears).await == Heard::Users(users([2]))
    })
    .await;
}

#[tokio::test]
async fn whoever_could_not_tell_while_listeners_heard_all_the_time_says_anything_later() {
    // One server, which the teller reaches by a path that is there only later: for the listener nothing breaks.
    let redis = redis();
    let listener = bus(&args(&redis.url()), &no_store());
    let mut hears = listener.0.listen(listener.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    let path = redis.socket().with_file_name("later.sock");
    let teller = bus(&args(&format!("redis+unix://{}", path.display())), &no_store());
    teller.0.tell(users([1]));
    // What the listener hears by its own way does not depend on the other.
    listener.0.tell(users([2]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([2])));
    std::os::unix::fs::symlink(redis.socket(), &path).unwrap();
    assert_eq!(next(&mut hears).await, Heard::Anything, "owed by the teller");
    teller.0.tell(users([3]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([3])), "and only once");
}

#[tokio::test]
async fn a_redis_that_falls_silent_without_a_word_is_noticed_and_heard_again() {
    let redis = redis();
    let told_by = bus(&args(&redis.url()), &no_store());
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    told_by.0.tell(users([1]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([1])));
    let given_up = subscriptions(&redis).await;
    assert_eq!(given_up.len(), 1);
    redis.pause_server().unwrap();
    // For longer than a listener waits for its own words: that it does is what this is about.
    tokio::time::sleep(SILENT_FOR).await;
    redis.resume_server().unwrap();
    // A subscription that had been kept would still work.
    until("there is another one, and the first is closed", async || {
        let now = subscriptions(&redis).await;
        now.len() == 1 && now != given_up
    })
    .await;
    anything(&mut hears).await;
    until("messages arrive again", async || {
        told_by.0.tell(users([2]));
        next(&mut hears).await == Heard::Users(users([2]))
    })
    .await;
}

/// The connections that listen, by their ids.
async fn subscriptions(redis: &LocalRedis) -> BTreeSet<String> {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let list: String =
        redis::cmd("CLIENT").arg(&["LIST", "TYPE", "pubsub"]).query_async(&mut connection).await.unwrap();
    list.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_listening_connection_that_postgres_ends_is_made_anew_after_anything() {
    let url = testing::fresh_database().await;
    let store = Store::new(&url, 4, "test").unwrap();
    let told_by = bus(&LiveArgs::default(), &store);
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    told_by.0.tell(users([1]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([1])));
    let mut saboteur = Saboteur::connect(&url).await;
    saboteur
        .run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
        .await;
    assert_eq!(next(&mut hears).await, Heard::Anything);
    told_by.0.tell(users([2]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([2])));
    // With the teller's connection as well.
    saboteur.end_sessions().await;
    told_by.0.tell(users([3]));
    anything(&mut hears).await;
    until("messages arrive again", async || {
        told_by.0.tell(users([4]));
        next(&mut hears).await == Heard::Users(users([4]))
    })
    .await;
}

#[tokio::test]
async fn a_listening_connection_that_carries_nothing_any_more_is_given_up_by_itself() {
    let postgres = tokio::task::spawn_blocking(|| LocalPostgres::start(&Options::default()));
    let postgres = postgres.await.unwrap().expect("a private PostgreSQL");
    let direct = testing::database_at(&postgres.url("postgres")).await;
    let way = Swallowing::before(postgres.socket_dir().join(".s.PGSQL.5432"));
    let name = |dir: &Path| dir.file_name().unwrap().to_str().unwrap().to_owned();
    let url = direct.replace(&name(postgres.socket_dir()), &name(way.dir()));
    assert_ne!(url, direct);
    let told_by = bus(&LiveArgs::default(), &Store::new(&url, 4, "test").unwrap());
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    told_by.0.tell(users([1]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([1])));
    way.swallow();
    told_by.0.tell(users([2]));
    assert_eq!(next(&mut hears).await, Heard::Anything, "and not the message, which was swallowed");
    until("messages arrive again", async || {
        told_by.0.tell(users([3]));
        next(&mut hears).await == Heard::Users(users([3]))
    })
    .await;
}

#[tokio::test]
async fn listening_takes_no_connection_of_the_pool() {
    let store = Store::new(&testing::fresh_database().await, 1, "test").unwrap();
    let told_by = bus(&LiveArgs::default(), &store);
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    store.ping().await.unwrap();
    told_by.0.tell(users([1]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([1])));
}
