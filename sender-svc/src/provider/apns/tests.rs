use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bongsu_store::{BroadcastId, DeviceId, Message};
use hyper::StatusCode;

use super::*;
use crate::provider::credentials::Source;

/// A key that opens nothing, and another; in the two forms that PKCS #8 has for the same thing.
const KEYS: [&str; 2] = [
    include_str!("../../../../provider-sim/keys/apns-test-key-opens-nothing.p8"),
    include_str!("../../../../provider-sim/keys/apns-other-key-opens-nothing.p8"),
];

const BROADCAST: BroadcastId = BroadcastId(7);
/// A moment when tokens change.
const HALF_PAST: u64 = 1_700_000_000 / 1_800 * 1_800;

struct KeyFile(PathBuf);

impl KeyFile {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bongsu-apns-{name}-{}", std::process::id()));
        let file = Self(path);
        file.write(KEYS[0]);
        file
    }

    fn write(&self, key: &str) {
        std::fs::write(&self.0, key).expect("written");
    }

    fn settings(&self, more: &str) -> Settings {
        let path = self.0.display();
        let table = format!(
            "credentials = {{ file = \"{path}\" }}\nkey_id = \"ABC123DEFG\"\nteam_id = \"DEF123GHIJ\"\n{more}"
        );
        toml::from_str(&table).expect("settings")
    }

    fn apns(&self, more: &str) -> Apns {
        bongsu_ops::telemetry::install_crypto();
        let more = format!("topic = \"com.example.app\"\nenvironment = \"sandbox\"\n{more}");
        Apns::new(self.settings(&more), 100, Duration::from_secs(1)).expect("a client")
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn message(title: &str) -> Message {
    let data = BTreeMap::from([("screen".to_owned(), "home".to_owned())]);
    Message { title: title.to_owned(), body: String::new(), data }
}

fn refused(date: Option<SystemTime>) -> Reply {
    let date = date.map(|date| HeaderValue::from_str(&httpdate::fmt_http_date(date)).expect("a date"));
    let headers = date.into_iter().map(|date| (hyper::header::DATE, date)).collect();
    Reply { status: StatusCode::FORBIDDEN, headers, body: vec![] }
}

fn failure(reason: &str) -> Failure {
    Failure::parse(format!(r#"{{"reason":"{reason}"}}"#).as_bytes())
}

fn brief(message: &Message, priority: Priority) -> Brief<'_> {
    Brief { origin: BROADCAST, message, priority }
}

#[test]
fn whoever_holds_the_key_makes_the_same_token_to_the_byte() {
    let token = |key: &str| jwt::Key::parse(key.as_bytes()).expect("a key").token("K", "T", 1_800);
    assert_eq!(token(KEYS[0]), token(KEYS[0]));
    assert_ne!(token(KEYS[0]), token(KEYS[1]));
    let parts: Vec<_> = token(KEYS[0]).split('.').map(str::to_owned).collect();
    // {"alg":"ES256","kid":"K"} and {"iss":"T","iat":1800}
    assert_eq!(parts[0], "eyJhbGciOiJFUzI1NiIsImtpZCI6IksifQ");
    assert_eq!(parts[1], "eyJpc3MiOiJUIiwiaWF0IjoxODAwfQ");
    assert_eq!((parts.len(), parts[2].len()), (3, 86), "64 bytes without padding");
}

#[test]
fn what_is_wrong_with_a_key_is_told_without_the_key() {
    let cut = &KEYS[0][..120];
    for wrong in
        [cut.as_bytes(), b"", b"\xff\xfe", b"-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"]
    {
        let told = jwt::Key::parse(wrong).err().expect("no key");
        let told = format!("{told:#} {told:?}");
        assert!(told.contains(".p8") && !told.contains("MIGH"), "{told}");
    }
}

#[tokio::test]
async fn two_senders_use_one_token_and_make_it_once() {
    let file = KeyFile::new("two");
    let [one, other] = [file.apns(""), file.apns("")];
    one.tokens.clock().pretend(HALF_PAST + 3);
    other.tokens.clock().pretend(HALF_PAST + 1_700);
    let held = one.tokens.get();
    assert_eq!(held.header().as_bytes(), other.tokens.get().header().as_bytes());
    assert!(Arc::ptr_eq(&held, &one.tokens.get()));
    assert!(!format!("{one:?} {:?}", held.header()).contains("eyJ"), "no token in what is logged");
}

#[tokio::test]
async fn a_changed_key_file_is_a_new_token_at_once() {
    let file = KeyFile::new("changed");
    let credentials = Credentials::load(Source::File(file.0.clone()), jwt::Key::parse).expect("a key");
    let tokens = Tokens::new(credentials.clone(), "ABC123DEFG".into(), "DEF123GHIJ".into());
    let before = tokens.get();
    file.write(KEYS[1]);
    assert!(credentials.look());
    assert_ne!(before.header(), tokens.get().header());
}

#[tokio::test]
async fn a_refused_token_is_replaced_where_there_is_another_and_only_then() {
    let file = KeyFile::new("refused");
    let apns = file.apns("");
    let used = apns.tokens.get();
    let expired = failure("ExpiredProviderToken");
    let now = SystemTime::now();
    for (failure, reply) in [
        (&expired, refused(None)),
        (&expired, refused(Some(now))),
        (&failure("BadDeviceToken"), refused(Some(now + Duration::from_secs(7_200)))),
    ] {
        let other = apns.tokens.instead_of(&used, failure, &reply);
        assert!(other.is_none_or(|other| other.header() != used.header()), "only at the half hour");
    }
    let ahead = refused(Some(now + Duration::from_secs(7_200)));
    let other = apns.tokens.instead_of(&used, &expired, &ahead).expect("issued two hours later");
    assert_ne!(other.header(), used.header());
    assert!(apns.tokens.instead_of(&other, &expired, &ahead).is_none(), "there is no newer one");
}

#[tokio::test]
async fn where_a_token_comes_too_soon_the_one_of_before_is_used_until_it_does_not() {
    let file = KeyFile::new("soon");
    let tokens = file.apns("").tokens;
    let at = |unix_s| {
        tokens.clock().pretend(unix_s);
        tokens.get()
    };
    let too_many = failure("TooManyProviderTokenUpdates");
    let (before, new) = (at(HALF_PAST - 5), at(HALF_PAST + 5));
    assert_ne!(before.header(), new.header());
    let other = tokens.instead_of(&new, &too_many, &refused(None)).expect("the one of before");
    assert_eq!(other.header(), before.header());
    assert!(tokens.instead_of(&other, &too_many, &refused(None)).is_none(), "there is no third");
    assert_eq!(at(HALF_PAST + 1_190).header(), before.header());
    assert_eq!(at(HALF_PAST + 1_210).header(), new.header());
}

#[tokio::test]
async fn a_request_says_what_apple_wants_to_know() {
    let file = KeyFile::new("request");
    let apns = file.apns("");
    let expiration = HeaderValue::from(5);
    let id = apns_id("7-8");
    let head = |title: &str, priority| {
        let content = apns.prepare(brief(&message(title), priority));
        let headers = apns.headers(&content, apns.tokens.get().header(), &expiration, &id);
        let text = |name: &str| headers[name].to_str().expect("text").to_owned();
        (
            text("apns-push-type"),
            text("apns-priority"),
            text("apns-collapse-id"),
            text("apns-topic"),
            headers.len(),
        )
    };
    let expected = |kind: &str, priority: &str| {
        (kind.into(), priority.into(), "7".into(), "com.example.app".into(), HEADERS)
    };
    assert_eq!(head("shown", Priority::Normal), expected("alert", "10"));
    assert_eq!(head("shown", Priority::Low), expected("alert", "5"));
    assert_eq!(head("", Priority::High), expected("background", "5"));
    let content = apns.prepare(brief(&message("secret"), Priority::Normal));
    assert!(!format!("{content:?}").contains("secret"));
}

#[tokio::test]
async fn the_sound_is_that_of_the_settings_and_silence_where_it_is_empty() {
    let file = KeyFile::new("sound");
    let aps = |more: &str| {
        let payload = file.apns(more).prepare(brief(&message("shown"), Priority::Normal)).payload;
        let payload: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
        payload["aps"]["sound"].as_str().map(str::to_owned)
    };
    assert_eq!(aps("").as_deref(), Some("default"));
    assert_eq!(aps("sound = \"bell.caf\"").as_deref(), Some("bell.caf"));
    assert_eq!(aps("sound = \"\""), None);
}

#[test]
fn the_id_of_a_delivery_is_a_uuid_and_always_the_same() {
    let id = |key: &str| apns_id(key).to_str().expect("text").to_owned();
    let uuid = uuid::Uuid::parse_str(&id("7-8")).expect("a UUID");
    assert_eq!((uuid.get_version_num(), uuid.get_variant()), (8, uuid::Variant::RFC4122));
    assert_eq!(id("7-8"), id("7-8"));
    assert_ne!(id("7-8"), id("78-"));
    assert!(apns_id("7-8").is_sensitive());
}

#[tokio::test]
async fn what_is_no_device_token_is_never_put_into_a_path() {
    let file = KeyFile::new("path");
    let apns = file.apns("");
    let uri = apns.uri("00fcA1").expect("a path");
    assert_eq!(uri, "https://api.sandbox.push.apple.com/3/device/00fcA1");
    let content = apns.prepare(brief(&message("x"), Priority::Normal));
    for token in ["", "../../x", "00 11", "00?a=b", "한", &"0".repeat(TOKEN_DIGITS + 1)] {
        let (now, time_left) = (Instant::now(), Duration::from_secs(60));
        let call = Call { now, origin: BROADCAST, device: DeviceId(1), token, time_left, trace: None };
        let answer = apns.call(call, &content).await;
        assert!(
            matches!(&answer, Answer::Suspect(said) if !said.detail.contains("..")),
            "{token}: {answer:?}"
        );
    }
}

#[test]
fn a_setting_that_is_wrong_is_named() {
    let file = KeyFile::new("settings");
    let good = "topic = \"com.example.app\"\nenvironment = \"production\"\n";
    assert!(file.settings(good).check().is_ok());
    for (wrong, named) in [
        ("topic = \"\"\nenvironment = \"production\"", "topic"),
        ("topic = \"a b\"\nenvironment = \"production\"", "topic"),
        (&format!("{good}sound = \"{}\"", "x".repeat(33)), "sound"),
        (&format!("{good}endpoint = \"http://push.example\""), "endpoint"),
        (&format!("{good}endpoint = \"https://push.example/path\""), "endpoint"),
    ] {
        let settings = file.settings(wrong);
        let told = settings.check().and_then(|()| settings.endpoint()).expect_err(named);
        assert!(format!("{told:#}").contains(named), "{told:#}");
    }
    let mut short = file.settings(good);
    short.key_id = "ABC".into();
    assert!(short.check().expect_err("short").to_string().contains("key_id"));
    assert_eq!(file.settings(good).endpoint().expect("Apple's").host(), Some("api.push.apple.com"));
}
