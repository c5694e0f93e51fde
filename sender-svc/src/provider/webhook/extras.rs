//! What an operator may have calls carry beside what all webhooks carry: headers and a signature.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use serde::Deserialize;

use super::IDEMPOTENCY_KEY;
use super::signature::Secrets;
use crate::provider::credentials::{Credentials, Source};

const MOST_HEADERS: usize = 32;
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// What is ours to say.
const OURS: [HeaderName; 9] = [
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    TRANSFER_ENCODING,
    IDEMPOTENCY_KEY,
    ID,
    TIMESTAMP,
    SIGNATURE,
];

/// Headers by name, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, Setting>")]
pub(super) struct Headers(Vec<(HeaderName, Setting)>);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Setting {
    Open(String),
    Secret(Source),
}

impl TryFrom<BTreeMap<String, Setting>> for Headers {
    type Error = anyhow::Error;

    fn try_from(settings: BTreeMap<String, Setting>) -> anyhow::Result<Self> {
        ensure!(settings.len() <= MOST_HEADERS, "headers has more than {MOST_HEADERS} entries");
        let mut headers: Vec<(HeaderName, Setting)> = Vec::new();
        for (name, setting) in settings {
            let parsed: HeaderName =
                name.parse().map_err(|_| anyhow::anyhow!("headers: {name:?} is no header's name"))?;
            if OURS.contains(&parsed) || headers.iter().any(|(other, _)| *other == parsed) {
                bail!("headers: {name:?} is set already");
            }
            if let Setting::Open(text) = &setting {
                value(text.as_bytes()).with_context(|| format!("headers: {name:?}"))?;
            }
            headers.push((parsed, setting));
        }
        Ok(Self(headers))
    }
}

fn value(bytes: &[u8]) -> anyhow::Result<HeaderValue> {
    // A file commonly ends with a line's end.
    HeaderValue::from_bytes(bytes.trim_ascii()).ok().context("is no header's value")
}

fn secret_value(bytes: &[u8]) -> anyhow::Result<HeaderValue> {
    let mut value = value(bytes)?;
    value.set_sensitive(true);
    Ok(value)
}

#[derive(Debug)]
pub(super) struct Extras {
    open: HeaderMap,
    secret: Vec<(HeaderName, Arc<Credentials<HeaderValue>>)>,
    signing: Option<Arc<Credentials<Secrets>>>,
}

impl Extras {
    /// None where there are none, so that those who have none pay nothing. Must be called within a runtime where there are
    /// secrets.
    ///
    /// # Errors
    ///
    /// When a secret cannot be read, or is not what it should be.
    pub fn load(headers: Headers, secret: Option<Source>) -> anyhow::Result<Option<Self>> {
        if headers.0.is_empty() && secret.is_none() {
            return Ok(None);
        }
        let signing =
            secret.map(|source| Credentials::load(source, Secrets::parse).context("secret")).transpose()?;
        let mut extras = Self { open: HeaderMap::new(), secret: vec![], signing };
        for (name, setting) in headers.0 {
            match setting {
                Setting::Open(text) => {
                    extras.open.insert(name, value(text.as_bytes())?);
                }
                Setting::Secret(source) => {
                    let credentials = Credentials::load(source, secret_value)
                        .with_context(|| format!("headers: {:?}", name.as_str()))?;
                    extras.secret.push((name, credentials));
                }
            }
        }
        Ok(Some(extras))
    }

    /// The headers of one call that is made now.
    pub fn headers(&self, key: &str, body: &[u8]) -> HeaderMap {
        let mut headers = self.open.clone();
        for (name, credentials) in &self.secret {
            headers.insert(name, HeaderValue::clone(&credentials.get()));
        }
        if let Some(secrets) = &self.signing {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let signature = secrets.get().sign(key, now, body);
            // Digits, dashes and base64, so always headers' values.
            if let (Ok(id), Ok(signature)) = (HeaderValue::from_str(key), HeaderValue::from_str(&signature)) {
                headers.extend([
                    (Some(ID), id),
                    (Some(TIMESTAMP), HeaderValue::from(now)),
                    (Some(SIGNATURE), signature),
                ]);
            }
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(toml: &str) -> Result<Headers, String> {
        toml::from_str(toml).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_header_that_is_ours_or_none_is_refused_by_its_name() {
        assert!(headers("Authorization = { env = \"PATH\" }\nX-App = \"shop\"").is_ok());
        for (toml, wrong) in [
            ("Content-Length = \"1\"", "Content-Length"),
            ("webhook-id = \"1\"", "webhook-id"),
            ("\"a b\" = \"1\"", "a b"),
            ("X-A = \"1\\n2\"", "X-A"),
            ("X-A = \"1\"\nx-a = \"2\"", "x-a"),
        ] {
            let told = headers(toml).expect_err(toml);
            assert!(told.contains(wrong), "{told}");
        }
    }

    #[tokio::test]
    async fn calls_carry_what_was_configured_and_debug_output_has_no_secret() {
        let headers = headers("X-Path = { env = \"PATH\" }\nX-App = \"shop\"").expect("headers");
        let extras = Extras::load(headers, None).expect("read").expect("some");
        let sent = extras.headers("1-2", b"{}");
        let path = std::env::var("PATH").expect("a PATH");
        assert_eq!((sent["x-app"].as_bytes(), sent["x-path"].as_bytes()), (&b"shop"[..], path.as_bytes()));
        assert!(sent["x-path"].is_sensitive() && !sent.contains_key(SIGNATURE));
        assert!(!format!("{extras:?} {sent:?}").contains(&path));
        assert!(Extras::load(Headers::default(), None).expect("fine").is_none());
    }
}
