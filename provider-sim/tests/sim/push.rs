//! How a push is answered and counted.

use std::collections::BTreeMap;

use provider_sim::{Behaviour, BehaviourPatch};
use reqwest::{ClientBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Sim, client, error_of, push, push_json};

#[tokio::test]
async fn tls_is_spoken_on_the_port_of_clear_text_with_a_certificate_that_is_told() {
    let sim = Sim::well().await;
    let ca = sim.get("/ca.pem").await.bytes().await.expect("a certificate");
    let ca = reqwest::Certificate::from_pem(&ca).expect("in PEM");
    let url = format!("https://127.0.0.1:{}/push", sim.address.port());
    let trusting = client(|builder| builder.tls_certs_only([ca]));
    let answer = push(&trusting, &url, "token", "key").await.expect("an answer");
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, reqwest::Version::HTTP_2));
    let strange = push(&client(|builder| builder), &url, "token", "other").await;
    assert!(strange.is_err_and(|error| error.is_connect()), "nobody else knows this certificate");
    assert_eq!(sim.push("token", "key").await.status(), StatusCode::OK);
    assert_eq!((sim.stats().await.accepted, sim.stats().await.duplicates), (1, 1));
}

#[tokio::test]
async fn a_repeated_key_is_a_duplicate_unless_the_provider_dedupes() {
    let sim = Sim::well().await;
    for _ in 0..3 {
        assert_eq!(sim.push("t", "k").await.status(), StatusCode::OK);
    }
    sim.patch(&BehaviourPatch { dedupe: Some(true), ..Default::default() }).await;
    for key in ["k", "k", "other"] {
        assert_eq!(sim.push("t", key).await.status(), StatusCode::OK);
    }

    let stats = sim.stats().await;
    assert_eq!((stats.calls, stats.accepted, stats.duplicates, stats.suppressed), (6, 2, 2, 2));
    let duplicates = sim.deliveries("?duplicates=true").await;
    assert_eq!(duplicates.len(), 1);
    assert_eq!((duplicates[0].key.as_str(), duplicates[0].calls, duplicates[0].accepted), ("k", 5, 3));
}

#[tokio::test]
async fn without_an_idempotency_key_token_and_broadcast_are_the_key() {
    let sim = Sim::well().await;
    for (token, broadcast_id) in [("a", "1"), ("a", "2"), ("b", "1"), ("a", "1")] {
        let body = json!({ "to": token, "notification": { "broadcast_id": broadcast_id } });
        assert_eq!(sim.push_text(body.to_string()).await.status(), StatusCode::OK);
    }
    let stats = sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (3, 1));
    let keys: Vec<String> = sim.deliveries("").await.into_iter().map(|record| record.key).collect();
    assert_eq!(keys, ["a/1", "a/2", "b/1"]);
}

#[tokio::test]
async fn a_token_says_how_it_is_answered() {
    let sim = Sim::well().await;
    for (token, status, body) in [
        ("expired-1", 410, json!({ "error": "unregistered" })),
        ("failing-1", 503, json!({ "error": "unavailable" })),
        ("rejected-1", 400, json!({ "error": "rejected" })),
        ("mismatched-1", 400, json!({ "error": "mismatched" })),
        ("throttled-1", 429, json!({ "error": "throttled" })),
        ("good", 200, json!({ "id": "6" })),
    ] {
        let answer = sim.push(token, token).await;
        assert_eq!(answer.status(), status, "{token}");
        assert_eq!(answer.json::<Value>().await.expect("JSON"), body);
    }
    let stats = sim.stats().await;
    assert_eq!((stats.unregistered, stats.failing, stats.rejected, stats.throttled), (1, 1, 1, 1));
    assert_eq!((stats.calls, stats.accepted, stats.open), (6, 1, 0));
}

#[tokio::test]
async fn a_throttled_token_is_let_through_after_its_times() {
    let sim = Sim::start(Behaviour { throttle_times: 2, ..Behaviour::default() }).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = sim.push("throttled-1", "k").await;
        let retry_after =
            answer.headers().get("retry-after").map(|value| value.to_str().expect("text").to_owned());
        seen.push((answer.status().as_u16(), retry_after));
    }
    assert_eq!(seen, [(429, Some("1".to_owned())), (429, Some("1".to_owned())), (200, None)]);
}

#[tokio::test]
async fn an_outage_fails_every_push_and_ends_when_told() {
    let sim = Sim::start(Behaviour { outage: true, retry_after_s: Some(4), ..Behaviour::default() }).await;
    let answer = sim.push("expired-1", "k").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["retry-after"], "4");
    sim.patch(&BehaviourPatch { outage: Some(false), ..Default::default() }).await;
    assert_eq!(sim.push("t", "k").await.status(), StatusCode::OK);
    let stats = sim.stats().await;
    assert_eq!((stats.outage, stats.accepted, stats.transient_recovered), (1, 1, 0));
}

#[tokio::test]
async fn an_outage_by_the_clock_needs_nobody_to_switch_it() {
    let window = Behaviour { outage_duration_s: 3600.0, ..Behaviour::default() };
    let sim = Sim::start(window).await;
    assert_eq!(sim.push("t", "k").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    sim.patch(&BehaviourPatch { outage_start_s: Some(3600.0), ..Default::default() }).await;
    assert_eq!(sim.push("t", "k").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn any_status_can_be_forced_and_only_2xx_counts_as_accepted() {
    let sim = Sim::well().await;
    for status in [401, 302, 500, 204, 201] {
        sim.patch(&BehaviourPatch { status: Some(Some(status)), ..Default::default() }).await;
        let answer = sim.push("t", &status.to_string()).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers().contains_key("location"), status == 302);
    }
    let stats = sim.stats().await;
    assert_eq!((stats.overridden, stats.accepted), (3, 2));
}

#[tokio::test]
async fn transient_failures_depend_on_key_and_call_not_on_the_order_of_arrival() {
    const KEYS: u32 = 60;
    let behaviour = Behaviour { transient: 0.4, seed: 11, ..Behaviour::default() };
    let decisions = async |order: Vec<u32>| {
        let sim = Sim::start(behaviour.clone()).await;
        let mut answers: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for n in order {
            let status = sim.push("t", &format!("key-{n}")).await.status().as_u16();
            answers.entry(n).or_default().push(status);
        }
        (answers, sim.stats().await)
    };
    let key_by_key = (0..KEYS).flat_map(|n| [n, n, n]).collect();
    let round_by_round = (0..3).flat_map(|_| (0..KEYS).rev()).collect();
    let (one, stats) = decisions(key_by_key).await;
    let (other, other_stats) = decisions(round_by_round).await;

    assert_eq!(one, other);
    assert!(stats.transient > 0 && stats.transient < u64::from(KEYS) * 3);
    assert_eq!(stats.transient, other_stats.transient);
    let failed_first = |answers: &&Vec<u16>| answers.iter().position(|&status| status == 200) > Some(0);
    assert_eq!(stats.transient_recovered, one.values().filter(failed_first).count() as u64);
}

#[tokio::test]
async fn a_push_counts_even_if_its_caller_goes_away_before_the_answer() {
    let never_in_this_test = 600_000;
    let sim = Sim::start(Behaviour { latency_ms: never_in_this_test, ..Behaviour::default() }).await;
    let caller = sim.push_on_socket("t", "k").await;
    assert_eq!(sim.get("/wait?accepted=1").await.status(), StatusCode::OK);
    assert_eq!(sim.stats().await.open, 1, "the latency runs");

    drop(caller);
    let stats = sim.stats_when(|stats| stats.open == 0).await;
    assert_eq!((stats.accepted, stats.duplicates), (1, 0));
    sim.patch(&BehaviourPatch { latency_ms: Some(0), ..Default::default() }).await;
    sim.push("t", "k").await;
    assert_eq!(sim.stats().await.duplicates, 1, "the second attempt delivers again");
}

#[tokio::test]
async fn an_http2_caller_that_times_out_leaves_nothing_open() {
    let sim = Sim::start(Behaviour { hang: true, ..Behaviour::default() }).await;
    let impatient = client(|builder| builder.http2_prior_knowledge());
    let url = sim.url("/push");
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let (client, url) = (impatient.clone(), url.clone());
            tokio::spawn(async move { push(&client, &url, "t", &n.to_string()).await })
        })
        .collect();
    let stats = sim.stats_when(|stats| stats.hung == 200).await;
    assert_eq!((stats.open, stats.accepted), (200, 0));
    for call in &calls {
        call.abort();
    }
    sim.stats_when(|stats| stats.open == 0).await;

    sim.patch(&BehaviourPatch { hang: Some(false), ..Default::default() }).await;
    let answer = push(&impatient, &url, "t", "0").await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let stats = sim.stats().await;
    assert_eq!((stats.accepted, stats.max_open), (1, 200));
}

#[tokio::test]
async fn latency_passes_before_the_answer() {
    let sim = Sim::start(Behaviour { latency_ms: 60, jitter_ms: 10, ..Behaviour::default() }).await;
    let began = std::time::Instant::now();
    assert_eq!(sim.push("t", "k").await.status(), StatusCode::OK);
    assert!(began.elapsed() >= std::time::Duration::from_millis(50), "{:?}", began.elapsed());
}

#[tokio::test]
async fn http1_and_http2_are_served_on_one_port() {
    let sim = Sim::well().await;
    for (client, version) in [
        (client(|builder| builder.http1_only()), reqwest::Version::HTTP_11),
        (client(|builder| builder.http2_prior_knowledge()), reqwest::Version::HTTP_2),
    ] {
        let answer = push(&client, &sim.url("/push"), "t", &format!("{version:?}")).await.expect("an answer");
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, version));
    }
    assert_eq!(sim.stats().await.accepted, 2);
}

#[tokio::test]
async fn a_connection_is_told_to_go_away_after_its_pushes_and_answers_them() {
    let sim = Sim::start(Behaviour { goaway_after: 2, ..Behaviour::default() }).await;
    for http2 in [false, true] {
        let before = sim.stats().await.connections_total;
        let client = client(|builder| if http2 { builder.http2_prior_knowledge() } else { builder });
        for n in 0..6 {
            let answer = push(&client, &sim.url("/push"), "t", &format!("{http2}-{n}")).await;
            assert_eq!(answer.expect("an answer").status(), StatusCode::OK);
        }
        assert_eq!(sim.stats().await.connections_total - before, 3, "two pushes each, HTTP/2: {http2}");
    }
    assert_eq!(sim.stats().await.duplicates, 0);
}

#[tokio::test]
async fn a_connection_carries_no_more_calls_at_a_time_than_it_was_told() {
    let sim = Sim::start(Behaviour { max_streams: 3, latency_ms: 20, ..Behaviour::default() }).await;
    let client = client(ClientBuilder::http2_prior_knowledge);
    // One call first, so that the limit is known.
    push(&client, &sim.url("/push"), "t", "first").await.expect("an answer");
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..30 {
        let (client, url) = (client.clone(), sim.url("/push"));
        calls.spawn(async move { push(&client, &url, "t", &n.to_string()).await.expect("an answer") });
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(answer.expect("no panic").status(), StatusCode::OK);
    }
    assert_eq!(sim.stats().await.max_open, 3);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed_without_a_word_and_one_that_ends_makes_room() {
    let mut sim = Sim::start(Behaviour { max_connections: 2, hang: true, ..Behaviour::default() }).await;
    // One connection for all control: HTTP/1.1 would open a second while the first is busy.
    sim.client = client(ClientBuilder::http2_prior_knowledge);
    let stats = sim.stats().await;
    assert_eq!((stats.connections, stats.refused_connections), (1, 0));
    let holds = sim.push_on_socket("t", "a").await;
    sim.stats_when(|stats| stats.hung == 1).await;

    for refused in 1..=3 {
        let mut beyond = TcpStream::connect(sim.address).await.expect("the kernel accepts it");
        let mut said = Vec::new();
        assert_eq!(beyond.read_to_end(&mut said).await.expect("an end"), 0);
        let stats = sim.stats().await;
        assert_eq!((stats.connections, stats.connections_total), (2, 2));
        assert_eq!(stats.refused_connections, refused);
    }
    drop(holds);
    sim.stats_when(|stats| stats.connections == 1).await;
    let _next = sim.push_on_socket("t", "b").await;
    sim.stats_when(|stats| stats.hung == 2).await;

    sim.patch(&BehaviourPatch { max_connections: Some(3), ..Default::default() }).await;
    let _more = sim.push_on_socket("t", "c").await;
    let stats = sim.stats_when(|stats| stats.hung == 3).await;
    assert_eq!((stats.connections, stats.calls, stats.refused_connections), (3, 3, 3));
}

#[tokio::test]
async fn what_is_no_push_is_refused_and_not_counted_as_a_call() {
    let sim = Sim::well().await;
    for bad in ["", "no JSON", "{}", r#"{"to":""}"#, r#"{"to":7}"#, r#"{"to":"t"} more"#, "[1]"] {
        let answer = sim.push_text(bad).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{bad}");
        assert_eq!(error_of(answer).await.0, "malformed");
    }
    let long_key = push(&sim.client, &sim.url("/push"), "t", &"k".repeat(256)).await.expect("an answer");
    assert_eq!(long_key.status(), StatusCode::BAD_REQUEST);
    let stats = sim.stats().await;
    assert_eq!((stats.refused, stats.calls, stats.open), (8, 0, 0));
    assert_eq!(sim.push("t", &"k".repeat(255)).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_body_over_256_kib_is_too_large_and_one_below_is_read_whole() {
    let sim = Sim::well().await;
    let padded = |bytes: usize| {
        let mut body = push_json("t");
        body["notification"]["title"] = "x".repeat(bytes - body.to_string().len() + "봉수".len()).into();
        assert_eq!(body.to_string().len(), bytes);
        body.to_string()
    };
    assert_eq!(sim.push_text(padded(256 * 1024)).await.status(), StatusCode::OK);
    let answer = sim.push_text(padded(256 * 1024 + 1)).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(error_of(answer).await.0, "too_large");
}
