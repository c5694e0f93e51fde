//! TLS of the gRPC ports: from PEM files to what handshakes use, and whose certificate a client showed.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::reload::{self, Reloaded};

/// The only protocol of our gRPC ports, and the other one of those that browsers connect to.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// `id-at-commonName`, 2.5.4.3, as it stands in a certificate (RFC 5280, appendix A.1).
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// DER tags (X.690): the sets and sequences that a subject consists of, and the texts that a name may be.
const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;

/// The certificate we show, and the CA whose certificates clients have to show, where one is set.
pub type Tls = Reloaded<Arc<ServerConfig>>;

/// The PEM files of a port.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Our certificate, then those that lead to its CA.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs clients' certificates; none: clients need none.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads them once, to tell what is wrong.
    ///
    /// # Errors
    ///
    /// When one cannot be read, is no PEM of its kind, or key and certificate do not belong together.
    pub fn check(&self) -> anyhow::Result<()> {
        reload::read(&self.paths(), server_config).map(drop)
    }

    /// Reads them, and takes up what changes. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// Those of [`TlsFiles::check`].
    pub fn load(&self) -> anyhow::Result<Arc<Tls>> {
        Reloaded::load("the TLS certificate", self.paths(), server_config)
    }

    /// The same for a port that speaks HTTP/1.1, too.
    ///
    /// # Errors
    ///
    /// Those of [`TlsFiles::check`].
    pub fn load_for_browsers(&self) -> anyhow::Result<Arc<Tls>> {
        Reloaded::load("the TLS certificate", self.paths(), |contents| {
            let mut config = Arc::unwrap_or_clone(server_config(contents)?);
            config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
            Ok(Arc::new(config))
        })
    }

    fn paths(&self) -> Vec<PathBuf> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca).cloned().collect()
    }
}

/// Sessions can be resumed only within one of these, so that a new client CA is asked of everybody anew.
fn server_config(contents: &[Vec<u8>]) -> anyhow::Result<Arc<ServerConfig>> {
    let [cert, key, client_ca @ ..] = contents else { anyhow::bail!("a certificate and a key are needed") };
    let chain = certificates(cert).context("the certificate")?;
    // Its message may repeat the line that is wrong.
    let key = PrivateKeyDer::from_pem_slice(key).ok().context("the key is no private key in PEM")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("TLS versions")?;
    let builder = match client_ca.first() {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(pem).context("the client CA")? {
                roots.add(root).context("the client CA")?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.context("the client CA")?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .context("certificate and key cannot be used, or not together")?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.ok().context("is no PEM")?;
    ensure!(!found.is_empty(), "has no certificate in PEM");
    Ok(found)
}

/// What a verified certificate says of its owner: the DNS names and URIs of subjectAltName, and the common name.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return vec![] };
    let alternative = certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(str::to_owned);
    let mut names: Vec<_> = alternative.chain(common_name(certificate.subject())).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The last common name of a subject, which is a sequence of sets of pairs of a kind and a text. Whatever does not read so
/// has none.
fn common_name(subject: &[u8]) -> Option<String> {
    let mut found = None;
    let mut rest = subject;
    while !rest.is_empty() {
        let (mut set, after) = expect(SET, rest)?;
        rest = after;
        while !set.is_empty() {
            let (pair, after) = expect(SEQUENCE, set)?;
            set = after;
            let (kind, value) = expect(OBJECT_ID, pair)?;
            if kind == COMMON_NAME {
                let text = expect(UTF8_STRING, value).or_else(|| expect(PRINTABLE_STRING, value))?.0;
                found = Some(std::str::from_utf8(text).ok()?.to_owned());
            }
        }
    }
    found
}

/// The content of the element of this tag that `der` begins with, and what comes after it. Names are shorter than 64 KiB.
fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = match rest {
        [0x82, high, low, rest @ ..] => (usize::from(*high) << 8 | usize::from(*low), rest),
        [0x81, length, rest @ ..] => (usize::from(*length), rest),
        [length @ ..=0x7f, rest @ ..] => (usize::from(*length), rest),
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_name: &str, params: CertificateParams) -> CertificateDer<'static> {
        let mut params = params;
        params.distinguished_name.push(DnType::OrganizationName, "봉수");
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("signed").der().clone()
    }

    #[test]
    fn a_certificate_is_known_by_its_alternative_names_and_its_common_name() {
        let mut params = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        params.subject_alt_names.push(SanType::URI("spiffe://example/b".try_into().expect("ASCII")));
        assert_eq!(names(&certificate("나", params)), ["a.example", "spiffe://example/b", "나"]);
        let long = "x".repeat(300);
        assert_eq!(names(&certificate(&long, CertificateParams::default())), [long]);
    }

    #[test]
    fn what_is_no_subject_has_no_common_name() {
        for subject in
            [&b""[..], b"\x31", b"\x31\x7f", b"\x31\x02\x30\x00", b"\x30\x00", b"\x31\x84\xff\xff\xff\xff"]
        {
            assert_eq!(common_name(subject), None, "{subject:?}");
        }
    }

    #[test]
    fn files_that_do_not_belong_together_are_refused_and_not_shown() {
        let (key, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let cert = CertificateParams::default().self_signed(&key).expect("signed").pem().into_bytes();
        let (key, other) = (key.serialize_pem().into_bytes(), other.serialize_pem().into_bytes());
        server_config(&[cert.clone(), key.clone()]).expect("a pair");
        server_config(&[cert.clone(), key.clone(), cert.clone()]).expect("with a client CA");
        for (contents, part) in [
            (vec![cert.clone(), other], "not together"),
            (vec![key.clone(), key.clone()], "the certificate"),
            (vec![cert.clone(), b"hunter2".to_vec()], "the key"),
            (vec![cert, key, b"hunter2".to_vec()], "the client CA"),
        ] {
            let error = format!("{:#}", server_config(&contents).expect_err(part));
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        }
    }
}
