//! Apple Push Notification service: what it believes, what it refuses, and in which words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use provider_sim::{APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC, Behaviour, BehaviourPatch};
use reqwest::{Client, Method, RequestBuilder, Response};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::support::{Sim, client};

const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

/// Somebody who has the key.
struct Caller {
    sim: Sim,
    client: Client,
    key: EcdsaKeyPair,
    /// The token of the moment.
    token: String,
}

impl Caller {
    async fn new(behaviour: Behaviour) -> Self {
        let sim = Sim::start(behaviour).await;
        let ca = sim.get("/ca.pem").await.bytes().await.expect("a certificate");
        let ca = reqwest::Certificate::from_pem(&ca).expect("in PEM");
        let client = client(|builder| builder.tls_certs_only([ca]));
        let pem = sim.get("/apns/key.p8").await.bytes().await.expect("a key");
        let der = PrivatePkcs8KeyDer::from_pem_slice(&pem).expect("in PEM");
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::from_pkcs8(kind, der.secret_pkcs8_der(), &random).expect("a key");
        let mut caller = Self { sim, client, key, token: String::new() };
        caller.token = caller.issue(0);
        caller
    }

    /// A token of so many seconds ago.
    fn issue(&self, ago_s: i64) -> String {
        let claims = json!({ "iss": APNS_TEAM_ID, "iat": unix_s() - ago_s });
        self.sign(&json!({ "alg": "ES256", "kid": APNS_KEY_ID }), &claims)
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.sim.address.port())
    }

    /// A push to a device that stands for `device`, without what `but` names.
    fn request(&self, device: &str, but: &str) -> RequestBuilder {
        let mut request = self.client.post(self.url(&path(device)));
        for (name, value) in [
            ("authorization", &*format!("bearer {}", self.token)),
            ("apns-topic", APNS_TOPIC),
            ("apns-push-type", "alert"),
            ("apns-priority", "10"),
            ("apns-expiration", "2000000000"),
            ("apns-collapse-id", "7"),
            ("apns-id", ID),
        ] {
            if name != but {
                request = request.header(name, value);
            }
        }
        if but == "body" { request } else { request.body(payload()) }
    }

    async fn push(&self, device: &str) -> Response {
        sent(self.request(device, "")).await
    }

    /// Status and reason of a push with another token.
    async fn push_with(&self, token: &str) -> (u16, String) {
        let request = self.request("good-1", "authorization");
        refusal(sent(request.header("authorization", format!("bearer {token}"))).await).await
    }
}

fn unix_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs().cast_signed()
}

fn path(device: &str) -> String {
    let digits: String = device.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("/3/device/{digits}")
}

fn payload() -> String {
    json!({ "aps": { "alert": { "title": "봉수" } }, "broadcast_id": "7" }).to_string()
}

async fn sent(request: RequestBuilder) -> Response {
    request.send().await.expect("an answer")
}

/// The status, and Apple's reason where there is one.
async fn refusal(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap_or_default();
    (status, body["reason"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_push_as_apple_documents_it_is_accepted_and_its_id_names_the_delivery() {
    let caller = Caller::new(Behaviour::default()).await;
    for _ in 0..2 {
        let answer = caller.push("good-1").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["apns-id"], ID);
        assert_eq!(answer.text().await.expect("a body"), "");
    }
    let stats = caller.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.refused), (1, 1, 0));
    assert_eq!(caller.sim.deliveries("").await[0].key, ID);
}

#[tokio::test]
async fn every_mistake_is_refused_in_apples_words_and_is_no_push() {
    let caller = Caller::new(Behaviour::default()).await;
    let long = "x".repeat(65);
    let with = |name: &'static str, value: &str| caller.request("good-1", name).header(name, value);
    let body = |value: Value| caller.request("good-1", "body").body(value.to_string());
    let at = |path: &str| {
        caller.client.post(caller.url(path)).header("authorization", format!("bearer {}", caller.token))
    };
    let to = |digits: &str| {
        let request = caller.request("good-1", "").build().expect("a request");
        let mut other = request.try_clone().expect("a copy");
        *other.url_mut() = caller.url(&format!("/3/device/{digits}")).parse().expect("a URL");
        RequestBuilder::from_parts(caller.client.clone(), other)
    };
    let background = |priority: &str| {
        let request = caller.request("good-1", "apns-push-type").header("apns-push-type", "background");
        let mut request = request.build().expect("a request");
        request.headers_mut().insert("apns-priority", priority.parse().expect("text"));
        RequestBuilder::from_parts(caller.client.clone(), request)
    };
    let cases = [
        (caller.request("good-1", "authorization"), 403, "MissingProviderToken"),
        (with("authorization", "bearer nonsense"), 403, "InvalidProviderToken"),
        (caller.request("good-1", "apns-topic"), 400, "MissingTopic"),
        (with("apns-topic", ""), 400, "BadTopic"),
        (with("apns-topic", "com.example.other"), 400, "TopicDisallowed"),
        (caller.request("good-1", "apns-push-type"), 400, "InvalidPushType"),
        (with("apns-push-type", "pigeon"), 400, "InvalidPushType"),
        (with("apns-priority", "11"), 400, "BadPriority"),
        (background("10"), 400, "BadPriority"),
        (background("5"), 400, "InvalidPayload"),
        (with("apns-expiration", "soon"), 400, "BadExpirationDate"),
        (with("apns-collapse-id", &long), 400, "BadCollapseId"),
        (caller.request("good-1", "apns-id"), 400, "BadMessageId"),
        (with("apns-id", "7"), 400, "BadMessageId"),
        (caller.request("good-1", "").header("apns-priority", "5"), 400, "DuplicateHeaders"),
        (caller.request("good-1", "body"), 400, "PayloadEmpty"),
        (body(json!({ "alert": "no aps" })), 400, "InvalidPayload"),
        (body(json!({ "aps": { "alert": "x".repeat(4_096) } })), 413, "PayloadTooLarge"),
        (to(""), 400, "MissingDeviceToken"),
        (to("00ff00ff0"), 400, "BadDeviceToken"),
        (to("not-hexadecimal!"), 400, "BadDeviceToken"),
        (to(&"00".repeat(101)), 400, "BadDeviceToken"),
        (at("/3/devices/00ff00ff"), 404, "BadPath"),
        (caller.client.request(Method::GET, caller.url(&path("good-1"))), 405, "MethodNotAllowed"),
    ];
    let refused = cases.len() as u64;
    for (request, status, reason) in cases {
        assert_eq!(refusal(sent(request).await).await, (status, reason.to_owned()));
    }
    let stats = caller.sim.stats().await;
    assert_eq!((stats.calls, stats.refused), (0, refused));
}

#[tokio::test]
async fn only_http2_is_spoken() {
    let caller = Caller::new(Behaviour::default()).await;
    let old = client(|builder| builder.http1_only());
    let answer = sent(old.post(caller.sim.url(&path("good-1"))).body(payload())).await;
    assert_eq!(answer.status(), 505);
}

#[tokio::test]
async fn what_the_digits_of_a_device_token_stand_for_says_how_it_is_answered() {
    let ago = Duration::from_secs(500);
    let caller = Caller::new(Behaviour { unregistered_ago_s: 500, ..Behaviour::default() }).await;
    for (device, status, reason) in [
        ("rejected-1", 413, "PayloadTooLarge"),
        ("mismatched-1", 400, "BadDeviceToken"),
        ("failing-1", 500, "InternalServerError"),
        ("throttled-1", 429, "TooManyRequests"),
    ] {
        assert_eq!(refusal(caller.push(device).await).await, (status, reason.to_owned()), "{device}");
    }
    let gone = caller.push("expired-1").await;
    assert_eq!(gone.status(), 410);
    let gone: Value = gone.json().await.expect("JSON");
    let since = Duration::from_millis(gone["timestamp"].as_u64().expect("a time"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    assert_eq!(gone["reason"], "Unregistered");
    assert!((ago..ago * 2).contains(&(now - since)), "{:?}", now - since);
    let outage = BehaviourPatch { outage: Some(true), ..Default::default() };
    caller.sim.patch(&outage).await;
    assert_eq!(refusal(caller.push("good-1").await).await, (503, "Shutdown".to_owned()));
    let stats = caller.sim.stats().await;
    assert_eq!((stats.mismatched, stats.unregistered, stats.calls), (1, 1, 6));
}

#[tokio::test]
async fn a_token_must_be_of_the_team_signed_with_the_key_and_an_hour_old_at_most() {
    let caller = Caller::new(Behaviour { provider_token_interval_s: 0, ..Behaviour::default() }).await;
    let header = json!({ "alg": "ES256", "kid": APNS_KEY_ID });
    let claims = json!({ "iss": APNS_TEAM_ID, "iat": unix_s() });
    let invalid = [
        caller.sign(&json!({ "alg": "HS256", "kid": APNS_KEY_ID }), &claims),
        caller.sign(&json!({ "alg": "ES256", "kid": "OTHERKEY00" }), &claims),
        caller.sign(&header, &json!({ "iss": "OTHERTEAM0", "iat": unix_s() })),
        caller.sign(&header, &json!({ "iss": APNS_TEAM_ID })),
        caller.issue(-100),
        format!("{}x", caller.issue(0)),
        caller.issue(0).rsplit_once('.').expect("a signature").0.to_owned() + ".AAAA",
    ];
    for token in &invalid {
        assert_eq!(caller.push_with(token).await, (403, "InvalidProviderToken".to_owned()), "{token}");
    }
    assert_eq!(caller.push_with(&caller.issue(3_700)).await, (403, "ExpiredProviderToken".to_owned()));
    assert_eq!(caller.push_with(&caller.issue(3_500)).await.0, 200);
}

#[tokio::test]
async fn a_token_that_comes_too_soon_after_another_is_refused_and_the_other_goes_on() {
    let caller = Caller::new(Behaviour::default()).await;
    let (one, other) = (caller.issue(30), caller.issue(20));
    assert_eq!(caller.push_with(&one).await.0, 200);
    assert_eq!(caller.push_with(&other).await, (429, "TooManyProviderTokenUpdates".to_owned()));
    assert_eq!(caller.push_with(&one).await.0, 200);
    caller.sim.patch(&BehaviourPatch { provider_token_interval_s: Some(0), ..Default::default() }).await;
    for token in [&other, &one] {
        assert_eq!(caller.push_with(token).await.0, 200, "both are known now");
    }
}

#[tokio::test]
async fn a_clock_that_is_ahead_takes_tokens_for_old_and_tells_its_time() {
    let caller = Caller::new(Behaviour { clock_ahead_s: 7_200, ..Behaviour::default() }).await;
    let answer = caller.push("good-1").await;
    let date = answer.headers()["date"].to_str().expect("text").to_owned();
    let date = httpdate::parse_http_date(&date).expect("a date");
    let ahead = date.duration_since(SystemTime::now()).expect("ahead");
    assert!((7_190..=7_200).contains(&ahead.as_secs()), "{ahead:?}");
    assert_eq!(refusal(answer).await, (403, "ExpiredProviderToken".to_owned()));
    assert_eq!(caller.push_with(&caller.issue(-7_190)).await.0, 200);
}
