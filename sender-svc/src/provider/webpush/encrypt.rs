//! The encryption of a message for one browser: RFC 8291, in one record of RFC 8188.
//!
//! With ring and not with a crate for web push, which rest on p256. Key, agreement and secret of a message took 80 to 100 µs with
//! ring and 650 to 730 µs with p256, at opt-level 1 (ring's assembly does not depend on it) and on a busy machine.

use bongsu_store::Subscription;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// What a record may have at most; a message is shorter, so it is one record (RFC 8291, section 4).
const RECORD_BYTES: u32 = 4_096;
const SALT_BYTES: usize = 16;
const PUBLIC_KEY_BYTES: usize = 65;
/// Ends the content of the last record; what follows would be padding (RFC 8188, section 2).
const LAST_RECORD: u8 = 2;

/// The body that only this browser can open. A key and a salt of its own for each call.
///
/// # Errors
///
/// Where the browser's key is no point of the curve, or the system has no random numbers.
pub(super) fn encrypt(subscription: &Subscription, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let random = SystemRandom::new();
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt)?;
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &random)?;
    let public: [u8; PUBLIC_KEY_BYTES] =
        ours.compute_public_key()?.as_ref().try_into().map_err(|_| Unspecified)?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, subscription.p256dh);
    let sealing = Sealing { salt, public };
    agree_ephemeral(ours, &theirs, |secret| sealing.seal(secret, subscription, message))?
}

/// What makes the result the same again.
struct Sealing {
    salt: [u8; SALT_BYTES],
    /// Ours.
    public: [u8; PUBLIC_KEY_BYTES],
}

impl Sealing {
    fn seal(
        &self,
        secret: &[u8],
        subscription: &Subscription,
        message: &[u8],
    ) -> Result<Vec<u8>, Unspecified> {
        let info = [b"WebPush: info\0", &subscription.p256dh[..], &self.public[..]];
        let input: [u8; 32] = expand(&Salt::new(HKDF_SHA256, &subscription.auth).extract(secret), &info)?;
        let keys = Salt::new(HKDF_SHA256, &self.salt).extract(&input);
        let key: [u8; 16] = expand(&keys, &[b"Content-Encoding: aes128gcm\0"])?;
        let nonce: [u8; 12] = expand(&keys, &[b"Content-Encoding: nonce\0"])?;

        let mut body = Vec::with_capacity(SALT_BYTES + 5 + PUBLIC_KEY_BYTES + message.len() + 17);
        body.extend(self.salt);
        body.extend(RECORD_BYTES.to_be_bytes());
        body.push(PUBLIC_KEY_BYTES as u8);
        body.extend(self.public);
        let content = body.len();
        body.extend(message);
        body.push(LAST_RECORD);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut body[content..])?;
        body.extend(tag.as_ref());
        Ok(body)
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(key: &Prk, info: &[&[u8]]) -> Result<[u8; N], Unspecified> {
    let mut expanded = [0; N];
    key.expand(info, Length(N))?.fill(&mut expanded)?;
    Ok(expanded)
}

#[cfg(test)]
pub(super) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        URL_SAFE_NO_PAD.decode(text).expect("base64url").try_into().expect("the length")
    }

    pub(in crate::provider::webpush) fn browser() -> Subscription {
        Subscription {
            endpoint: "https://push.example/a".parse().expect("a URL"),
            p256dh: bytes(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            ),
            auth: bytes("BTBZMqHH6r4Tts7J_aSIgg"),
        }
    }

    #[test]
    fn the_example_of_rfc_8291_comes_out_byte_for_byte() {
        let sealing = Sealing {
            salt: bytes("DGv6ra1nlYgDCS1FRnbzlw"),
            public: bytes(
                "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
            ),
        };
        let secret: [u8; 32] = bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let message = b"When I grow up, I want to be a watermelon";
        let body = sealing.seal(&secret, &browser(), message).expect("sealed");
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(body), expected);
    }

    #[test]
    fn a_call_shares_neither_key_nor_salt_with_another_and_the_longest_message_fits() {
        let longest = vec![b'x'; bongsu_store::ProviderKind::WebPush.max_notification_bytes()];
        let (one, two) = (encrypt(&browser(), &longest), encrypt(&browser(), &longest));
        let (one, two) = (one.expect("sealed"), two.expect("sealed"));
        assert_eq!(one.len(), RECORD_BYTES as usize);
        assert_ne!(one[..SALT_BYTES], two[..SALT_BYTES]);
        assert_ne!(one[SALT_BYTES + 5..][..PUBLIC_KEY_BYTES], two[SALT_BYTES + 5..][..PUBLIC_KEY_BYTES]);
    }

    #[test]
    fn a_key_that_is_no_point_of_the_curve_is_an_error() {
        let p256dh = [4; PUBLIC_KEY_BYTES];
        assert!(encrypt(&Subscription { p256dh, ..browser() }, b"x").is_err());
    }
}
