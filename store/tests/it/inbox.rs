//! Inboxes: who connects gets what they missed, once and in order; lists and marks reach what is the user's and nothing else.

mod follower;
mod list;

use bongsu_store::{After, BACKLOG_EVENTS, Backlog, BroadcastId, EventId, GapReason, Store, UserNo};
use sqlx::AssertSqlSafe;

use crate::harness::{self, sql};

/// So many broadcasts that are being delivered, oldest first.
async fn broadcasts(store: &Store, n: i64) -> Vec<BroadcastId> {
    let insert = "INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                                         created_at, expires_at)
                  SELECT broadcast_id_at('2025-02-01 00:00+00') + n, 'test', 'live-' || n, '', 'title ' || n, 'body', '{}', 'normal',
                         'everyone', 'delivering', now(), now() + interval '1 day'
                  FROM generate_series(1, $1::bigint) AS n
                  RETURNING id";
    let mut ids: Vec<i64> = sqlx::query_scalar(insert).bind(n).fetch_all(store.test_pool()).await.unwrap();
    ids.sort_unstable();
    ids.into_iter().map(BroadcastId).collect()
}

async fn join(store: &Store, user: &str) -> UserNo {
    store.live_join(&[user.to_owned()]).await.unwrap()[0]
}

/// An event of each of these for one user.
async fn events(store: &Store, user: &str, broadcasts: &[BroadcastId]) {
    let pairs: Vec<_> = broadcasts.iter().map(|id| (*id, user)).collect();
    store.test_events(&pairs).await.unwrap();
}

/// Changes rows of the inbox as nothing here does.
async fn change(store: &Store, user: UserNo, what: &str, which: &str) {
    let statement = format!("{what} WHERE user_no = {} AND {which}", user.0);
    sqlx::query(AssertSqlSafe(statement)).execute(store.test_pool()).await.unwrap();
}

async fn acknowledge(store: &Store, user: UserNo, which: &str) {
    change(store, user, "UPDATE inbox SET acked_at = now()", which).await;
}

async fn prune(store: &Store, user: UserNo, which: &str) {
    change(store, user, "DELETE FROM inbox", which).await;
}

/// Where one stream begins.
async fn beginning(store: &Store, user: UserNo, after: After) -> Backlog {
    store.backlogs(&[(user, after)]).await.unwrap().pop().unwrap()
}

async fn after(store: &Store, user: UserNo, seq: i64) -> Backlog {
    let epoch = store.inbox_epoch().await.unwrap();
    beginning(store, user, After::Event(EventId { epoch, seq })).await
}

fn seqs(backlog: &Backlog) -> Vec<i64> {
    backlog.events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn users_have_one_number_whoever_asks_and_those_that_are_known_use_up_none() {
    let [store, other] = harness::two_stores().await;
    let users: Vec<String> = (0..200).map(|n| format!("user-{n}")).collect();
    let backwards: Vec<String> = users.iter().rev().cloned().collect();
    let (ours, theirs) = tokio::join!(store.live_join(&users), other.live_join(&backwards));
    let (ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
    theirs.reverse();
    assert_eq!(ours, theirs);
    let used = "SELECT last_value FROM inbox_user_id_seq";
    let before = sql(&store, used).await;
    let again = [users[7].clone(), "new".to_owned(), users[3].clone(), users[7].clone()];
    let numbers = store.live_join(&again).await.unwrap();
    assert_eq!([numbers[0], numbers[2], numbers[3]], [ours[7], ours[3], ours[7]]);
    assert!(!ours.contains(&numbers[1]));
    assert_eq!(sql(&store, used).await, before + 1);
    assert_eq!(store.live_join(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn without_an_event_id_a_stream_begins_with_what_nobody_acknowledged() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 5).await;
    let user = join(&store, "mina").await;
    assert_eq!(beginning(&store, user, After::Start).await.reached, 0);
    events(&store, "mina", &ids).await;
    acknowledge(&store, user, "seq IN (2, 5)").await;
    let backlog = beginning(&store, user, After::Start).await;
    assert_eq!((backlog.gap, seqs(&backlog), backlog.reached), (None, vec![1, 3, 4], 5));
    assert_eq!(backlog.events[1].broadcast, ids[2]);
    assert_eq!(backlog.events[1].user, user);
    acknowledge(&store, user, "true").await;
    let backlog = beginning(&store, user, After::Start).await;
    assert_eq!((backlog.gap, seqs(&backlog), backlog.reached), (None, vec![], 5));
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_that_the_client_has() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 6).await;
    let [user, other] = [join(&store, "mina").await, join(&store, "juno").await];
    events(&store, "mina", &ids[..5]).await;
    events(&store, "juno", &ids[5..]).await;
    acknowledge(&store, user, "seq = 4").await;
    for (seq, expected) in [(0, vec![1, 2, 3, 4, 5]), (3, vec![4, 5]), (5, vec![])] {
        let backlog = after(&store, user, seq).await;
        assert_eq!((backlog.gap, seqs(&backlog), backlog.reached), (None, expected, 5));
    }
    assert!(after(&store, user, 3).await.events[0].acknowledged);
    // A number says nothing of whose it is: to another user it is unknown, or another event.
    let theirs = after(&store, other, 3).await;
    assert_eq!((theirs.gap, seqs(&theirs), theirs.reached), (Some(GapReason::UnknownEventId), vec![1], 1));
}

#[tokio::test]
async fn what_is_no_event_of_this_epoch_and_user_is_a_gap_and_begins_anew() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 3).await;
    let user = join(&store, "mina").await;
    events(&store, "mina", &ids).await;
    acknowledge(&store, user, "seq = 2").await;
    let epoch = store.inbox_epoch().await.unwrap();
    let strange = [
        After::Unknown,
        After::Event(EventId { epoch: epoch - 1, seq: 1 }),
        After::Event(EventId { epoch, seq: 4 }),
        After::Event(EventId { epoch, seq: i64::MAX }),
    ];
    for strange in strange {
        let backlog = beginning(&store, user, strange).await;
        assert_eq!(
            (backlog.gap, seqs(&backlog), backlog.reached),
            (Some(GapReason::UnknownEventId), vec![1, 3], 3),
            "{strange:?}"
        );
    }
    let nobody = beginning(&store, UserNo(user.0 + 1_000), After::Event(EventId { epoch, seq: 1 })).await;
    assert_eq!((nobody.gap, nobody.reached), (Some(GapReason::UnknownEventId), 0));
}

#[tokio::test]
async fn a_new_epoch_makes_every_event_id_from_before_unknown() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 2).await;
    let user = join(&store, "mina").await;
    events(&store, "mina", &ids).await;
    let epoch = store.inbox_epoch().await.unwrap();
    let (old, new) = store.new_inbox_epoch().await.unwrap();
    assert_eq!(old, epoch);
    assert!(new > old);
    let stale = beginning(&store, user, After::Event(EventId { epoch, seq: 2 })).await;
    assert_eq!((stale.gap, stale.epoch, seqs(&stale)), (Some(GapReason::UnknownEventId), new, vec![1, 2]));
    assert_eq!(after(&store, user, 2).await.gap, None);
    // Faster than the clock ticks, and after one that was set back.
    sql(&store, "UPDATE settings SET inbox_epoch = 9000000000000000 RETURNING 1::bigint").await;
    assert_eq!(store.new_inbox_epoch().await.unwrap(), (9_000_000_000_000_000, 9_000_000_000_000_001));
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_a_gap_wherever_it_was() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 9).await;
    let user = join(&store, "mina").await;
    events(&store, "mina", &ids).await;
    prune(&store, user, "seq <= 3").await;
    let pruned = Some(GapReason::Pruned);
    assert_eq!(after(&store, user, 3).await.gap, None);
    let backlog = after(&store, user, 2).await;
    assert_eq!((backlog.gap, seqs(&backlog)), (pruned, vec![4, 5, 6, 7, 8, 9]));
    // A broadcast that was made long before it was fanned out goes before those beside it.
    prune(&store, user, "seq = 6").await;
    let backlog = after(&store, user, 4).await;
    assert_eq!((backlog.gap, seqs(&backlog)), (pruned, vec![5, 7, 8, 9]));
    assert_eq!(after(&store, user, 6).await.gap, None);
    prune(&store, user, "true").await;
    let backlog = after(&store, user, 8).await;
    assert_eq!((backlog.gap, seqs(&backlog), backlog.reached), (pruned, vec![], 9));
    assert_eq!(after(&store, user, 9).await.gap, None);
}

#[tokio::test]
async fn a_client_that_missed_very_many_gets_the_newest_and_is_told() {
    let store = harness::store().await;
    let most = BACKLOG_EVENTS;
    let ids = broadcasts(&store, most + 2).await;
    let user = join(&store, "mina").await;
    events(&store, "mina", &ids).await;
    let backlog = after(&store, user, 2).await;
    assert_eq!((backlog.gap, seqs(&backlog)), (None, (3..=most + 2).collect()));
    let backlog = after(&store, user, 1).await;
    assert_eq!((backlog.gap, seqs(&backlog)), (Some(GapReason::TooMany), (3..=most + 2).collect()));
    // Without an event id, the same newest ones are looked at.
    acknowledge(&store, user, "seq > 5").await;
    let backlog = beginning(&store, user, After::Start).await;
    assert_eq!((backlog.gap, seqs(&backlog)), (None, vec![3, 4, 5]));
}

#[tokio::test]
async fn many_streams_begin_together_each_as_it_would_alone() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 4).await;
    let users: Vec<String> = (0..250).map(|n| format!("user-{n}")).collect();
    let numbers = store.live_join(&users).await.unwrap();
    for (n, user) in users.iter().enumerate() {
        events(&store, user, &ids[..n % 5]).await;
    }
    let epoch = store.inbox_epoch().await.unwrap();
    let mut connections: Vec<_> = numbers.iter().map(|user| (*user, After::Start)).collect();
    connections.push((numbers[4], After::Event(EventId { epoch, seq: 3 })));
    connections.push((numbers[4], After::Unknown));
    let together = store.backlogs(&connections).await.unwrap();
    assert_eq!(together.len(), connections.len());
    for ((user, after), together) in connections.into_iter().zip(together) {
        assert_eq!(beginning(&store, user, after).await, together);
    }
}

#[tokio::test]
async fn a_stream_that_begins_while_events_are_made_loses_and_doubles_none() {
    const ROUNDS: usize = 60;
    let [store, intake] = harness::two_stores().await;
    let ids = broadcasts(&store, 3 * ROUNDS as i64).await;
    let user = join(&store, "mina").await;
    let making = tokio::spawn(async move {
        for some in ids.chunks(6) {
            let [a, b] = [&some[..3], &some[3..]];
            tokio::join!(events(&intake, "mina", a), events(&intake, "mina", b));
        }
    });
    let total = 3 * ROUNDS as i64;
    let mut last = 0;
    let mut seen: Vec<i64> = vec![];
    while last < total {
        let backlog = after(&store, user, last).await;
        assert_eq!(backlog.gap, None);
        let more = store.inbox_after(&[(user, backlog.reached)], 5).await.unwrap();
        seen.extend(backlog.events.iter().chain(&more).map(|event| event.seq));
        last = more.last().map_or(backlog.reached, |event| event.seq);
    }
    making.await.unwrap();
    assert_eq!(seen, (1..=total).collect::<Vec<_>>());
}
