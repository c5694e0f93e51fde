//! Who gets in: tokens, roles, certificates and limits, seen by clients of a port with TLS; and files that change meanwhile.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in their helpers

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bongsu_ops::access::{AccessArgs, Method, ReflectionPolicy, Role, token_sha256};
use bongsu_ops::grpc;
use bongsu_ops::health::Health;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_types::StatusExt as _;

const PATIENCE: Duration = Duration::from_secs(30);
/// Stands for a service of ours: the layer goes by the path, and lets the path of health through as it is.
const METHODS: &[Method] = &[
    Method::new("/bongsu.test.Service/Check", &[Role::Submit, Role::Operate]),
    Method::stream("/bongsu.test.Service/Watch", &[Role::Submit]),
];

#[tokio::test]
async fn a_call_takes_a_token_with_a_role_and_nothing_more_is_told() {
    let port = Port::start(|files, args| {
        files.access(&[
            ("news", "news-token", "roles = [\"submit\"]"),
            ("eyes", "eyes-token", "roles = [\"read\"]"),
        ]);
        args.access_file = Some(files.path("access.toml"));
    })
    .await;
    let channel = port.plain().await;
    let call = async |token: Option<&str>| check(&channel, token).await.map_err(|status| told(&status));
    call(Some("news-token")).await.expect("has the role");
    assert_eq!(call(None).await, Err((Code::Unauthenticated, "TOKEN_MISSING".to_owned())));
    assert_eq!(call(Some("news-toke")).await, Err((Code::Unauthenticated, "TOKEN_UNKNOWN".to_owned())));
    let hash = token_sha256("news-token");
    assert_eq!(call(Some(&hash)).await, Err((Code::Unauthenticated, "TOKEN_UNKNOWN".to_owned())));
    let refused = check(&channel, Some("eyes-token")).await.expect_err("no role");
    assert_eq!(told(&refused), (Code::PermissionDenied, "ROLE_MISSING".to_owned()));
    assert_eq!(refused.message(), "this call needs one of the roles submit, operate");
    let unlisted = call_path(&channel, "/bongsu.test.Service/Other", Some("news-token")).await;
    assert_eq!(unlisted.expect_err("not in the table").code(), Code::Unimplemented);
    HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.expect("health is open");
    port.stop().await;
}

#[tokio::test]
async fn reflection_is_open_authenticated_or_off() {
    for (policy, without, with) in [
        (ReflectionPolicy::Open, None, None),
        (ReflectionPolicy::Authenticated, Some(Code::Unauthenticated), None),
        (ReflectionPolicy::Off, Some(Code::Unimplemented), Some(Code::Unimplemented)),
    ] {
        let port = Port::start(|files, args| {
            files.access(&[("eyes", "eyes-token", "roles = [\"read\"]")]);
            args.access_file = Some(files.path("access.toml"));
            args.reflection = Some(policy);
        })
        .await;
        let channel = port.plain().await;
        for (token, expected) in [(None, without), (Some("eyes-token"), with)] {
            let answer = ServerReflectionClient::new(channel.clone())
                .server_reflection_info(request(tokio_stream::empty(), token))
                .await;
            assert_eq!(answer.err().map(|status| status.code()), expected, "{policy:?} with {token:?}");
        }
        port.stop().await;
    }
}

#[tokio::test]
async fn a_client_has_its_limits_and_is_told_when_to_ask_again() {
    let port = Port::start(|files, args| {
        files.access(&[
            ("a", "token-a", "roles = [\"submit\"]\nrequests_per_second = 3"),
            ("b", "token-b", "roles = [\"submit\"]\nstreams = 1"),
        ]);
        args.access_file = Some(files.path("access.toml"));
    })
    .await;
    let channel = port.plain().await;
    let mut refused = None;
    for _ in 0..50 {
        if let Err(status) = check(&channel, Some("token-a")).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("fifty calls take less than sixteen seconds");
    assert_eq!(told(&refused), (Code::ResourceExhausted, "CLIENT_RATE_EXCEEDED".to_owned()));
    let wait = refused.get_details_retry_info().and_then(|info| info.retry_delay).expect("told");
    assert!(wait <= Duration::from_millis(334), "{wait:?}");
    check(&channel, Some("token-b")).await.expect("another client's rate is its own");

    let open = watch(&channel, Some("token-b")).await.expect("the first stream");
    let second = watch(&channel, Some("token-b")).await.expect_err("one too many");
    assert_eq!(told(&second), (Code::ResourceExhausted, "CLIENT_STREAMS_EXCEEDED".to_owned()));
    check(&channel, Some("token-b")).await.expect("calls are no streams");
    drop(open);
    until("room again", async || watch(&channel, Some("token-b")).await.is_ok()).await;
    port.stop().await;
}

#[tokio::test]
async fn tokens_are_rotated_without_a_restart_and_a_broken_file_changes_nothing() {
    let port = Port::start(|files, args| {
        files.access(&[("news", "old-token", "roles = [\"submit\"]")]);
        args.access_file = Some(files.path("access.toml"));
    })
    .await;
    let channel = port.plain().await;
    let works = async |token: &str| check(&channel, Some(token)).await.is_ok();
    assert!(works("old-token").await && !works("new-token").await);
    let both = format!(
        "[clients.news]\ntokens_sha256 = [\"{}\", \"{}\"]\nroles = [\"submit\"]\n",
        token_sha256("old-token"),
        token_sha256("new-token")
    );
    port.files.write("access.toml", &both);
    until("the new token works", async || works("new-token").await).await;
    assert!(works("old-token").await, "the old one until it is taken out");
    port.files.write("access.toml", "broken");
    port.files.write("access.toml", &both.replace("submit", "sub"));
    assert!(works("new-token").await);
    port.files.access(&[("news", "new-token", "roles = [\"submit\"]")]);
    until("the old token is gone", async || !works("old-token").await).await;
    assert!(works("new-token").await);
    port.stop().await;
}

#[tokio::test]
async fn a_changed_certificate_is_shown_without_a_restart() {
    let port = Port::start(|files, args| files.tls(args, &Ca::new("one"))).await;
    let first = Certificate::from_pem(port.files.read("ca-one.pem"));
    check(&port.tls(&first, None).await.expect("trusted"), None).await.expect("over TLS");
    let other = Ca::new("two");
    port.files.write("key.pem", "broken");
    let (cert, key) = other.server(true);
    port.files.write("cert.pem", &cert);
    check(&port.tls(&first, None).await.expect("still the old one"), None).await.expect("over TLS");
    port.files.write("key.pem", &key);
    let second = Certificate::from_pem(&other.pem);
    until("the new certificate", async || port.tls(&second, None).await.is_ok()).await;
    port.tls(&first, None).await.expect_err("the old CA signs nothing any more");
    port.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_speak_tls_is_refused_and_keeps_nobody_waiting() {
    let port = Port::start(|files, args| files.tls(args, &Ca::new("one"))).await;
    // They say nothing, and are waited for.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(port.address).await.unwrap());
    }
    let ca = Certificate::from_pem(port.files.read("ca-one.pem"));
    let connected = tokio::time::timeout(PATIENCE, port.tls(&ca, None)).await.expect("nobody is in the way");
    check(&connected.expect("trusted"), None).await.expect("over TLS");
    let plain = Endpoint::from_shared(format!("http://{}", port.address)).unwrap().connect_lazy();
    check(&plain, None).await.expect_err("clear text");
    // In the end they are hung up on.
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, silent[0].read_to_end(&mut rest)).await.expect("an end");
    assert!(end.is_ok() || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    port.stop().await;
}

#[tokio::test]
async fn a_certificate_stands_for_its_client_until_it_has_expired() {
    let ca = Ca::new("one");
    let port = Port::start(|files, args| {
        files.tls(args, &ca);
        args.tls_client_ca = Some(files.path("ca-one.pem"));
        files.write(
            "access.toml",
            "[clients.news]\ncertificate = \"news.example\"\nroles = [\"submit\"]\n\
             [clients.eyes]\ncertificate = \"눈\"\nroles = [\"read\"]\n",
        );
        args.access_file = Some(files.path("access.toml"));
    })
    .await;
    let trusted = Certificate::from_pem(&ca.pem);
    let call = async |identity: Option<Identity>| match port.tls(&trusted, identity).await {
        Ok(channel) => check(&channel, None).await.map_err(|status| status.code()),
        Err(_) => Err(Code::Unknown), // no connection
    };
    assert_eq!(call(Some(ca.client("news.example", "x", true))).await, Ok(()));
    assert_eq!(call(Some(ca.client("other.example", "눈", true))).await, Err(Code::PermissionDenied));
    assert_eq!(call(Some(ca.client("other.example", "x", true))).await, Err(Code::Unauthenticated));
    for identity in [
        None,
        Some(ca.client("news.example", "x", false)),
        Some(Ca::new("another").client("news.example", "x", true)),
    ] {
        let code = call(identity).await.expect_err("no handshake");
        assert!(!matches!(code, Code::PermissionDenied | Code::Unauthenticated), "{code:?}: it got through");
    }
    port.stop().await;
}

/// A port with the layer, and behind it the health service under another name.
struct Port {
    address: SocketAddr,
    files: Files,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Port {
    async fn start(configure: impl FnOnce(&Files, &mut AccessArgs)) -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        let mut args = AccessArgs::default();
        configure(&files, &mut args);
        let listener = grpc::bind("127.0.0.1:0".parse().unwrap(), "nothing").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(args.problems(address, "--listen"), [""; 0]);
        let (health, shutdown) = (Health::new(&[]), CancellationToken::new());
        health.set_database(true);
        let (reflection, _) = grpc::reflection(&[], &[]).unwrap();
        let router = grpc::server()
            .layer(args.layer(address, "default", METHODS).unwrap())
            .layer(tower::util::MapRequestLayer::new(under_its_own_name))
            .add_service(health.service())
            .add_service(reflection);
        let tls = args.tls().unwrap();
        let task = tokio::spawn(grpc::serve(router, listener, tls, shutdown.clone(), Duration::ZERO));
        Self { address, files, shutdown, task }
    }

    async fn plain(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    async fn tls(
        &self,
        ca: &Certificate,
        identity: Option<Identity>,
    ) -> Result<Channel, tonic::transport::Error> {
        bongsu_ops::telemetry::install_crypto();
        let tls = ClientTlsConfig::new().ca_certificate(ca.clone()).domain_name("localhost");
        let tls = match identity {
            Some(identity) => tls.identity(identity),
            None => tls,
        };
        Endpoint::from_shared(format!("https://{}", self.address)).unwrap().tls_config(tls)?.connect().await
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").unwrap().unwrap();
    }
}

/// Behind the layer, the calls of the test service are those of health, which is there.
fn under_its_own_name(
    mut request: tonic::codegen::http::Request<tonic::body::Body>,
) -> tonic::codegen::http::Request<tonic::body::Body> {
    assert!(!request.headers().contains_key("authorization"), "the token stays outside");
    let path = request.uri().path().replace("bongsu.test.Service", "grpc.health.v1.Health");
    *request.uri_mut() = path.parse().unwrap();
    request
}

struct Files(TempDir);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// An access file of clients with a name, a token, and other lines.
    fn access(&self, clients: &[(&str, &str, &str)]) {
        let table = |(name, token, rest): &(&str, &str, &str)| {
            format!("[clients.{name}]\ntoken_sha256 = \"{}\"\n{rest}\n", token_sha256(token))
        };
        self.write("access.toml", &clients.iter().map(table).collect::<String>());
    }

    /// A certificate of this CA for localhost.
    fn tls(&self, args: &mut AccessArgs, ca: &Ca) {
        let (cert, key) = ca.server(true);
        self.write("cert.pem", &cert);
        self.write("key.pem", &key);
        self.write(&format!("ca-{}.pem", ca.name), &ca.pem);
        args.tls_cert = Some(self.path("cert.pem"));
        args.tls_key = Some(self.path("key.pem"));
    }
}

struct Ca {
    name: &'static str,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new(name: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        Self { name, pem, issuer: Issuer::new(params, key) }
    }

    fn server(&self, current: bool) -> (String, String) {
        self.sign("localhost", "a server", current)
    }

    fn client(&self, dns_name: &str, common_name: &str, current: bool) -> Identity {
        let (cert, key) = self.sign(dns_name, common_name, current);
        Identity::from_pem(cert, key)
    }

    fn sign(&self, dns_name: &str, common_name: &str, current: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([dns_name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        if !current {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn request<T>(message: T, token: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

async fn check(channel: &Channel, token: Option<&str>) -> Result<(), Status> {
    call_path(channel, "/bongsu.test.Service/Check", token).await
}

async fn call_path(channel: &Channel, path: &'static str, token: Option<&str>) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let request = request(HealthCheckRequest::default(), token);
    client.unary(request, path.parse().unwrap(), codec).await.map(drop)
}

async fn watch(channel: &Channel, token: Option<&str>) -> Result<Streaming<HealthCheckResponse>, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let request = request(HealthCheckRequest::default(), token);
    let path = "/bongsu.test.Service/Watch".parse().unwrap();
    client.server_streaming(request, path, codec).await.map(tonic::Response::into_inner)
}

/// Code and reason of a refusal.
fn told(status: &Status) -> (Code, String) {
    let details = status.get_error_details();
    (status.code(), details.error_info().map(|info| info.reason.clone()).unwrap_or_default())
}

/// Waits for what a file's change brings about.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: did not come true"));
}
