//! Listing dead letters: where few of very many match, pages are short and come in time.

use bongsu_store::{DeadLetterFilter, DeviceId, LIST_LOOKS_AT};

use crate::harness::sql;
use crate::stage::*;

#[tokio::test]
async fn a_rare_code_among_very_many_is_found_in_pages_that_look_at_a_bounded_number() {
    let (store, _) = stage(1).await;
    let id = fanned_out(&store, "k").await;
    // In steps, since each of them looks for its broadcast.
    let some = "WITH made AS (
                    INSERT INTO dead_letter (broadcast_id, shard, provider_id, device_id, attempts, reason, code, detail)
                    SELECT (SELECT max(id) FROM broadcast), 0, 1, there.letters + n, 1, 'rejected',
                           CASE there.letters + n WHEN 7 THEN '418' ELSE '400' END, ''
                    FROM (SELECT count(*) AS letters FROM dead_letter) AS there, generate_series(1, 3000) AS n
                    RETURNING 1)
                SELECT count(*) FROM made";
    for _ in 0..15 {
        assert_eq!(sql(&store, some).await, 3_000);
    }
    let needed = 15 * 3_000 / LIST_LOOKS_AT + 1;
    for broadcast in [None, Some(id)] {
        let code = Some("418".to_owned());
        let mut filter = DeadLetterFilter { broadcast, code, limit: 10, ..Default::default() };
        let (mut pages, mut found) = (0, vec![]);
        loop {
            found.extend(store.list_dead_letters(&filter).await.unwrap());
            pages += 1;
            filter.after = store.dead_letters_reach(&filter).await.unwrap();
            if filter.after.is_none() {
                break;
            }
        }
        let devices: Vec<_> = found.iter().map(|letter| letter.device).collect();
        assert_eq!((pages, devices), (needed, vec![DeviceId(7)]));
    }
}
