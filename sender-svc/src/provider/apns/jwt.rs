//! Provider tokens: JSON Web Tokens signed with ES256 (RFC 7515, RFC 7518 section 3.4).

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey as _;
use serde::Serialize;

/// A signing key. No Debug: it is a secret.
pub(super) struct Key(SigningKey);

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: u64,
}

impl Key {
    /// The key in a .p8 file: PKCS #8 in PEM.
    pub fn parse(pem: &[u8]) -> anyhow::Result<Self> {
        let pem =
            std::str::from_utf8(pem).ok().context("no text: give the .p8 file as Apple handed it out")?;
        // What the parser says could repeat a piece of the key.
        let key = SigningKey::from_pkcs8_pem(pem.trim()).ok();
        key.map(Self)
            .context("no private key of P-256 in PEM (PKCS #8): give the .p8 file as Apple handed it out")
    }

    /// A token of this team issued at `iat`, in seconds since 1970. The signature is deterministic (RFC 6979), so that all who
    /// hold the key make the same token without a word to each other.
    pub fn token(&self, key_id: &str, team_id: &str, iat: u64) -> String {
        let header = encode(&Header { alg: "ES256", kid: key_id });
        let claims = encode(&Claims { iss: team_id, iat });
        let mut token = format!("{header}.{claims}");
        let signature: Signature = self.0.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.to_bytes(), &mut token);
        token
    }
}

fn encode(part: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(part).expect("structs of strings and numbers serialise"))
}
