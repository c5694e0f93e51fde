//! Reading the counts and changing the behaviour while it runs.

use provider_sim::{Behaviour, BehaviourPatch, DeliveryRecord, Stats};
use reqwest::StatusCode;

use crate::support::{PATIENCE, Sim, error_of};

#[tokio::test]
async fn wait_wakes_at_the_nth_acceptance() {
    let sim = Sim::well().await;
    let waiting = sim.client.get(sim.url("/wait?accepted=3&timeout_ms=15000"));
    let waiting = tokio::spawn(async move { waiting.send().await?.json::<Stats>().await });
    for n in 0..3 {
        assert!(!waiting.is_finished(), "woken after {n}");
        sim.push("t", &n.to_string()).await;
    }
    let woken =
        tokio::time::timeout(PATIENCE, waiting).await.expect("woken").expect("no panic").expect("stats");
    assert_eq!(woken.accepted, 3);
    let at_once = sim.get("/wait?accepted=2&timeout_ms=0").await;
    assert_eq!(at_once.json::<Stats>().await.expect("stats").accepted, 3);
}

#[tokio::test]
async fn wait_ends_with_408_at_its_timeout() {
    let sim = Sim::well().await;
    sim.push("t", "k").await;
    let answer = sim.get("/wait?accepted=2&timeout_ms=10").await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    let (error, detail) = error_of(answer).await;
    assert_eq!((error.as_str(), detail.as_str()), ("timeout", "1 of 2 were accepted after 10 ms"));
}

#[tokio::test]
async fn an_unknown_behaviour_field_is_refused_with_its_name_and_the_known_ones() {
    let sim = Sim::well().await;
    let answer = sim.patch_text(r#"{"latency_ms":5,"latencyms":9}"#).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let (_, detail) = error_of(answer).await;
    for named in ["latencyms", "latency_ms", "outage_duration_s", "seed"] {
        assert!(detail.contains(&format!("`{named}`")), "{named} in {detail}");
    }
    let behaviour: Behaviour = sim.get("/behaviour").await.json().await.expect("a behaviour");
    assert_eq!(behaviour, Behaviour::default(), "nothing of a refused patch takes effect");
}

#[tokio::test]
async fn a_patch_changes_the_named_fields_and_answers_the_whole() {
    let sim = Sim::start(Behaviour { seed: 3, ..Behaviour::default() }).await;
    let patch = BehaviourPatch { transient: Some(0.5), status: Some(Some(503)), ..Default::default() };
    let expected = Behaviour { seed: 3, transient: 0.5, status: Some(503), ..Behaviour::default() };
    assert_eq!(sim.patch(&patch).await, expected);
    let back = sim.patch(&BehaviourPatch { status: Some(None), ..Default::default() }).await;
    assert_eq!(back, Behaviour { status: None, ..expected });
}

#[tokio::test]
async fn an_impossible_behaviour_is_refused() {
    let sim = Sim::well().await;
    for (patch, named) in
        [(r#"{"transient":2}"#, "transient"), (r#"{"jitter_ms":1}"#, "jitter_ms"), ("7", "")]
    {
        let answer = sim.patch_text(patch).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{patch}");
        assert!(error_of(answer).await.1.contains(named));
    }
}

#[tokio::test]
async fn a_mark_keeps_the_last_acceptance_before_and_the_first_after_it() {
    let sim = Sim::well().await;
    sim.push("t", "before").await;
    let marked = sim.post("/mark").await;
    let mark = marked.mark.clone().expect("a mark");
    assert_eq!((mark.accepted_at_mark, mark.open_at_mark, mark.first_accepted_after_unix_ms), (1, 0, None));
    assert_eq!(mark.last_accepted_before_unix_ms, marked.last_accepted_unix_ms);

    sim.push("t", "before").await;
    assert_eq!(sim.stats().await.mark, Some(mark.clone()), "a duplicate is no acceptance");
    sim.push("t", "after").await;
    let first_after = sim.stats().await.mark.expect("a mark").first_accepted_after_unix_ms;
    assert!(first_after >= Some(mark.at_unix_ms));
    sim.push("t", "later").await;
    assert_eq!(sim.stats().await.mark.expect("a mark").first_accepted_after_unix_ms, first_after);
}

#[tokio::test]
async fn deliveries_are_listed_whole_in_order_or_found_by_key() {
    const KEYS: usize = 2_500; // more than two pages of the listing
    let sim = Sim::well().await;
    for n in 0..KEYS {
        sim.push("t", &format!("{n}:+/b")).await;
    }
    sim.push("t", "2499:+/b").await;
    let listed = sim.deliveries("").await;
    assert_eq!(listed.len(), KEYS);
    assert!(listed.iter().enumerate().all(|(n, record)| record.key == format!("{n}:+/b")));
    let times: Vec<_> = listed.iter().map(|record| record.first_accepted_unix_us).collect();
    assert!(times[0].is_some() && times.is_sorted(), "each has the time at which it was accepted first");

    let expected = DeliveryRecord {
        key: "2499:+/b".into(),
        calls: 2,
        accepted: 2,
        transient: 0,
        first_accepted_unix_us: listed[KEYS - 1].first_accepted_unix_us,
    };
    assert_eq!(sim.deliveries("?duplicates=true").await, std::slice::from_ref(&expected));
    let one = sim.get("/deliveries?key=2499%3A%2B%2Fb").await;
    assert_eq!(one.json::<DeliveryRecord>().await.expect("a record"), expected);
    assert_eq!(sim.get("/deliveries?key=unknown").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_reset_forgets_counts_and_keys_and_keeps_the_behaviour() {
    let sim = Sim::start(Behaviour { seed: 5, ..Behaviour::default() }).await;
    sim.push("t", "k").await;
    sim.post("/mark").await;
    let after = sim.post("/reset").await;
    assert_eq!((after.calls, after.accepted, after.first_accepted_unix_ms, after.mark), (0, 0, None, None));
    assert_eq!(after.connections, 1, "the one that asks");
    assert!(sim.deliveries("").await.is_empty());
    sim.push("t", "k").await;
    let stats = sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (1, 0));
    let behaviour: Behaviour = sim.get("/behaviour").await.json().await.expect("a behaviour");
    assert_eq!(behaviour.seed, 5);
}

#[tokio::test]
async fn wrong_paths_methods_and_parameters_are_named() {
    let sim = Sim::well().await;
    assert_eq!(sim.get("/healthz").await.status(), StatusCode::OK);
    assert_eq!(sim.get("/statistics").await.status(), StatusCode::NOT_FOUND);
    let wrong_method = sim.get("/push").await;
    assert_eq!(wrong_method.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(wrong_method.headers()["allow"], "POST");
    for (path, named) in [
        ("/wait", "accepted"),
        ("/wait?accepted=x", "accepted"),
        ("/wait?accepted=1&timeout=5", "timeout"),
        ("/deliveries?duplicate=true", "duplicate"),
        ("/deliveries?key=%", "percent"),
    ] {
        let answer = sim.get(path).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{path}");
        assert!(error_of(answer).await.1.contains(named), "{path}");
    }
}
