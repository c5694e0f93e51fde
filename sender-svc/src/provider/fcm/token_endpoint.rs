//! Asking Google's token endpoint for an access token (RFC 7523, section 2.1; answers: RFC 6749, sections 5.1 and 5.2).

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::time::Instant;

use super::super::answer::{Answer, Said, Trouble};
use super::super::http::{AGENT, Trust, innermost};
use super::account::ServiceAccount;

/// A request may take this long, whatever the call that waits for it may.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer of this many bytes is none.
const MOST_BYTES: usize = 64 * 1024;
/// Where our clock is off by more seconds than this, assertions are dated by Google's. Less may be the way of the answer.
const TOLERATED_SKEW: i64 = 5;
/// What a refusal keeps of Google's words, in characters.
const KEPT_CHARS: usize = 300;

/// Where access tokens come from.
#[derive(Debug)]
pub(super) struct TokenEndpoint {
    /// In place of the service account's.
    url: Option<reqwest::Url>,
    client: reqwest::Client,
    /// Seconds that Google's clock is ahead of ours; 0 where they agree.
    skew: AtomicI64,
}

/// What was given.
pub(super) struct Granted {
    pub bearer: HeaderValue,
    pub lifetime: Duration,
    pub asked_at: Instant,
}

/// Why nothing was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotGranted {
    /// Google says no, and will say it again.
    pub refused: bool,
    pub detail: String,
}

impl fmt::Display for NotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl NotGranted {
    pub fn unreachable(detail: impl Into<String>) -> Self {
        Self { refused: false, detail: detail.into() }
    }

    /// What it means for a call that needed the token: nothing was sent.
    pub fn into_answer(self) -> Answer {
        let trouble = if self.refused { Trouble::Denied } else { Trouble::Unreachable };
        Answer::Trouble { trouble, retry_after: None, said: Said::new("access_token", self.detail) }
    }
}

#[derive(Deserialize)]
struct Grant {
    access_token: String,
    expires_in: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: String,
    error_description: String,
}

impl TokenEndpoint {
    pub fn new(url: Option<reqwest::Url>, trust: &Trust) -> anyhow::Result<Self> {
        let mut tls = (*trust.for_http2()).clone();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let client = reqwest::Client::builder()
            .user_agent(AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .tls_backend_preconfigured(tls)
            .build()
            .context("building the HTTP client for the token endpoint")?;
        Ok(Self { url, client, skew: AtomicI64::new(0) })
    }

    /// Seconds since 1970 by Google's clock, as far as it is known.
    pub fn unix_now(&self) -> i64 {
        unix_now() + self.skew.load(Ordering::Relaxed)
    }

    /// Asks for a token: twice where the first answer shows that our clock is wrong, since that may be why it was refused.
    pub async fn ask(&self, account: &ServiceAccount) -> Result<Granted, NotGranted> {
        let skew = self.skew.load(Ordering::Relaxed);
        let granted = self.ask_once(account).await;
        let clock_was_wrong = self.skew.load(Ordering::Relaxed) != skew;
        match granted {
            Err(NotGranted { refused: true, .. }) if clock_was_wrong => self.ask_once(account).await,
            granted => granted,
        }
    }

    async fn ask_once(&self, account: &ServiceAccount) -> Result<Granted, NotGranted> {
        let url = self.url.as_ref().unwrap_or(&account.token_uri);
        let asked_at = Instant::now();
        let assertion = account
            .assertion(url.as_str(), self.unix_now())
            .map_err(|error| NotGranted { refused: true, detail: format!("no assertion: {error:#}") })?;
        // Base64url and dots: nothing to escape.
        let body =
            format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
        let request = self.client.post(url.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let lost = |error: &reqwest::Error| {
            NotGranted::unreachable(format!("the token endpoint does not answer: {}", innermost(error)))
        };
        let mut response = request.body(body).send().await.map_err(|error| lost(&error))?;
        self.look_at_the_clock(response.headers());
        let status = response.status().as_u16();
        let mut body = vec![];
        while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error))? {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(NotGranted::unreachable("the token endpoint answers at endless length"));
            }
            body.extend_from_slice(&chunk);
        }
        let (bearer, lifetime) = read(status, &body)?;
        Ok(Granted { bearer, lifetime, asked_at })
    }

    fn look_at_the_clock(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        let Some(date) = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok()) else { return };
        let seconds = i64::try_from(date.as_secs()).unwrap_or(i64::MAX);
        let before = self.skew.load(Ordering::Relaxed);
        let skew = skew_of(before, seconds.saturating_sub(unix_now()));
        if skew != before {
            self.skew.store(skew, Ordering::Relaxed);
            tracing::warn!(
                skew_s = skew,
                "the clock here and that of the token endpoint differ: going by the latter"
            );
        }
    }
}

/// The skew to go by, where a new one was measured: whole seconds, so that the old one stays while it is about right.
fn skew_of(before: i64, measured: i64) -> i64 {
    match (measured - before).abs() > TOLERATED_SKEW {
        false => before,
        true if measured.abs() > TOLERATED_SKEW => measured,
        true => 0,
    }
}

fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A token and how long it is good, or why there is none. The body of a success is never repeated.
fn read(status: u16, body: &[u8]) -> Result<(HeaderValue, Duration), NotGranted> {
    if status == 200 {
        let grant: Grant = serde_json::from_slice(body)
            .map_err(|_| NotGranted::unreachable("the token endpoint's answer has no access token"))?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", grant.access_token))
            .map_err(|_| NotGranted::unreachable("the access token is none that a header can hold"))?;
        return Ok((bearer, Duration::from_secs(grant.expires_in)));
    }
    let Refusal { error, error_description } = serde_json::from_slice(body).unwrap_or_default();
    let said: String = format!("{error} {error_description}").trim().chars().take(KEPT_CHARS).collect();
    let detail = format!("the token endpoint answers {status} {said}").trim_end().to_owned();
    // Too many requests and a time-out are no verdict on who asks.
    Err(NotGranted { refused: matches!(status, 400..=499) && !matches!(status, 408 | 429), detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_our_credentials_fault_and_everything_else_is_no_answer() {
        let invalid = br#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#;
        for (status, body, refused, told) in [
            (400, &invalid[..], true, "answers 400 invalid_grant Invalid JWT Signature."),
            (401, b"{}", true, "answers 401"),
            (403, b"<html>", true, "answers 403"),
            (404, b"", true, "answers 404"),
            (429, b"", false, "answers 429"),
            (302, b"", false, "answers 302"),
            (500, b"", false, "answers 500"),
            (503, b"", false, "answers 503"),
            (200, b"{\"access_token\":3}", false, "no access token"),
            (200, b"{\"access_token\":\"a\\nb\",\"expires_in\":9}", false, "none that a header can hold"),
        ] {
            let not_granted = read(status, body).expect_err(told);
            assert_eq!(not_granted.refused, refused, "{status}");
            assert!(not_granted.detail.ends_with(told), "{not_granted}");
        }
        let (bearer, lifetime) = read(200, br#"{"access_token":"abc","expires_in":3599}"#).expect("granted");
        assert_eq!((bearer.as_bytes(), lifetime.as_secs()), (&b"Bearer abc"[..], 3_599));
    }

    #[test]
    fn a_clock_that_is_off_by_little_is_left_alone_and_one_that_was_set_right_is_noticed() {
        for (before, measured, skew) in
            [(0, 3, 0), (0, -5, 0), (0, 6, 6), (0, -400, -400), (400, 398, 400), (400, 1, 0), (400, -90, -90)]
        {
            assert_eq!(skew_of(before, measured), skew, "{before} {measured}");
        }
    }
}
