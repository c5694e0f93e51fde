//! A client of server-sent events over HTTP/1.1 that keeps nothing but what it has not looked at.

use std::net::SocketAddr;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::world::PATIENCE;

pub struct Client {
    response: reqwest::Response,
    unread: String,
    pub retry_ms: u64,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub kind: String,
    pub id: String,
    pub retry_ms: Option<u64>,
    pub data: Value,
}

impl Seen {
    /// The number in the event's id.
    pub fn seq(&self) -> i64 {
        self.id.split_once('-').expect("an event id").1.parse().unwrap()
    }

    pub fn title(&self) -> &str {
        self.data["title"].as_str().expect("a notification")
    }
}

/// Asks for a stream.
pub async fn ask(
    client: &reqwest::Client,
    address: SocketAddr,
    user: &str,
    last: Option<&str>,
) -> reqwest::Response {
    let mut request = client.get(format!("http://{address}/v1/live")).bearer_auth(user);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    tokio::time::timeout(PATIENCE, request.send()).await.expect("an answer").unwrap()
}

impl Client {
    pub async fn connect(address: SocketAddr, user: &str, last: Option<&str>) -> Self {
        Self::of(ask(&reqwest::Client::new(), address, user, last).await).await
    }

    /// A stream that was answered with 200, after its first event.
    pub async fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status(), 200);
        let mut client = Self { response, unread: String::new(), retry_ms: 0 };
        let first = client.next_of_any_kind().await.expect("a first event");
        client.retry_ms = first.retry_ms.expect("a hint when to come back");
        let connected = client.next_of_any_kind().await.expect("a second event");
        assert_eq!(connected.kind, "connected");
        assert!(connected.data["heartbeat_ms"].as_u64().is_some());
        client
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next event but for heartbeats; none at the end of the stream.
    pub async fn next(&mut self) -> Option<Seen> {
        loop {
            let seen = self.next_of_any_kind().await;
            if seen.as_ref().is_none_or(|seen| seen.kind != "heartbeat") {
                return seen;
            }
        }
    }

    pub async fn next_of_any_kind(&mut self) -> Option<Seen> {
        loop {
            if let Some((block, rest)) = self.unread.split_once("\n\n") {
                let seen = parse(block);
                self.unread = rest.to_owned();
                return Some(seen);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            // A connection that is cut ends the stream, too.
            let chunk = chunk.ok().flatten()?;
            self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The titles of the next notifications.
    pub async fn titles(&mut self, n: usize) -> Vec<String> {
        let mut titles = vec![];
        for _ in 0..n {
            titles.push(self.next().await.expect("one more").title().to_owned());
        }
        titles
    }
}

fn parse(block: &str) -> Seen {
    let mut seen = Seen { kind: "message".into(), id: String::new(), retry_ms: None, data: Value::Null };
    for line in block.lines() {
        let (field, value) = line.split_once(": ").unwrap_or_else(|| panic!("no field: {line:?}"));
        match field {
            "event" => seen.kind = value.into(),
            "id" => seen.id = value.into(),
            "retry" => seen.retry_ms = Some(value.parse().unwrap()),
            "data" => seen.data = serde_json::from_str(value).unwrap(),
            other => panic!("field {other:?} in {block:?}"),
        }
    }
    seen
}
