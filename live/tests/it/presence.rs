//! Who is connected is known to all, and forgotten with the sender that said so.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bongsu_live::{LiveArgs, LiveError, Presence};
use bongsu_ops::local_redis::LocalRedis;
use bongsu_store::testing::{self, Saboteur};
use bongsu_store::{SenderId, Store, UserNo};
use redis::aio::MultiplexedConnection;

use crate::harness::{args, no_store, redis, until, users};

async fn is_known_to_all_until_it_is_withdrawn(said: &Presence, asked: &Presence, senders: [SenderId; 2]) {
    let [one, other] = senders;
    said.announce(one, &users([1, 2])).await.unwrap();
    said.announce(other, &users([2, 3])).await.unwrap();
    let all = users(0..=4);
    assert_eq!(asked.present(&all).await.unwrap(), HashSet::from_iter(users([1, 2, 3])));
    said.withdraw(one, &users([1, 2, 3])).await.unwrap();
    assert_eq!(
        asked.present(&all).await.unwrap(),
        HashSet::from_iter(users([2, 3])),
        "what another sender said holds"
    );
    assert_eq!(asked.present(&[]).await.unwrap(), HashSet::new());
}

async fn connection(redis: &LocalRedis) -> MultiplexedConnection {
    redis::Client::open(redis.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn living_sender(store: &Store) -> SenderId {
    let id = SenderId::random();
    store.control_lane(id).heartbeat(0, &[]).await.unwrap();
    id
}

#[tokio::test]
async fn in_postgres_who_is_connected_is_known_until_it_is_withdrawn_or_its_sender_is_silent() {
    let url = testing::fresh_database().await;
    let store = Store::new(&url, 4, "test").unwrap();
    let senders = [living_sender(&store).await, living_sender(&store).await];
    let presence = Presence::new(&LiveArgs::default(), store.clone());
    is_known_to_all_until_it_is_withdrawn(&presence, &presence, senders).await;
    let mut saboteur = Saboteur::connect(&url).await;
    saboteur.run("UPDATE sender SET heartbeat_at = now() - interval '2 seconds'").await;
    assert_eq!(presence.present(&users([2, 3])).await.unwrap().len(), 2);
    saboteur.run("UPDATE sender SET heartbeat_at = now() - interval '3.1 seconds'").await;
    assert_eq!(presence.present(&users([2, 3])).await.unwrap(), HashSet::new());
    store.control_lane(senders[1]).heartbeat(0, &[]).await.unwrap();
    assert_eq!(presence.present(&users([2, 3])).await.unwrap().len(), 2, "it is heard of again");
}

#[tokio::test]
async fn in_redis_who_is_connected_is_known_to_every_process_until_it_is_withdrawn() {
    let redis = redis();
    let [said, asked] = [(); 2].map(|()| Presence::new(&args(&redis.url()), no_store()));
    is_known_to_all_until_it_is_withdrawn(&said, &asked, [SenderId::random(), SenderId::random()]).await;
}

#[tokio::test]
async fn in_redis_the_word_of_a_sender_holds_for_thirty_seconds_by_the_clock_of_redis_and_leaves_nothing() {
    let redis = redis();
    let presence = Presence::new(&args(&redis.url()), no_store());
    let (dead, alive) = (SenderId::random(), SenderId::random());
    presence.announce(dead, &users([1, 2])).await.unwrap();
    let mut connection = connection(&redis).await;
    let score: i64 = redis::cmd("ZSCORE")
        .arg("bongsu:here:1")
        .arg(dead.0.to_string())
        .query_async(&mut connection)
        .await
        .unwrap();
    let (s, us): (i64, i64) = redis::cmd("TIME").query_async(&mut connection).await.unwrap();
    let holds_ms = score - s * 1_000 - us / 1_000;
    assert!((20_000..=30_000).contains(&holds_ms), "{holds_ms}");
    let ttl_ms: i64 = redis::cmd("PTTL").arg("bongsu:here:1").query_async(&mut connection).await.unwrap();
    assert!((20_000..=30_000).contains(&ttl_ms), "the set goes with it: {ttl_ms}");
    // As if thirty seconds had gone by.
    for user in [1, 2] {
        let expired = redis::cmd("ZADD")
            .arg(format!("bongsu:here:{user}"))
            .arg(score - 30_001)
            .arg(dead.0.to_string())
            .to_owned();
        expired.query_async::<()>(&mut connection).await.unwrap();
    }
    assert_eq!(presence.present(&users([1, 2])).await.unwrap(), HashSet::new());
    presence.announce(alive, &users([2])).await.unwrap();
    assert_eq!(presence.present(&users([1, 2])).await.unwrap(), HashSet::from_iter(users([2])));
    let left: i64 = redis::cmd("ZCARD").arg("bongsu:here:2").query_async(&mut connection).await.unwrap();
    assert_eq!(left, 1, "what the dead sender said went with the next word of another");
}

#[tokio::test]
async fn a_thousand_users_are_asked_for_in_one_round_trip() {
    let redis = redis();
    let presence = Presence::new(&args(&redis.url()), no_store());
    let here = users((1..=3_000).step_by(2));
    presence.announce(SenderId::random(), &here).await.unwrap();
    let asked = users(1..=1_000);
    presence.present(&asked).await.unwrap(); // from here on Redis knows the script
    let mut connection = connection(&redis).await;
    let mut scripts = async || {
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
        let of = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        of.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    let before = scripts().await;
    let present = presence.present(&asked).await.unwrap();
    assert_eq!(scripts().await - before, 1);
    assert_eq!(present, here.iter().copied().filter(|user| *user <= UserNo(1_000)).collect());
    assert_eq!(presence.present(&users(1..=3_000)).await.unwrap(), HashSet::from_iter(here));
}

#[tokio::test]
async fn a_redis_that_starts_again_empty_knows_everybody_at_their_next_announcement() {
    let redis = redis();
    let presence = Presence::new(&args(&redis.url()), no_store());
    let sender = SenderId::random();
    presence.announce(sender, &users([1])).await.unwrap();
    redis.kill_server().unwrap();
    assert!(matches!(presence.present(&users([1])).await, Err(LiveError::Unavailable(_))));
    redis.start_server().unwrap();
    until("Redis is asked again", async || presence.present(&users([1])).await.is_ok_and(|p| p.is_empty()))
        .await;
    presence.announce(sender, &users([1])).await.unwrap();
    assert_eq!(presence.present(&users([1])).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_redis_that_does_not_answer_costs_half_a_second_once_and_then_nothing_for_a_while() {
    let redis = redis();
    let presence = Presence::new(&args(&redis.url()), no_store());
    presence.announce(SenderId::random(), &users([1])).await.unwrap();
    redis.pause_server().unwrap();
    let began = Instant::now();
    let mut asked = 0;
    // A process that asked in earnest each time would need half a second for each.
    while asked < 50 || began.elapsed() < Duration::from_secs(3) {
        let asked_at = Instant::now();
        assert!(matches!(presence.present(&users([1])).await, Err(LiveError::Unavailable(_))));
        assert!(asked_at.elapsed() < Duration::from_secs(2), "{:?}", asked_at.elapsed());
        asked += 1;
        tokio::task::yield_now().await;
    }
    assert!(asked > 100, "{asked} in {:?}", began.elapsed());
    redis.resume_server().unwrap();
    until("Redis is asked again", async || presence.present(&users([1])).await.is_ok()).await;
}

#[tokio::test]
async fn a_wrong_password_is_said_to_be_one_and_is_not_shown() {
    let redis = LocalRedis::start(Some("the-right-one")).unwrap();
    let sender = SenderId::random();
    let right = Presence::new(&args(&redis.url()), no_store());
    right.announce(sender, &users([1])).await.unwrap();
    let none = redis.url().replace("?pass=the-right-one", "");
    for url in [redis.url().replace("the-right-one", "the-wrong-one"), none] {
        let error = Presence::new(&args(&url), no_store()).present(&users([1])).await.unwrap_err();
        assert!(matches!(error, LiveError::Refused(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("BONGSU_LIVE_REDIS") && text.contains("password"), "{text}");
        assert!(!text.contains("the-wrong-one"), "{text}");
    }
}
