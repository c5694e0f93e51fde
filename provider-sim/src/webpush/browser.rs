//! A browser: its keys, and how it opens what it is sent (RFC 8291).

use aes_gcm::aead::Aead as _;
use aes_gcm::{Aes128Gcm, KeyInit as _, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use p256::ecdh::diffie_hellman;
use p256::{PublicKey, SecretKey};
use sha2::{Digest as _, Sha256};

use crate::push::Refusal;

const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 65;
/// Salt, record size, length of the key's name; the name is the sender's key.
const HEADER_BYTES: usize = SALT_BYTES + 4 + 1 + KEY_BYTES;
const TAG_BYTES: usize = 16;
/// A smaller record would have no room for content (RFC 8188, section 2.1).
const LEAST_RECORD_BYTES: usize = 18;
/// Ends the content of the last record.
const LAST_RECORD: u8 = 2;

pub(super) struct Browser {
    key: SecretKey,
    public: Vec<u8>,
    auth: [u8; 16],
}

impl Browser {
    pub fn of(name: &str) -> Self {
        let derive = |purpose: &[u8]| -> [u8; 32] {
            Sha256::new().chain_update(purpose).chain_update([0]).chain_update(name).finalize().into()
        };
        // That a hash is no key has a chance of 2^-32; then the next one is.
        let key = (0_u8..=255).find_map(|n| SecretKey::from_slice(&derive(&[b'k', n])).ok());
        let key = key.expect("256 hashes that are no key");
        let public = key.public_key().to_sec1_bytes().into_vec();
        let [auth @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = derive(b"auth");
        Self { key, public, auth }
    }

    /// As its page would pass it on.
    pub fn subscription(&self, endpoint: &str) -> String {
        let keys = serde_json::json!({
            "p256dh": URL_SAFE_NO_PAD.encode(&self.public),
            "auth": URL_SAFE_NO_PAD.encode(self.auth),
        });
        serde_json::json!({ "endpoint": endpoint, "expirationTime": null, "keys": keys }).to_string()
    }

    /// What was encrypted for it.
    pub fn open(&self, body: &[u8]) -> Result<String, Refusal> {
        let bad = |why: &str| Refusal::malformed(format!("the body is no aes128gcm (RFC 8188): {why}"));
        if body.len() < HEADER_BYTES + TAG_BYTES + 1 {
            return Err(bad("it is too short"));
        }
        let (header, sealed) = body.split_at(HEADER_BYTES);
        let (salt, rest) = header.split_at(SALT_BYTES);
        let record = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        if record < LEAST_RECORD_BYTES || sealed.len() > record {
            return Err(bad("it is not one record of its size"));
        }
        if usize::from(rest[4]) != KEY_BYTES {
            return Err(bad("its keyid is no key (RFC 8291, section 4)"));
        }
        let sender = &rest[5..];
        let theirs = PublicKey::from_sec1_bytes(sender).map_err(|_| bad("its keyid is no point"))?;
        let mut content =
            self.unseal(&theirs, sender, salt, sealed).ok_or_else(|| bad("it does not open"))?;
        while content.last() == Some(&0) {
            content.pop();
        }
        if content.pop() != Some(LAST_RECORD) {
            return Err(bad("its padding does not end the last record"));
        }
        String::from_utf8(content).map_err(|_| bad("its content is no UTF-8"))
    }

    fn unseal(&self, theirs: &PublicKey, sender: &[u8], salt: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let shared = diffie_hellman(self.key.to_nonzero_scalar(), theirs.as_affine());
        let info = [b"WebPush: info\0", &self.public[..], sender];
        let mut input = [0; 32];
        Hkdf::<Sha256>::new(Some(&self.auth), shared.raw_secret_bytes())
            .expand_multi_info(&info, &mut input)
            .ok()?;
        let keys = Hkdf::<Sha256>::new(Some(salt), &input);
        let (mut key, mut nonce) = ([0; 16], [0; 12]);
        keys.expand(b"Content-Encoding: aes128gcm\0", &mut key).ok()?;
        keys.expand(b"Content-Encoding: nonce\0", &mut nonce).ok()?;
        Aes128Gcm::new_from_slice(&key).ok()?.decrypt(&Nonce::from(nonce), sealed).ok()
    }
}
