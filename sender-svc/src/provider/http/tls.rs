//! Whose certificates are believed.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;

/// The certificates that a provider's server may prove itself with.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    tls: Arc<ClientConfig>,
}

impl Trust {
    /// The system's, or nothing but those of a file in PEM.
    pub fn new(ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let mut tls = match ca_file {
            None => ClientConfig::with_platform_verifier().context("reading the system's certificates")?,
            Some(path) => {
                let (mut roots, named) = (RootCertStore::empty(), || format!("ca_file {}", path.display()));
                for certificate in CertificateDer::pem_file_iter(path).with_context(named)? {
                    roots.add(certificate.with_context(named)?).with_context(named)?;
                }
                ensure!(!roots.is_empty(), "ca_file {} has no certificate in PEM", path.display());
                ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
            }
        };
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { tls: Arc::new(tls) })
    }

    /// For HTTP/2 over TLS.
    pub fn for_http2(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// For whichever HTTP the server prefers.
    pub fn for_any_http(&self) -> ClientConfig {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols.push(b"http/1.1".to_vec());
        tls
    }
}
