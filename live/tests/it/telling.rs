//! What is told is heard by all that listen, once they listen.

use std::collections::BTreeSet;

use bongsu_live::{Heard, LiveArgs};
use bongsu_store::{Store, UserNo};
use tokio::sync::mpsc::Receiver;

use crate::harness::{args, bus, next, no_store, redis, store, users};

/// All users that are heard of, until so many are; nothing else may be heard meanwhile.
async fn heard_of(hears: &mut Receiver<Heard>, many: usize) -> BTreeSet<UserNo> {
    let mut of = BTreeSet::new();
    while of.len() < many {
        match next(hears).await {
            Heard::Users(users) => of.extend(users),
            Heard::Anything => panic!("nothing was missed"),
        }
    }
    of
}

async fn all_hear_what_one_tells(args: &LiveArgs, store: &Store) {
    let teller = bus(args, store);
    let listeners = [(); 3].map(|()| bus(args, store));
    let mut hear = listeners.each_ref().map(|(bus, shutdown, _)| bus.listen(shutdown.clone()));
    for hears in &mut hear {
        assert_eq!(next(hears).await, Heard::Anything, "before all else, as soon as it listens");
    }
    teller.0.tell(users([7]));
    for hears in &mut hear {
        assert_eq!(next(hears).await, Heard::Users(users([7])));
    }
    // More than a message holds, some of them twice.
    teller.0.tell(users((1..=5_000).chain(1..=100)));
    for hears in &mut hear {
        assert!(heard_of(hears, 5_000).await.into_iter().eq(users(1..=5_000)));
    }
    // Whoever tells may listen, too.
    let mut hears = teller.0.listen(teller.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    teller.0.tell(users([8]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([8])));
}

#[tokio::test]
async fn all_that_listen_by_redis_hear_what_one_tells() {
    let redis = redis();
    all_hear_what_one_tells(&args(&redis.url()), &no_store()).await;
}

#[tokio::test]
async fn all_that_listen_by_postgres_hear_what_one_tells() {
    all_hear_what_one_tells(&LiveArgs::default(), &store().await).await;
}

#[tokio::test]
async fn whoever_has_another_prefix_in_the_same_redis_hears_nothing_of_it() {
    let redis = redis();
    let ours = args(&redis.url());
    let theirs = LiveArgs { redis_prefix: "theirs".to_owned(), ..ours.clone() };
    let (our_bus, their_bus) = (bus(&ours, &no_store()), bus(&theirs, &no_store()));
    let mut they = their_bus.0.listen(their_bus.1.clone());
    assert_eq!(next(&mut they).await, Heard::Anything);
    let mut we = our_bus.0.listen(our_bus.1.clone());
    assert_eq!(next(&mut we).await, Heard::Anything);
    our_bus.0.tell(users([1]));
    assert_eq!(next(&mut we).await, Heard::Users(users([1])));
    their_bus.0.tell(users([2]));
    assert_eq!(next(&mut they).await, Heard::Users(users([2])), "and not of ours, which was told before");
}

#[tokio::test]
async fn users_that_there_is_no_room_for_are_told_of_as_anything() {
    let redis = redis();
    let told_by = bus(&args(&redis.url()), &no_store());
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    // More than wait, at once: nothing is told meanwhile, since this does not wait.
    told_by.0.tell(users(1..=200_000));
    let mut seen = 0;
    while let Heard::Users(users) = next(&mut hears).await {
        seen += users.len();
    }
    assert!(seen < 200_000, "the rest is covered by what was heard last");
}

#[tokio::test]
async fn what_is_told_while_a_process_ends_is_still_told() {
    let redis = redis();
    let listener = bus(&args(&redis.url()), &no_store());
    let mut hears = listener.0.listen(listener.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    let ending = bus(&args(&redis.url()), &no_store());
    ending.1.cancel();
    ending.0.tell(users([3]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([3])));
}

#[tokio::test]
async fn whoever_stops_listening_frees_its_connection() {
    let redis = redis();
    let told_by = bus(&args(&redis.url()), &no_store());
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut listeners = async || {
        let counted: Vec<redis::Value> =
            redis::cmd("PUBSUB").arg("NUMSUB").arg("bongsu:bus").query_async(&mut connection).await.unwrap();
        redis::from_redis_value::<i64>(counted[1].clone()).unwrap()
    };
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    assert_eq!(listeners().await, 1);
    drop(hears);
    crate::harness::until("the subscription ends", async || listeners().await == 0).await;
}
