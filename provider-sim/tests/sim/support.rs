//! A running simulator and ways to talk to it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use provider_sim::{Behaviour, BehaviourPatch, Config, DeliveryRecord, Stats};
use reqwest::{Client, ClientBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// No step of a test takes this long unless it is broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Sim {
    pub address: SocketAddr,
    pub client: Client,
    pub shutdown: CancellationToken,
    pub running: JoinHandle<anyhow::Result<()>>,
}

impl Sim {
    pub async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shutdown = CancellationToken::new();
        let config = Config { behaviour, ..Config::default() };
        let running = tokio::spawn(provider_sim::run(config, listener, shutdown.clone()));
        Self { address, client: client(|builder| builder), shutdown, running }
    }

    pub async fn well() -> Self {
        Self::start(Behaviour::default()).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn push(&self, token: &str, key: &str) -> Response {
        push(&self.client, &self.url("/push"), token, key).await.expect("an answer")
    }

    pub async fn push_text(&self, body: impl Into<reqwest::Body>) -> Response {
        self.client.post(self.url("/push")).body(body).send().await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.expect("an answer")
    }

    pub async fn post(&self, path: &str) -> Stats {
        let answer = self.client.post(self.url(path)).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.json().await.expect("stats")
    }

    pub async fn patch(&self, patch: &BehaviourPatch) -> Behaviour {
        let answer = self.patch_text(serde_json::to_string(patch).expect("JSON")).await;
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.expect("a behaviour")
    }

    pub async fn patch_text(&self, body: impl Into<reqwest::Body>) -> Response {
        self.client.patch(self.url("/behaviour")).body(body).send().await.expect("an answer")
    }

    pub async fn stats(&self) -> Stats {
        self.get("/stats").await.json().await.expect("stats")
    }

    /// Asks for the counts until they are as wanted: for what has no event to wait for, like a caller's going away.
    pub async fn stats_when(&self, wanted: impl Fn(&Stats) -> bool) -> Stats {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stats = self.stats().await;
            if wanted(&stats) {
                return stats;
            }
            assert!(Instant::now() < deadline, "never came: {stats:?}");
        }
    }

    pub async fn deliveries(&self, query: &str) -> Vec<DeliveryRecord> {
        let answer = self.get(&format!("/deliveries{query}")).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        let lines = answer.text().await.expect("lines");
        lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
    }

    /// A push on a bare socket, whose caller can go away by dropping it.
    pub async fn push_on_socket(&self, token: &str, key: &str) -> TcpStream {
        let body = push_json(token).to_string();
        let mut socket = TcpStream::connect(self.address).await.expect("a connection");
        let request = format!(
            "POST /push HTTP/1.1\r\nhost: sim\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).await.expect("sent");
        socket
    }
}

/// Stops the simulator also where a test failed.
impl Drop for Sim {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// reqwest is built without a TLS provider and wants one even for plain HTTP.
pub fn client(with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE);
    with(builder).build().expect("a client")
}

pub async fn push(client: &Client, url: &str, token: &str, key: &str) -> reqwest::Result<Response> {
    client.post(url).header("Idempotency-Key", key).json(&push_json(token)).send().await
}

pub fn push_json(token: &str) -> Value {
    let data = json!({ "kind": "test", "nested": { "n": 1 } });
    json!({ "to": token, "notification": { "broadcast_id": "123", "title": "봉수", "body": "b", "data": data } })
}

/// The `error` of an answer and its `detail`.
pub async fn error_of(answer: Response) -> (String, String) {
    let body: Value = answer.json().await.expect("a JSON error");
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (text("error"), text("detail"))
}
