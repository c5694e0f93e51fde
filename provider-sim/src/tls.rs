//! TLS on the same port as clear text: whoever begins with a handshake gets it, with a certificate of a CA of our own that
//! lives as long as the simulator and that `GET /ca.pem` tells.

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The first byte of a TLS connection: a record of the type handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Names that the certificate is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What proves the simulator to be itself.
pub(crate) struct Identity {
    pub ca_pem: String,
    acceptor: TlsAcceptor,
    /// Of a server that speaks HTTP/1.1 only.
    http1: TlsAcceptor,
}

impl Identity {
    pub fn new() -> anyhow::Result<Self> {
        let (ca_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "Bongsu push provider simulator, for tests");
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let names = NAMES.map(str::to_owned);
        let certificate = CertificateParams::new(names)?.signed_by(&key, &Issuer::new(ca, ca_key))?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .context("the simulator's certificate")?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsAcceptor::from(Arc::new(tls.clone()));
        tls.alpn_protocols.insert(0, b"h2".to_vec());
        Ok(Self { ca_pem, acceptor: TlsAcceptor::from(Arc::new(tls)), http1 })
    }

    /// Whether the other side begins with TLS. Waits for its first byte.
    pub async fn is_wanted(stream: &TcpStream) -> io::Result<bool> {
        let mut first = [0];
        Ok(stream.peek(&mut first).await? == 1 && first[0] == HANDSHAKE)
    }

    pub async fn shake_hands(
        &self,
        stream: TcpStream,
        http1: bool,
    ) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        let acceptor = if http1 { &self.http1 } else { &self.acceptor };
        acceptor.accept(stream).await
    }
}
