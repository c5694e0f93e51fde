//! The push service: what it opens, what it refuses.

use std::time::{SystemTime, UNIX_EPOCH};

use aes_gcm::aead::Aead as _;
use aes_gcm::{Aes128Gcm, KeyInit as _, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use p256::ecdh::diffie_hellman;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::{PublicKey, SecretKey};
use provider_sim::{Behaviour, BehaviourPatch};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::{Sim, client};

const PAYLOAD: &str = r#"{"broadcast_id":"123","title":"봉수 🔥"}"#;

/// An application server and the browser that it knows.
struct World {
    sim: Sim,
    tls: Client,
}

struct Subscription {
    endpoint: String,
    p256dh: Vec<u8>,
    auth: Vec<u8>,
}

fn bytes(text: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text.as_str().expect("text")).expect("base64url")
}

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_slice(&[byte; 32]).expect("a key")
}

impl World {
    async fn new(behaviour: Behaviour) -> Self {
        let sim = Sim::start(behaviour).await;
        let ca = sim.get("/ca.pem").await.bytes().await.expect("a certificate");
        let ca = reqwest::Certificate::from_pem(&ca).expect("in PEM");
        Self { sim, tls: client(|builder| builder.tls_certs_only([ca])) }
    }

    fn origin(&self) -> String {
        format!("https://{}", self.sim.address)
    }

    async fn subscription(&self, name: &str) -> Subscription {
        let url = format!("{}/webpush/subscription/{name}", self.origin());
        let text = self.tls.get(url).send().await.expect("an answer").text().await.expect("text");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let endpoint = json["endpoint"].as_str().expect("an endpoint").to_owned();
        assert_eq!(endpoint, format!("{}/webpush/{name}", self.origin()));
        let keys = &json["keys"];
        Subscription { endpoint, p256dh: bytes(&keys["p256dh"]), auth: bytes(&keys["auth"]) }
    }

    /// A push as it should be, to be changed.
    fn push(&self, to: &Subscription, body: Vec<u8>) -> RequestBuilder {
        self.tls
            .post(&to.endpoint)
            .header("TTL", "60")
            .header("Content-Encoding", "aes128gcm")
            .header("Topic", "123")
            .header("Urgency", "high")
            .body(body)
    }

    fn vapid(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims =
            json!({ "aud": self.origin(), "exp": now() + 3_600, "sub": "mailto:ops@example.com" });
        change(&mut claims);
        let key = secret(9);
        let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let signed = format!("{}.{}", part(r#"{"typ":"JWT","alg":"ES256"}"#), part(&claims.to_string()));
        let signature: Signature = SigningKey::from(key.clone()).sign(signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.to_bytes());
        let public = URL_SAFE_NO_PAD.encode(key.public_key().to_sec1_bytes());
        format!("vapid t={signed}.{signature}, k={public}")
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// RFC 8291 from the other side, with padding, which the sender does not use.
fn seal(to: &Subscription, payload: &str) -> Vec<u8> {
    let ours = secret(7);
    let public = ours.public_key().to_sec1_bytes();
    let theirs = PublicKey::from_sec1_bytes(&to.p256dh).expect("a point");
    let shared = diffie_hellman(ours.to_nonzero_scalar(), theirs.as_affine());
    let expand = |salt: &[u8], input: &[u8], info: &[u8], length: usize| {
        let mut expanded = vec![0; length];
        Hkdf::<Sha256>::new(Some(salt), input).expand(info, &mut expanded).expect("short");
        expanded
    };
    let info = [b"WebPush: info\0", &to.p256dh[..], &public].concat();
    let input = expand(&to.auth, shared.raw_secret_bytes(), &info, 32);
    let salt = [3; 16];
    let key = expand(&salt, &input, b"Content-Encoding: aes128gcm\0", 16);
    let nonce: [u8; 12] =
        expand(&salt, &input, b"Content-Encoding: nonce\0", 12).try_into().expect("12 bytes");
    let content = [payload.as_bytes(), &[2, 0, 0, 0]].concat();
    let cipher = Aes128Gcm::new_from_slice(&key).expect("16 bytes");
    let sealed = cipher.encrypt(&Nonce::from(nonce), &content[..]).expect("sealed");
    [&salt[..], &4_096_u32.to_be_bytes(), &[65], &public, &sealed].concat()
}

#[tokio::test]
async fn a_push_is_opened_and_counted_under_the_name_and_the_broadcast_that_was_in_it() {
    let world = World::new(Behaviour::default()).await;
    let to = world.subscription("browser-1").await;
    let push = world.push(&to, seal(&to, PAYLOAD)).header("Authorization", world.vapid(|_| ()));
    let answer = push.send().await.expect("an answer");
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["location"], "/webpush/message/1");
    let last = world.sim.get("/webpush/payload/browser-1").await.text().await.expect("text");
    assert_eq!(last, PAYLOAD);
    let keys: Vec<_> = world.sim.deliveries("").await.into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["browser-1/123"]);
}

#[tokio::test]
async fn names_say_how_a_push_is_answered() {
    let world = World::new(Behaviour::default()).await;
    for (name, status) in [("expired-1", 410), ("rejected-1", 400), ("failing-1", 503), ("throttled-1", 429)]
    {
        let to = world.subscription(name).await;
        let push = world.push(&to, seal(&to, PAYLOAD)).header("Authorization", world.vapid(|_| ()));
        let answer = push.send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{name}");
        assert_eq!(answer.headers().contains_key("retry-after"), status == 429, "{name}");
    }
}

#[tokio::test]
async fn a_push_that_is_not_as_the_rfcs_have_it_is_refused_and_not_counted_as_a_delivery() {
    let world = World::new(Behaviour::default()).await;
    let to = world.subscription("browser-1").await;
    let (fine, vapid) = (seal(&to, PAYLOAD), world.vapid(|_| ()));
    let with = |at: usize, byte: u8| {
        let mut body = fine.clone();
        body[at] = byte;
        body
    };
    let other = world.subscription("browser-2").await;
    let headers = ["TTL", "Content-Encoding", "Topic", "Urgency"];
    let replaced = |name: &'static str, value: &'static str| {
        let mut push = world.tls.post(&to.endpoint).header("Authorization", &vapid).body(fine.clone());
        for (header, usual) in headers.into_iter().zip(["60", "aes128gcm", "123", "high"]) {
            push = push.header(header, if header == name { value } else { usual });
        }
        push
    };
    let sealed = |body: Vec<u8>| world.push(&to, body).header("Authorization", &vapid);
    let signed = |vapid: String| world.push(&to, fine.clone()).header("Authorization", vapid);
    let mut short = with(18, 0);
    short[19] = 17;
    let mut forged = vapid.clone();
    forged.replace_range(vapid.len() - 120..vapid.len() - 110, "AAAAAAAAAA");
    for (what, push, status) in [
        ("no TTL", replaced("TTL", ""), 400),
        ("a TTL in words", replaced("TTL", "long"), 400),
        ("the encoding of a draft", replaced("Content-Encoding", "aesgcm"), 400),
        ("a topic of 33", replaced("Topic", "012345678901234567890123456789012"), 400),
        ("a topic with a dot", replaced("Topic", "1.2"), 400),
        ("an unknown urgency", replaced("Urgency", "now"), 400),
        ("a record size of 17", sealed(short), 400),
        ("another keyid", sealed(with(20, 64)), 400),
        ("a changed salt", sealed(with(0, 9)), 400),
        ("no body", sealed(vec![]), 400),
        ("somebody else's", sealed(seal(&other, PAYLOAD)), 400),
        ("no JSON", sealed(seal(&to, "hello")), 400),
        ("4,097 bytes", sealed(vec![0; 4_097]), 413),
        ("no credentials", world.push(&to, fine.clone()), 401),
        ("other credentials", signed("Bearer x".to_owned()), 401),
        ("a forged token", signed(forged), 403),
        ("another audience", signed(world.vapid(|c| c["aud"] = "https://push.example".into())), 403),
        ("an old token", signed(world.vapid(|c| c["exp"] = (now() - 1).into())), 403),
        ("a token for two days", signed(world.vapid(|c| c["exp"] = (now() + 172_800).into())), 403),
        ("a token of nobody", signed(world.vapid(|c| c["sub"] = "".into())), 403),
    ] {
        assert_eq!(push.send().await.expect("an answer").status(), status, "{what}");
    }
    let nowhere = world.tls.post(format!("{}/webpush/a/b", world.origin())).header("TTL", "1");
    assert_eq!(nowhere.send().await.expect("an answer").status(), 404);
    assert_eq!(world.sim.stats().await.accepted, 0);
}

#[tokio::test]
async fn a_lenient_push_service_opens_nothing_and_names_deliveries_by_topic() {
    let world = World::new(Behaviour::default()).await;
    world.sim.patch(&BehaviourPatch { lenient: Some(true), ..Default::default() }).await;
    let to = world.subscription("browser-1").await;
    assert_eq!(world.push(&to, b"sealed".to_vec()).send().await.expect("an answer").status(), 201);
    let keys: Vec<_> = world.sim.deliveries("").await.into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["browser-1/123"]);
}
