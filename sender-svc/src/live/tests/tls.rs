//! The live channel over TLS, as browsers and apps speak to it where nothing stands in front.

use bongsu_ops::grpc::TlsFiles;
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Certificate, Version};
use tempfile::TempDir;

use super::client::Client;
use super::world::{World, settings};

/// Certificate and key for this host, in files.
struct Host {
    directory: TempDir,
    certificate: Certificate,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(directory.path().join("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
        Self { directory, certificate: Certificate::from_der(certificate.der()).unwrap() }
    }

    async fn world(&self) -> World {
        let path = |name| self.directory.path().join(name);
        let files = TlsFiles { cert: path("cert.pem"), key: path("key.pem"), client_ca: None };
        World::over_tls(files, settings()).await
    }

    /// A client that knows the certificate.
    fn client(&self) -> reqwest::ClientBuilder {
        reqwest::Client::builder().no_proxy().tls_certs_only([self.certificate.clone()])
    }
}

#[tokio::test]
async fn browsers_get_their_streams_over_tls_with_http_1_and_2() {
    let host = Host::new();
    let world = host.world().await;
    let url = format!("https://{}/v1/live", world.address);
    let old = host.client().http1_only().build().unwrap();
    let new = host.client().build().unwrap();
    let mut streams = vec![];
    for (client, version) in [(old, Version::HTTP_11), (new, Version::HTTP_2)] {
        let response = client.get(&url).bearer_auth("mina").send().await.unwrap();
        assert_eq!(response.version(), version);
        streams.push(Client::of(response).await);
    }
    world.post("notice", &["mina"]).await;
    for stream in &mut streams {
        assert_eq!(stream.titles(1).await, ["notice"]);
    }
    drop(streams);
    world.stop().await;
}

#[tokio::test]
async fn who_speaks_no_tls_and_who_does_not_trust_the_certificate_get_nothing() {
    let (host, other) = (Host::new(), Host::new());
    let world = host.world().await;
    let plain = format!("http://{}/v1/live", world.address);
    reqwest::Client::new().get(plain).bearer_auth("mina").send().await.expect_err("no TLS");
    let url = format!("https://{}/v1/live", world.address);
    let stranger = other.client().build().unwrap();
    stranger.get(&url).bearer_auth("mina").send().await.expect_err("another certificate");
    let response = host.client().build().unwrap().get(&url).bearer_auth("mina").send().await.unwrap();
    drop(Client::of(response).await);
    world.stop().await;
}
