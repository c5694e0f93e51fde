//! Pages of which hosts may use the live channel (CORS), and may do so with a cookie that the browser sends by itself.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use url::Url;

use super::refused::Refused;

/// What pages send beyond what browsers let pass by themselves.
const ALLOWED_METHODS: &str = "GET, POST";
const ALLOWED_HEADERS: &str = "authorization, content-type, last-event-id";
/// What they may read beyond that.
const EXPOSED_HEADERS: &str = "retry-after";
/// How long a browser keeps the answer to a preflight.
const PREFLIGHT_SECONDS: &str = "600";
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Scheme, host and port of pages, as browsers write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl FromStr for Origin {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        const EXAMPLE: &str = "give scheme and host, such as https://app.example.com";
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.with_context(|| format!("{text:?} is no origin: {EXAMPLE}"))?;
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let nobody = url.username().is_empty() && url.password().is_none();
        ensure!(bare && nobody, "{text:?} is more than an origin: {EXAMPLE}");
        // A star in a host stands for nothing: it would only look as if it did.
        ensure!(!text.contains('*'), "{text:?} has a wildcard, and each origin must be named: {EXAMPLE}");
        Ok(Self(url.origin().ascii_serialization()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The origins that are allowed besides our own.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    allowed: Vec<Origin>,
    /// Whether a cookie may say who calls; else pages get no answers to requests with cookies.
    cookies: bool,
}

impl Origins {
    pub fn new(allowed: Vec<Origin>, cookies: bool) -> Self {
        Self { allowed, cookies }
    }

    /// The answer to a browser that asks what a page may send; None where it does not ask.
    pub fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
        if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let origin = headers.get(ORIGIN)?;
        if !self.allows(origin) {
            let mut response = Refused::ForeignOrigin.into_response();
            response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
            return Some(response);
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let told = response.headers_mut();
        self.name(origin, told);
        told.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
        told.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
        told.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
        told.append(
            VARY,
            HeaderValue::from_static("origin, access-control-request-method, access-control-request-headers"),
        );
        Some(response)
    }

    /// Lets a page of an allowed origin read the answer.
    pub fn answer(&self, origin: Option<&HeaderValue>, answer: &mut HeaderMap) {
        if self.allowed.is_empty() {
            return;
        }
        answer.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin.filter(|origin| self.allows(origin)) {
            self.name(origin, answer);
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
        }
    }

    fn name(&self, origin: &HeaderValue, answer: &mut HeaderMap) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if self.cookies {
            answer.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }

    /// Whether a cookie may say who calls. Browsers send it whichever page asks: so that page has to be one of ours, and what
    /// changes something has to say which it is.
    pub fn trusts_cookie(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(origin), None) => self.allows(origin) || is_own(origin, uri, headers),
            (Some(_), Some(_)) => false,
            (None, _) => {
                let reads = matches!(*method, Method::GET | Method::HEAD);
                // Where a browser sends no Origin for what only reads (an image), it says this.
                let elsewhere = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site");
                reads && !elsewhere
            }
        }
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        self.allowed.iter().any(|allowed| allowed.0.as_bytes() == origin.as_bytes())
    }
}

/// Whether a page came from the host and port that it asks. The scheme is not compared: before us may be who speaks TLS.
fn is_own(origin: &HeaderValue, uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    // HTTP/2 has it in the address.
    let asked = uri.authority().map(axum::http::uri::Authority::as_str);
    let asked = asked.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()));
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case(origin.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host_as_browsers_write_them() {
        for (text, written) in [
            ("https://app.example.com", "https://app.example.com"),
            ("https://App.Example.com/", "https://app.example.com"),
            ("https://app.example.com:443", "https://app.example.com"),
            ("http://localhost:5173", "http://localhost:5173"),
            ("https://봉수.example", "https://xn--9n3bo6g.example"),
        ] {
            assert_eq!(text.parse::<Origin>().expect(text).to_string(), written);
        }
        for text in [
            "",
            "*",
            "null",
            "app.example.com",
            "https://*.example.com",
            "https://app.example.com/a",
            "https://app.example.com?a",
            "https://me@app.example.com",
            "file:///tmp",
        ] {
            text.parse::<Origin>().expect_err(text);
        }
    }

    fn asks(method: &Method, uri: &str, pairs: &[(&'static str, &'static str)]) -> bool {
        let origins = Origins::new(vec!["https://app.example.com".parse().expect("an origin")], true);
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        origins.trusts_cookie(method, &uri.parse().expect("an address"), &headers)
    }

    #[test]
    fn a_cookie_counts_only_for_pages_of_ours() {
        let host = ("host", "live.example.com");
        let h2 = "https://live.example.com/v1/live";
        for (method, uri, pairs, trusted) in [
            (Method::POST, "/", &[host, ("origin", "https://app.example.com")][..], true),
            (Method::POST, "/", &[host, ("origin", "https://live.example.com")], true),
            (Method::POST, h2, &[("origin", "https://live.example.com")], true),
            (Method::POST, h2, &[("host", "evil.example"), ("origin", "https://evil.example")], false),
            (Method::POST, "/", &[host, ("origin", "https://live.example.com:8443")], false),
            (Method::POST, "/", &[host, ("origin", "https://evil.example")], false),
            (Method::POST, "/", &[host, ("origin", "https://app.example.com.evil.example")], false),
            (Method::POST, "/", &[host, ("origin", "null")], false),
            (Method::POST, "/", &[host], false),
            (Method::POST, "/", &[("origin", "https://live.example.com")], false),
            (Method::DELETE, "/", &[host], false),
            (Method::GET, "/", &[host], true),
            (Method::GET, "/", &[host, ("sec-fetch-site", "same-origin")], true),
            (Method::GET, "/", &[host, ("sec-fetch-site", "cross-site")], false),
            (Method::GET, "/", &[host, ("origin", "https://evil.example")], false),
            (
                Method::POST,
                "/",
                &[host, ("origin", "https://app.example.com"), ("origin", "https://evil.example")],
                false,
            ),
        ] {
            assert_eq!(asks(&method, uri, pairs), trusted, "{method} {uri} {pairs:?}");
        }
    }
}
