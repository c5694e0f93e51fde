//! What a broadcast would come to: whom it would reach now, and what stands in the way.

use bongsu_store::{Audience, DeviceId, Forecast, ProviderKind};

use crate::harness::sql;
use crate::stage::*;

fn devices(forecast: &Forecast) -> Vec<(&str, i64)> {
    forecast.providers.iter().map(|provider| (provider.name.as_str(), provider.devices)).collect()
}

#[tokio::test]
async fn every_kind_of_audience_is_counted_by_provider_as_the_fan_out_would_find_it() {
    let (store, _) = stage(10).await;
    let other = store.register_provider("other", ProviderKind::Fcm).await.unwrap().unwrap();
    store.import(&[registration(other, 3)]).await.unwrap();
    sql(&store, "UPDATE device SET enabled = false WHERE user_id = 'user-9' RETURNING 1::bigint").await;
    sql(&store, "UPDATE device SET quarantined_at = now(), quarantine_code = '403', quarantine_detail = '', quarantined_by = 1 WHERE user_id = 'user-8' RETURNING 1::bigint").await;
    sql(&store, "INSERT INTO device_topic (topic, shard, provider_id, device_id) SELECT t, shard, provider_id, id FROM device, unnest('{a,b}'::text[]) AS t WHERE user_id IN ('user-3', 'user-9') RETURNING 1::bigint").await;
    let users = |names: &[&str]| Audience::users(names.iter().map(ToString::to_string).collect());
    for (audience, expected, without) in [
        (Audience::Everyone, [("other", 1), ("push", 8)], 0),
        (Audience::topics(vec!["a".into(), "b".into(), "c".into()]), [("other", 1), ("push", 1)], 0),
        (users(&["user-1", "user-3", "user-9", "nobody"]), [("other", 1), ("push", 2)], 2),
        (Audience::devices((1..=100).map(DeviceId).collect()), [("other", 1), ("push", 8)], 91),
    ] {
        let forecast = store.forecast(&audience).await.unwrap();
        assert_eq!(devices(&forecast), expected, "{audience:?}");
        assert_eq!((forecast.without_device, forecast.estimated), (without, false), "{audience:?}");
    }
    let topics = store.forecast(&Audience::topics(vec!["a".into(), "c".into()])).await.unwrap();
    assert_eq!(topics.empty_topics, ["c"]);
}

#[tokio::test]
async fn a_large_audience_is_estimated_and_the_estimate_is_near() {
    let (store, _) = stage(1).await;
    for _ in 0..5 {
        // In parts, which a busy machine makes within a statement's time.
        sql(&store, "WITH made AS (INSERT INTO device (shard, provider_id, user_id, token, registered_at, enabled)
                     SELECT 0, 1, 'u', 'many-' || gen_random_uuid(), now(), n % 5 <> 0 FROM generate_series(1, 30000) AS n RETURNING 1)
                     SELECT count(*) FROM made").await;
    }
    let forecast = store.forecast(&Audience::Everyone).await.unwrap();
    let devices = forecast.providers[0].devices;
    assert!(forecast.estimated && (112_000..128_000).contains(&devices), "{devices} of 120,001");
}

#[tokio::test]
async fn senders_say_whom_they_serve_and_finished_broadcasts_how_fast_it_was() {
    let (store, provider) = stage(1).await;
    let none = store.forecast(&Audience::Everyone).await.unwrap();
    assert_eq!((none.senders, none.providers[0].recent_per_second), (Some(0), None));
    let id = bongsu_store::SenderId::random();
    let mut lane = store.control_lane(id);
    lane.heartbeat(0, &[]).await.unwrap();
    let silent = store.forecast(&Audience::Everyone).await.unwrap();
    assert_eq!(
        (silent.senders, silent.providers[0].served),
        (Some(1), None),
        "a sender of the version before"
    );
    let elsewhere = store.register_provider("elsewhere", ProviderKind::Webhook).await.unwrap().unwrap();
    lane.serve([provider].into_iter());
    lane.heartbeat(0, &[]).await.unwrap();
    store.pace_provider(elsewhere, Some(70)).await.unwrap();
    let done = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| bongsu_store::Verdict::Sent).await;
    sweep_all(&store).await;
    assert!(state(&store, done).await.is_final());
    sql(&store, "UPDATE broadcast_tally SET total = 5000, sent = 5000 RETURNING 1::bigint").await;
    sql(&store, "UPDATE broadcast SET settled_at = created_at + interval '10 seconds' RETURNING 1::bigint")
        .await;
    let forecast = store.forecast(&Audience::Everyone).await.unwrap();
    let of = |name| forecast.providers.iter().find(|provider| provider.name == name).unwrap();
    assert_eq!((of("push").served, of("elsewhere").served), (Some(true), Some(false)));
    assert_eq!(of("push").recent_per_second, Some(500.0));
    assert_eq!(of("elsewhere").rate_per_second, Some(70));
}
