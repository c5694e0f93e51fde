//! A whole broadcast in a file, as JSON or TOML, with the names of the API.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use bongsu_proto::v1;
use bongsu_proto::v1::audience::Kind;
use bongsu_proto::v1::create_broadcast_request::Expiry;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};

use crate::times::{parse_span, parse_time};
use crate::words::{self, Word, parse_id};

/// The largest file we read, in bytes: as large as the requests that intakes take.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// CreateBroadcastRequest. A field that is missing here fails a test below.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    #[serde(alias = "idempotencyKey")]
    idempotency_key: String,
    title: String,
    body: String,
    data: BTreeMap<String, String>,
    audience: Option<Audience>,
    #[serde(deserialize_with = "word::<v1::Priority, _>")]
    priority: i32,
    #[serde(deserialize_with = "span")]
    ttl: Option<prost_types::Duration>,
    #[serde(alias = "expireTime", deserialize_with = "time")]
    expire_time: Option<prost_types::Timestamp>,
    #[serde(alias = "validateOnly")]
    validate_only: bool,
    #[serde(deserialize_with = "word::<v1::Guarantee, _>")]
    guarantee: i32,
    #[serde(alias = "scheduleTime", deserialize_with = "time")]
    schedule_time: Option<prost_types::Timestamp>,
    #[serde(alias = "maxRatePerSecond")]
    max_rate_per_second: i32,
    #[serde(deserialize_with = "word::<v1::Routing, _>")]
    routing: i32,
    #[serde(alias = "ackTimeout", deserialize_with = "span")]
    ack_timeout: Option<prost_types::Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Audience {
    Everyone {},
    Topics {
        topics: Vec<String>,
    },
    Users {
        #[serde(alias = "userIds")]
        user_ids: Vec<String>,
    },
    Devices {
        #[serde(alias = "deviceIds")]
        device_ids: Vec<Id>,
    },
}

/// A number, or a string as in the JSON of the API.
#[derive(Debug)]
struct Id(i64);

/// The request in a file, - for stdin.
///
/// # Errors
///
/// Naming file, line and field: where it cannot be read, is neither JSON nor TOML, or has what the request has not.
pub fn read(path: &Path) -> anyhow::Result<v1::CreateBroadcastRequest> {
    let (name, text) = if path.as_os_str() == "-" {
        ("stdin".to_owned(), text_of(std::io::stdin().lock()))
    } else {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).with_context(|| format!("{name} could not be opened"))?;
        (name, text_of(file))
    };
    let text = text.with_context(|| format!("{name} could not be read"))?;
    parse(&text).with_context(|| format!("{name} is no broadcast"))
}

fn text_of(input: impl std::io::Read) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("it has more than {MAX_FILE_BYTES} bytes: give a long list of users by --users-file");
    }
    Ok(text)
}

/// JSON is what begins with a brace, as no TOML does.
fn parse(text: &str) -> anyhow::Result<v1::CreateBroadcastRequest> {
    let request: Request =
        if text.trim_start().starts_with('{') { from_json(text)? } else { from_toml(text)? };
    let expiry = match (request.ttl, request.expire_time) {
        (Some(_), Some(_)) => bail!("ttl and expire_time: give one of them"),
        (Some(ttl), None) => Some(Expiry::Ttl(ttl)),
        (None, time) => time.map(Expiry::ExpireTime),
    };
    #[allow(clippy::needless_update)] // a test below finds a new field, and says where it belongs
    let whole = v1::CreateBroadcastRequest {
        idempotency_key: request.idempotency_key,
        title: request.title,
        body: request.body,
        data: request.data,
        audience: request.audience.map(|audience| v1::Audience { kind: Some(audience.into()) }),
        priority: request.priority,
        expiry,
        validate_only: request.validate_only,
        guarantee: request.guarantee,
        schedule_time: request.schedule_time,
        max_rate_per_second: request.max_rate_per_second,
        routing: request.routing,
        ack_timeout: request.ack_timeout,
        ..Default::default()
    };
    Ok(whole)
}

fn from_json<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (field, inner) = (error.path().to_string(), error.inner());
        let said = inner.to_string();
        // The place stands at the end; it is told first, as of TOML.
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
        wrong(inner.line(), &field, what)
    })?;
    json.end().map_err(|error| anyhow::anyhow!("there is more after the request: {error}"))?;
    Ok(read)
}

fn from_toml<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    let line = |error: &toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1
    };
    let toml =
        toml::de::Deserializer::parse(text).map_err(|error| wrong(line(&error), ".", error.message()))?;
    serde_path_to_error::deserialize(toml).map_err(|error| {
        let (field, inner) = (error.path().to_string(), error.inner());
        wrong(line(inner), &field, inner.message())
    })
}

/// `field` is "." where it is none.
fn wrong(line: usize, field: &str, what: &str) -> anyhow::Error {
    let field = if field == "." { String::new() } else { format!("{field}: ") };
    anyhow::anyhow!("line {line}: {field}{what}")
}

impl From<Audience> for Kind {
    fn from(audience: Audience) -> Self {
        match audience {
            Audience::Everyone {} => Kind::Everyone(v1::EveryoneAudience {}),
            Audience::Topics { topics } => Kind::Topics(v1::TopicAudience { topics }),
            Audience::Users { user_ids } => Kind::Users(v1::UserAudience { user_ids }),
            Audience::Devices { device_ids } => {
                let device_ids = device_ids.into_iter().map(|Id(id)| id).collect();
                Kind::Devices(v1::DeviceAudience { device_ids })
            }
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Id;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("the id of a device, a number")
            }

            fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<Id, E> {
                Ok(Id(id))
            }

            fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<Id, E> {
                id.try_into().map(Id).map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Id, E> {
                parse_id(text).map(Id).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// `PRIORITY_HIGH`, or `high` as on the command line.
fn word<'de, W: Word + Into<i32>, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let text = String::deserialize(deserializer)?;
    words::value::<W>(text.strip_prefix(W::PREFIX).unwrap_or(&text)).map_err(D::Error::custom)
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<prost_types::Duration>, D::Error> {
    let span = parse_span(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
    let seconds = span.as_secs().try_into().map_err(D::Error::custom)?;
    Ok(Some(prost_types::Duration { seconds, nanos: 0 }))
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<prost_types::Timestamp>, D::Error> {
    parse_time(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{
        "idempotencyKey": "k", "title": "T", "body": "B", "data": {"a": "b"},
        "audience": {"devices": {"device_ids": ["63239275003510785", 2]}},
        "priority": "PRIORITY_HIGH", "ttl": "3600s", "validate_only": true, "guarantee": "at_most_once",
        "routing": "ROUTING_LIVE_THEN_PUSH", "ackTimeout": "90s"
    }"#;

    const SAME_IN_TOML: &str = r#"
        idempotency_key = "k"
        title = "T"
        body = "B"
        data = { a = "b" }
        priority = "high"
        ttl = "1h"
        validate_only = true
        guarantee = "GUARANTEE_AT_MOST_ONCE"
        routing = "live_then_push"
        ack_timeout = "1m30s"

        [audience.devices]
        device_ids = [63239275003510785, 2]
    "#;

    #[test]
    fn a_broadcast_is_the_same_in_json_and_in_toml() {
        let request = parse(WHOLE).expect("good JSON");
        assert_eq!(request, parse(SAME_IN_TOML).expect("good TOML"));
        assert_eq!((request.idempotency_key.as_str(), request.title.as_str()), ("k", "T"));
        assert_eq!(request.priority, v1::Priority::High as i32);
        assert_eq!(request.guarantee, v1::Guarantee::AtMostOnce as i32);
        assert_eq!(request.routing, v1::Routing::LiveThenPush as i32);
        assert_eq!(request.ack_timeout, Some(prost_types::Duration { seconds: 90, nanos: 0 }));
        assert_eq!(request.expiry, Some(Expiry::Ttl(prost_types::Duration { seconds: 3600, nanos: 0 })));
        let devices = v1::DeviceAudience { device_ids: vec![63_239_275_003_510_785, 2] };
        assert_eq!(request.audience, Some(v1::Audience { kind: Some(Kind::Devices(devices)) }));
    }

    #[test]
    fn the_example_is_a_broadcast() {
        let request = parse(include_str!("../../../examples/announcement.toml")).expect("a good file");
        let topics = v1::TopicAudience { topics: vec!["news".to_owned()] };
        assert_eq!(request.audience, Some(v1::Audience { kind: Some(Kind::Topics(topics)) }));
        assert_eq!(request.data["url"], "https://example.com/news");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_field() {
        for (text, told) in [
            ("{\n\"titel\": \"x\"}", "line 2: titel: unknown field `titel`"),
            ("title = \"x\"\ntitel = \"x\"", "line 2: titel: unknown field `titel`"),
            (
                "{\"audience\":\n{\"topics\": {\"topics\": [\"a\", 5]}}}",
                "line 2: audience.topics.topics[1]: ",
            ),
            (
                "title = \"x\"\npriority = \"urgent\"",
                "line 2: priority: `urgent` is not one of low, normal, high",
            ),
            ("\n\nttl = \"soon\"", "line 3: ttl: `soon` is no span of time"),
            ("title =", "line 1: "),
            ("{\"ttl\": \"1h\", \"expire_time\": \"2026-11-30T12:00:00Z\"}", "ttl and expire_time: give one"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }

    #[test]
    fn every_field_of_the_request_can_be_in_a_file() {
        use prost::Message as _;
        let set = prost_types::FileDescriptorSet::decode(bongsu_proto::FILE_DESCRIPTOR_SET).expect("our own");
        let mut messages = set.file.iter().flat_map(|file| &file.message_type);
        let request =
            messages.find(|message| message.name() == "CreateBroadcastRequest").expect("it is there");
        for field in request.field.iter().map(|field| field.name()) {
            // Nothing is both an unknown field and one with a wrong type.
            let error = parse(&format!("{{\"{field}\": [[]]}}")).expect_err(field).to_string();
            assert!(!error.contains("unknown field"), "`bongsu send --file` has to learn {field}: {error}");
        }
    }
}
