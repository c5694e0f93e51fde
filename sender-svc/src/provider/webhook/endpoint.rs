//! The address of a webhook.

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// Where a webhook provider is called.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint {
    pub(super) url: reqwest::Url,
    /// HTTP/2 without TLS, by prior knowledge.
    pub(super) h2c: bool,
}

impl TryFrom<String> for Endpoint {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
}

impl std::str::FromStr for Endpoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (h2c, http) = match text.strip_prefix("h2c://") {
            Some(rest) => (true, format!("http://{rest}")),
            None => (false, text.to_string()),
        };
        let url = reqwest::Url::parse(&http).with_context(|| format!("{text:?} is not a URL"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https"),
            "{text:?} must begin with https://, http:// or h2c://"
        );
        ensure!(url.host_str().is_some_and(|h| !h.is_empty()), "{text:?} names no host");
        Ok(Self { url, h2c })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_https_http_or_h2c_and_anything_else_is_named() {
        assert!("https://push.example/v1".parse::<Endpoint>().is_ok());
        assert!("h2c://127.0.0.1:8090/push".parse::<Endpoint>().is_ok_and(|e| e.h2c));
        for bad in ["", "push.example", "ftp://push.example", "http://"] {
            let error = bad.parse::<Endpoint>().expect_err(bad);
            assert!(format!("{error:#}").contains(bad), "{error:#}");
        }
    }
}
