//! Lists, counts and marks.

use super::*;

/// All pages, so many a page: the numbers on each.
async fn pages(store: &Store, user: UserNo, unread_only: bool, limit: i64) -> Vec<Vec<i64>> {
    let (mut pages, mut before) = (vec![], None);
    loop {
        let page = store.list_inbox(user, before, unread_only, limit).await.unwrap();
        assert!(page.notifications.len() <= usize::try_from(limit).unwrap());
        pages.push(page.notifications.iter().map(|(event, _)| event.seq).collect());
        assert!(page.next.is_none() || page.next < before.or(Some(i64::MAX)), "pages go on");
        before = page.next;
        if before.is_none() {
            return pages;
        }
    }
}

async fn over(store: &Store, how: &str, ids: &[BroadcastId]) {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let statement = format!("{how} WHERE id = ANY($1)");
    sqlx::query(AssertSqlSafe(statement)).bind(ids).execute(store.test_pool()).await.unwrap();
}

const CANCELLED: &str = "UPDATE broadcast SET state = 'cancelled', settled_at = now()";
const EXPIRED: &str = "UPDATE broadcast SET created_at = created_at - interval '1 hour', expires_at = now() - interval '1 second'";
const PURGED: &str = "DELETE FROM broadcast";

#[tokio::test]
async fn a_list_is_newest_first_and_pages_skip_and_repeat_nothing() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 7).await;
    let user = join(&store, "mina").await;
    assert_eq!(pages(&store, user, false, 3).await, [[0_i64; 0]]);
    events(&store, "mina", &ids).await;
    assert_eq!(pages(&store, user, false, 3).await, [vec![7, 6, 5], vec![4, 3, 2], vec![1]]);
    assert_eq!(pages(&store, user, false, 7).await, [vec![7, 6, 5, 4, 3, 2, 1]]);
    let first = store.list_inbox(user, None, false, 3).await.unwrap();
    let (event, content) = &first.notifications[0];
    assert_eq!((event.broadcast, content.notification, content.over), (ids[6], ids[6], false));
    assert_eq!(content.message.title, "title 7");
    // What comes meanwhile is on the first page of the next look, and moves no other.
    events(&store, "juno", &ids).await;
    let next = store.list_inbox(user, first.next, false, 3).await.unwrap();
    assert_eq!(next.notifications.iter().map(|(event, _)| event.seq).collect::<Vec<_>>(), [4, 3, 2]);
    assert!(next.notifications.iter().all(|(event, _)| event.user == user));
}

#[tokio::test]
async fn what_is_over_is_left_out_and_breaks_no_page_however_much_it_is() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 3_000).await;
    let user = join(&store, "mina").await;
    events(&store, "mina", &ids).await;
    over(&store, CANCELLED, &ids[100..1_500]).await;
    over(&store, EXPIRED, &ids[1_500..2_500]).await;
    over(&store, PURGED, &ids[2_500..2_990]).await;
    let expected: Vec<i64> = (1..=100).chain(2_991..=3_000).rev().collect();
    for limit in [1, 7, 10, 100] {
        let pages = pages(&store, user, false, limit).await;
        assert_eq!(pages.concat(), expected, "{limit}");
        assert!(pages.len() < 115, "{} pages of {limit}", pages.len());
    }
    assert_eq!(store.unread(user).await.unwrap(), 10, "of the newest thousand");
}

#[tokio::test]
async fn what_was_read_is_not_counted_and_not_among_what_was_not() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 1_203).await;
    let [user, other] = [join(&store, "mina").await, join(&store, "juno").await];
    events(&store, "mina", &ids).await;
    events(&store, "juno", &ids[..3]).await;
    assert_eq!(store.unread(user).await.unwrap(), 1_000, "counted up to a thousand");
    assert_eq!(store.mark_read_up_to(user, 1_200).await.unwrap(), 1_200);
    assert_eq!(store.unread(user).await.unwrap(), 3);
    assert_eq!(pages(&store, user, true, 2).await, [vec![1_203, 1_202], vec![1_201]]);
    assert_eq!(store.mark_read(user, &[ids[1_201], ids[1_201], ids[0], BroadcastId(1)]).await.unwrap(), 1);
    assert_eq!(pages(&store, user, true, 2).await, [vec![1_203, 1_201]]);
    let first = store.list_inbox(user, None, false, 2).await.unwrap();
    assert_eq!(first.notifications.iter().map(|(event, _)| event.read).collect::<Vec<_>>(), [false, true]);
    // Nobody else has read them by that, and nobody can read them for somebody else.
    assert_eq!(store.unread(other).await.unwrap(), 3);
    assert_eq!(store.mark_read(other, &ids[..100]).await.unwrap(), 3);
    assert_eq!(store.unread(user).await.unwrap(), 2);
}

#[tokio::test]
async fn reading_again_changes_nothing_and_what_came_since_stays_unread() {
    let store = harness::store().await;
    let ids = broadcasts(&store, 2_501).await;
    let user = join(&store, "mina").await;
    events(&store, "mina", &ids[..2_500]).await;
    // More than a statement marks, and further than there is.
    assert_eq!(store.mark_read_up_to(user, i64::MAX).await.unwrap(), 2_500);
    events(&store, "mina", &ids[2_500..]).await;
    let changed = "SELECT count(DISTINCT read_at) FROM inbox";
    let before = sql(&store, changed).await;
    assert_eq!(store.mark_read_up_to(user, 2_500).await.unwrap(), 0);
    assert_eq!(store.mark_read(user, &ids[..1_000]).await.unwrap(), 0);
    assert_eq!(sql(&store, changed).await, before);
    assert_eq!(store.unread(user).await.unwrap(), 1);
}

#[tokio::test]
async fn those_who_mark_the_same_events_in_any_order_wait_for_each_other_and_never_both() {
    let [store, other] = harness::two_stores().await;
    let ids = broadcasts(&store, 400).await;
    let user = join(&store, "mina").await;
    // The order of numbers is not that of broadcasts.
    let shuffled: Vec<_> = (0..400).map(|n| ids[n * 7 % 400]).collect();
    for some in shuffled.chunks(20) {
        events(&store, "mina", some).await;
    }
    for _ in 0..10 {
        change(&store, user, "UPDATE inbox SET read_at = NULL", "true").await;
        let (a, b, c) = tokio::join!(
            store.mark_read(user, &ids),
            other.mark_read(user, &ids[100..]),
            other.mark_read_up_to(user, 300)
        );
        assert_eq!(a.unwrap() + b.unwrap() + c.unwrap(), 400);
    }
}
