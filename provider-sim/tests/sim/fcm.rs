//! Firebase Cloud Messaging, over TLS: what the real one refuses is refused, in its words.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use provider_sim::{Behaviour, BehaviourPatch};
use reqwest::{Client, Response, StatusCode};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::support::{Sim, client};

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

/// A simulator, and one who sends to it.
struct Fcm {
    sim: Sim,
    client: Client,
    account: Value,
}

impl Fcm {
    async fn start(behaviour: Behaviour) -> Self {
        let sim = Sim::start(behaviour).await;
        let ca = sim.get("/ca.pem").await.bytes().await.expect("a certificate");
        let ca = reqwest::Certificate::from_pem(&ca).expect("in PEM");
        let client = client(|builder| builder.tls_certs_only([ca]));
        let account = client.get(tls(&sim, "/fcm/service-account.json")).send().await.expect("an answer");
        let account = account.json().await.expect("a key file");
        Self { sim, client, account }
    }

    /// Claims that are right, at that moment.
    fn claims(&self) -> Value {
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        json!({
            "iss": self.account["client_email"], "scope": SCOPE, "aud": self.account["token_uri"],
            "iat": now, "exp": now + 3_600,
        })
    }

    fn assertion(&self, claims: &Value) -> String {
        let key = self.account["private_key"].as_str().expect("a key");
        let key = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).expect("in PEM");
        let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).expect("an RSA key");
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "RS256", "typ": "JWT" })), part(claims));
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    async fn ask(&self, assertion: &str) -> Response {
        let grant_type = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
        self.ask_with(format!("grant_type={grant_type}&assertion={assertion}")).await
    }

    async fn ask_with(&self, form: String) -> Response {
        let url = self.account["token_uri"].as_str().expect("a URL");
        self.client.post(url).body(form).send().await.expect("an answer")
    }

    async fn token(&self) -> String {
        let answer = self.ask(&self.assertion(&self.claims())).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let grant: Value = answer.json().await.expect("a grant");
        grant["access_token"].as_str().expect("a token").to_owned()
    }

    async fn send(&self, token: &str, body: &Value) -> Response {
        self.send_to("bongsu-test", token, body).await
    }

    async fn send_to(&self, project: &str, token: &str, body: &Value) -> Response {
        let url = tls(&self.sim, &format!("/v1/projects/{project}/messages:send"));
        self.client.post(url).bearer_auth(token).json(body).send().await.expect("an answer")
    }
}

fn tls(sim: &Sim, path: &str) -> String {
    format!("https://127.0.0.1:{}{path}", sim.address.port())
}

fn message(token: &str) -> Value {
    json!({ "message": {
        "token": token,
        "notification": { "title": "봉수", "body": "b" },
        "data": { "k": "v" },
        "android": {
            "priority": "HIGH", "ttl": "90s", "collapse_key": "7", "notification": { "tag": "7", "channel_id": "news" },
        },
        "apns": {
            "headers": { "apns-expiration": "1700000090", "apns-collapse-id": "7", "apns-priority": "10" },
            "payload": { "aps": { "sound": "default" } },
        },
        "webpush": { "headers": { "TTL": "90", "Urgency": "high", "Topic": "7" } },
    }})
}

/// Status, and FCM's own code, else that of the answer.
async fn told(answer: Response) -> (u16, String) {
    let http = answer.status().as_u16();
    let body: Value = answer.json().await.expect("JSON");
    let error = &body["error"];
    assert_eq!(error["code"], http, "{body}");
    let details = error["details"].as_array().cloned().unwrap_or_default();
    let code = details.iter().find_map(|detail| detail["errorCode"].as_str());
    (http, code.or(error["status"].as_str()).expect("a code").to_owned())
}

#[tokio::test]
async fn a_token_says_how_fcm_answers_in_its_own_words() {
    let fcm = Fcm::start(Behaviour::default()).await;
    let token = fcm.token().await;
    for (device, status, code) in [
        ("expired-1", 404, "UNREGISTERED"),
        ("rejected-1", 400, "INVALID_ARGUMENT"),
        ("mismatched-1", 403, "SENDER_ID_MISMATCH"),
        ("throttled-1", 429, "QUOTA_EXCEEDED"),
        ("failing-1", 503, "UNAVAILABLE"),
    ] {
        let answer = fcm.send(&token, &message(device)).await;
        assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
        assert_eq!(told(answer).await, (status, code.to_owned()), "{device}");
    }
    let answer = fcm.send(&token, &message("good")).await;
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, reqwest::Version::HTTP_2));
    let name = answer.json::<Value>().await.expect("JSON")["name"].clone();
    assert_eq!(name, "projects/bongsu-test/messages/6");
    let stats = fcm.sim.stats().await;
    assert_eq!((stats.unregistered, stats.rejected, stats.mismatched, stats.throttled), (1, 1, 1, 1));
    assert_eq!((stats.failing, stats.accepted, stats.calls, stats.fcm_tokens), (1, 1, 6, 1));
}

#[tokio::test]
async fn token_and_collapse_key_are_the_key_and_what_is_only_checked_is_not_counted() {
    let fcm = Fcm::start(Behaviour::default()).await;
    let token = fcm.token().await;
    for validate_only in [true, false, false] {
        let mut body = message("device");
        body["validate_only"] = validate_only.into();
        assert_eq!(fcm.send(&token, &body).await.status(), StatusCode::OK);
    }
    let stats = fcm.sim.stats().await;
    assert_eq!((stats.calls, stats.accepted, stats.duplicates, stats.refused), (2, 1, 1, 0));
    assert_eq!(fcm.sim.deliveries("").await[0].key, "device/7");
}

#[tokio::test]
async fn a_message_that_fcm_would_not_take_is_refused_with_its_field() {
    let fcm = Fcm::start(Behaviour::default()).await;
    let token = fcm.token().await;
    let with = |pointer: &str, value: Value| {
        let mut body = message("device");
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).expect("the parent")[field] = value;
        body
    };
    let long = "x".repeat(4_096);
    for (body, field) in [
        (with("/message/token", json!("")), "message.token"),
        (with("/message/token", Value::Null), "message.token"),
        (with("/message/topic", json!("news")), "message"),
        (with("/message/colour", json!("red")), "message.colour"),
        (with("/message/data/n", json!(12)), "message.data"),
        (with("/message/data/from", json!("x")), "message.data[\"from\"]"),
        (with("/message/data/google.c", json!("x")), "message.data[\"google.c\"]"),
        (with("/message/data/k", json!(long)), "message"),
        (with("/message/notification/colour", json!("red")), "message.notification.colour"),
        (with("/message/android/ttl", json!("90")), "message.android.ttl"),
        (with("/message/android/ttl", json!("2419201s")), "message.android.ttl"),
        (with("/message/android/priority", json!("URGENT")), "message"),
        (with("/message/apns/headers/apns-priority", json!("11")), "message.apns.headers[\"apns-priority\"]"),
        (with("/message/webpush/headers/TTL", json!("-1")), "message.webpush.headers[\"TTL\"]"),
    ] {
        let answer = fcm.send(&token, &body).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{field}");
        let answer: Value = answer.json().await.expect("JSON");
        let violation = &answer["error"]["details"][1];
        assert_eq!(violation["@type"], "type.googleapis.com/google.rpc.BadRequest");
        assert_eq!(violation["fieldViolations"][0]["field"], field, "{answer}");
    }
    let stats = fcm.sim.stats().await;
    assert_eq!((stats.calls, stats.refused), (0, 14));
}

#[tokio::test]
async fn whoever_has_no_good_token_or_another_project_may_not_send() {
    let fcm = Fcm::start(Behaviour { fcm_token_lifetime_s: 0, ..Behaviour::default() }).await;
    let unauthenticated = (401, "UNAUTHENTICATED".to_owned());
    let ended = fcm.token().await;
    for token in ["", "invented", &ended] {
        assert_eq!(told(fcm.send(token, &message("device")).await).await, unauthenticated, "{token}");
    }
    fcm.sim.patch(&BehaviourPatch { fcm_token_lifetime_s: Some(60), ..Default::default() }).await;
    let token = fcm.token().await;
    assert_eq!(fcm.send(&token, &message("device")).await.status(), StatusCode::OK);
    let elsewhere = fcm.send_to("another", &token, &message("device")).await;
    assert_eq!(told(elsewhere).await, (403, "PERMISSION_DENIED".to_owned()));
    let url = tls(&fcm.sim, "/v1/projects/bongsu-test/messages:send");
    let wrong_method = fcm.client.get(url).bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(told(wrong_method).await, (404, "NOT_FOUND".to_owned()));
    let revoked = fcm.client.post(tls(&fcm.sim, "/fcm/revoke")).send().await.expect("an answer");
    assert_eq!(revoked.status(), StatusCode::OK);
    assert_eq!(told(fcm.send(&token, &message("device")).await).await, unauthenticated);
}

#[tokio::test]
async fn a_token_is_given_for_an_assertion_that_is_right_in_everything() {
    let fcm = Fcm::start(Behaviour::default()).await;
    let right = fcm.claims();
    let now = right["iat"].as_u64().expect("seconds");
    let with = |changes: &[(&str, Value)]| {
        let mut claims = right.clone();
        for (name, value) in changes {
            claims[*name] = value.clone();
        }
        fcm.assertion(&claims)
    };
    let mut forged = with(&[]);
    forged.replace_range(forged.len() - 9.., "AAAAAAAAA");
    for (assertion, error) in [
        (with(&[("iss", json!("someone@else"))]), "invalid_grant"),
        (with(&[("aud", json!("https://oauth2.googleapis.com/token"))]), "invalid_grant"),
        (with(&[("scope", json!("https://www.googleapis.com/auth/calendar"))]), "invalid_scope"),
        (with(&[("exp", json!(now + 3_601))]), "invalid_grant"),
        (with(&[("iat", json!(now - 7_200)), ("exp", json!(now - 3_600))]), "invalid_grant"),
        (with(&[("iat", json!(now + 400)), ("exp", json!(now + 500))]), "invalid_grant"),
        (forged, "invalid_grant"),
        ("a.b".to_owned(), "invalid_grant"),
    ] {
        let answer = fcm.ask(&assertion).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert_eq!(answer.json::<Value>().await.expect("JSON")["error"], error, "{assertion}");
    }
    let other_grant = fcm.ask_with(format!("grant_type=password&assertion={}", with(&[]))).await;
    let told = other_grant.json::<Value>().await.expect("JSON");
    assert_eq!(told["error"], "unsupported_grant_type");
    assert_eq!(fcm.ask(&with(&[("iat", json!(now + 200))])).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_token_endpoint_can_fail_and_be_ahead_of_everybodys_time() {
    let fcm = Fcm::start(Behaviour { fcm_token_status: Some(503), ..Behaviour::default() }).await;
    let assertion = fcm.assertion(&fcm.claims());
    assert_eq!(fcm.ask(&assertion).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let clock =
        BehaviourPatch { fcm_token_status: Some(None), clock_ahead_s: Some(7_200), ..Default::default() };
    fcm.sim.patch(&clock).await;
    let answer = fcm.ask(&assertion).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "the assertion has ended by the endpoint's clock");
    let date = answer.headers()["date"].to_str().expect("a date");
    let date = httpdate::parse_http_date(date).expect("a date");
    let ahead = date.duration_since(std::time::SystemTime::now()).expect("ahead").as_secs();
    assert!((7_190..=7_200).contains(&ahead), "{ahead}");
    assert_eq!(fcm.sim.stats().await.fcm_tokens, 2);
}
