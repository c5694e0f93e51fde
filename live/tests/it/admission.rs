//! Who is let in: TLS, and a Redis user with the rights that docs/security.md names.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use bongsu_live::{Heard, LiveArgs, LiveError, Presence};
use bongsu_store::SenderId;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use crate::harness::{args, bus, next, no_store, redis, users};

/// Where the child that trusts our authority finds the server.
const URL: &str = "BONGSU_TEST_TLS_REDIS";

/// Uses all that we use.
async fn uses_all(args: &LiveArgs) {
    let presence = Presence::new(args, no_store());
    let sender = SenderId::random();
    presence.announce(sender, &users([1, 2])).await.unwrap();
    assert_eq!(presence.present(&users([1, 2, 3])).await.unwrap().len(), 2);
    presence.withdraw(sender, &users([1])).await.unwrap();
    assert_eq!(presence.present(&users([1, 2, 3])).await.unwrap().len(), 1);
    let told_by = bus(args, &no_store());
    let mut hears = told_by.0.listen(told_by.1.clone());
    assert_eq!(next(&mut hears).await, Heard::Anything);
    told_by.0.tell(users([1]));
    assert_eq!(next(&mut hears).await, Heard::Users(users([1])));
}

#[tokio::test]
async fn the_rights_that_the_documentation_names_are_enough_and_fewer_are_said_to_be_missing() {
    let redis = redis();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let text = std::fs::read_to_string(path).unwrap().replace("\\\n", " ");
    let line = text.lines().find(|line| line.starts_with("ACL SETUSER bongsu")).unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut words = line.split_whitespace();
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>()).query_async::<()>(&mut connection).await.unwrap();
    let url = format!("{}?user=bongsu&pass=PASSWORD", redis.url());
    uses_all(&args(&url)).await;

    let fewer = ["SETUSER", "bongsu", "-zadd"];
    redis::cmd("ACL").arg(&fewer).query_async::<()>(&mut connection).await.unwrap();
    let presence = Presence::new(&args(&url), no_store());
    let error = presence.announce(SenderId::random(), &users([1])).await.unwrap_err();
    assert!(matches!(error, LiveError::Refused(_)), "{error:?}");
}

/// TLS before the socket of a Redis, with a certificate of an authority of its own; and the file of that authority.
async fn tls_before(socket: PathBuf, dir: &Path) -> (SocketAddr, PathBuf) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut of_ca = CertificateParams::new(vec![]).unwrap();
    of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = of_ca.self_signed(&ca_key).unwrap();
    let file = dir.join("ca.pem");
    std::fs::write(&file, ca.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &Issuer::new(of_ca, ca_key))
        .unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(
        vec![certificate.der().clone()],
        PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    );
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, socket) = (acceptor.clone(), socket.clone());
            tokio::spawn(async move {
                // A client that does not trust us ends here.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut redis = UnixStream::connect(socket).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut redis).await;
            });
        }
    });
    (address, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rediss_is_checked_against_the_certificates_that_the_system_trusts() {
    let redis = redis();
    let dir = redis.socket().parent().unwrap().to_owned();
    let (address, authority) = tls_before(redis.socket(), &dir).await;
    let url = format!("rediss://localhost:{}", address.port());
    let error = Presence::new(&args(&url), no_store()).present(&users([1])).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "the system does not trust it: {error}");

    // What is trusted is a matter of a process's environment.
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "admission::child_that_trusts_the_authority", "--ignored", "--nocapture"])
        .env("SSL_CERT_FILE", authority)
        .env(URL, url)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by rediss_is_checked_against_the_certificates_that_the_system_trusts"]
async fn child_that_trusts_the_authority() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    uses_all(&args(&std::env::var(URL).expect("where the server is"))).await;
}
