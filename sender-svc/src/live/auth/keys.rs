//! The keys that users' tokens are signed with: a JSON Web Key Set (RFC 7517).

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::{Map, Value};

/// A set that is rotated has two or three.
const MOST_KEYS: usize = 100;
/// RFC 7518, section 3.2: as long as what the hash gives.
const LEAST_SECRET_BYTES: usize = 32;
/// RFC 7518, section 3.3; and what a verification may cost.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
const ED25519_BYTES: usize = 32;

/// The keys of one set that tokens may be signed with.
pub struct Keys {
    keys: Vec<Key>,
    /// Keys of the set that are of another kind, or for something else.
    unused: usize,
}

/// One key, and the one algorithm that it is for: a token has no say in that.
pub(super) struct Key {
    kid: Option<String>,
    pub algorithm: Algorithm,
    pub decoding: DecodingKey,
}

/// What a key is read from.
type Jwk = Map<String, Value>;

/// Reads a set. What is wrong is told by the place of the key, since texts of the file may be secrets.
///
/// # Errors
///
/// When it is no such set, a key is too weak or broken, or none can be used.
pub fn parse_keys(contents: &[Vec<u8>]) -> anyhow::Result<Keys> {
    let [content] = contents else { bail!("a key set is one file") };
    // As a tree: its errors say where, those of typed fields also what.
    let set: Value = serde_json::from_slice(content).context("is no JSON")?;
    let listed = set.get("keys").and_then(Value::as_array);
    let listed = listed.context("is no JSON Web Key Set: give {\"keys\":[…]}")?;
    ensure!(listed.len() <= MOST_KEYS, "has {} keys, and {MOST_KEYS} are the most", listed.len());
    let mut keys = Vec::new();
    for (place, jwk) in listed.iter().enumerate() {
        let jwk = jwk.as_object().with_context(|| format!("keys[{place}] is no object"))?;
        let key = key(jwk).with_context(|| format!("keys[{place}]"))?;
        keys.extend(key);
    }
    let unused = listed.len() - keys.len();
    ensure!(
        !keys.is_empty(),
        "has no key that can be used: give one with kty oct (HS256), OKP with crv Ed25519 (EdDSA), or RSA (RS256)"
    );
    for (place, key) in keys.iter().enumerate() {
        if keys[..place].iter().any(|other: &Key| other.kid == key.kid) {
            match &key.kid {
                Some(kid) => bail!("two keys have the kid {kid:?}: give each one of its own"),
                None => bail!("two keys have no kid, and one may: give the others a kid"),
            }
        }
    }
    Ok(Keys { keys, unused })
}

impl Keys {
    /// The key of that name; without a name the one that has none.
    pub(super) fn find(&self, kid: Option<&str>) -> Option<&Key> {
        self.keys.iter().find(|key| key.kid.as_deref() == kid)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn unused(&self) -> usize {
        self.unused
    }
}

/// None for what is not for the signatures that we take: the RFC has such keys left aside.
fn key(jwk: &Jwk) -> anyhow::Result<Option<Key>> {
    let kty = text(jwk, "kty")?.context("kty is missing")?;
    let algorithm = match kty {
        "oct" => Algorithm::HS256,
        "OKP" if text(jwk, "crv")? == Some("Ed25519") => Algorithm::EdDSA,
        "RSA" => Algorithm::RS256,
        _ => return Ok(None),
    };
    let other_use = text(jwk, "use")?.is_some_and(|used| used != "sig");
    // EdDSA with this curve is also called by the curve's name (RFC 9864).
    let fits = |alg| alg == name(algorithm) || (alg == "Ed25519" && algorithm == Algorithm::EdDSA);
    if other_use || text(jwk, "alg")?.is_some_and(|alg| !fits(alg)) {
        return Ok(None);
    }
    let kid = text(jwk, "kid")?.map(str::to_owned);
    let decoding = match algorithm {
        Algorithm::EdDSA => ed25519(jwk)?,
        Algorithm::RS256 => rsa(jwk)?,
        _ => secret(jwk)?,
    };
    // An empty signature is none of its, but asking takes the key apart: a point that is on no curve is found here.
    crypto::verify("", b"", &decoding, algorithm)
        .map_err(|_| anyhow::anyhow!("is no key of {}", name(algorithm)))?;
    Ok(Some(Key { kid, algorithm, decoding }))
}

fn secret(jwk: &Jwk) -> anyhow::Result<DecodingKey> {
    let secret = bytes(jwk, "k")?;
    ensure!(
        secret.len() >= LEAST_SECRET_BYTES,
        "k has {} bytes, which can be guessed: give at least {LEAST_SECRET_BYTES} random ones (`bongsu live key`)",
        secret.len()
    );
    Ok(DecodingKey::from_secret(&secret)?)
}

fn ed25519(jwk: &Jwk) -> anyhow::Result<DecodingKey> {
    let point = bytes(jwk, "x")?;
    ensure!(point.len() == ED25519_BYTES, "x has {} bytes: it must be {ED25519_BYTES}", point.len());
    // A place held for a key that never came; it is a point with which anybody could sign.
    ensure!(point.iter().any(|byte| *byte != 0), "x is all zeros: give the public key");
    Ok(DecodingKey::from_ed_der(&point))
}

fn rsa(jwk: &Jwk) -> anyhow::Result<DecodingKey> {
    let (modulus, exponent) = (bytes(jwk, "n")?, bytes(jwk, "e")?);
    let bits = bits(&modulus);
    ensure!(
        RSA_BITS.contains(&bits),
        "n has {bits} bits: give an RSA key of {} to {}",
        RSA_BITS.start(),
        RSA_BITS.end()
    );
    // Beyond 33 bits a verification would take long.
    let fits = (2..=33).contains(&self::bits(&exponent)) && exponent.last().is_some_and(|last| last & 1 == 1);
    ensure!(fits, "e is no exponent of an RSA key: it is AQAB nearly everywhere");
    Ok(DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// How long a number is, its leading zeros aside.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = &number[zeros..];
    digits.first().map_or(0, |first| digits.len() * 8 - first.leading_zeros() as usize)
}

pub(super) fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::EdDSA => "EdDSA",
        Algorithm::RS256 => "RS256",
        _ => "HS256",
    }
}

fn text<'a>(jwk: &'a Jwk, name: &str) -> anyhow::Result<Option<&'a str>> {
    jwk.get(name).map(|value| value.as_str().with_context(|| format!("{name} is no text"))).transpose()
}

fn bytes(jwk: &Jwk, name: &str) -> anyhow::Result<Vec<u8>> {
    let text = text(jwk, name)?.with_context(|| format!("{name} is missing"))?;
    // The decoder's error would show a byte of a secret.
    URL_SAFE_NO_PAD.decode(text).ok().with_context(|| format!("{name} is no base64url without padding"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(keys: &Value) -> Result<Keys, String> {
        parse_keys(&[json!({ "keys": keys }).to_string().into_bytes()]).map_err(|error| format!("{error:#}"))
    }

    fn long(bytes: usize) -> String {
        URL_SAFE_NO_PAD.encode(vec![0xff; bytes])
    }

    #[test]
    fn weak_and_broken_keys_are_refused_by_their_place() {
        let rsa = |n: &str, e: &str| json!([{ "kty": "RSA", "n": n, "e": e }]);
        for (keys, told) in [
            (json!([{ "kty": "oct", "k": long(31) }]), "k has 31 bytes"),
            (json!([{ "kty": "oct" }]), "k is missing"),
            (json!([{ "kty": "oct", "k": "a+b/" }]), "no base64url"),
            (json!([{ "kty": "oct", "k": 7 }]), "k is no text"),
            (json!([{ "kty": "OKP", "crv": "Ed25519", "x": long(31) }]), "x has 31 bytes"),
            (json!([{ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode([0; 32]) }]), "all zeros"),
            (json!([{ "kty": "OKP", "crv": "Ed25519", "x": not_on_the_curve() }]), "is no key of EdDSA"),
            (rsa(&long(128), "AQAB"), "n has 1024 bits"),
            (rsa(&URL_SAFE_NO_PAD.encode([&[0; 200][..], &[1; 128]].concat()), "AQAB"), "n has 1017 bits"),
            (rsa(&long(1_025), "AQAB"), "n has 8200 bits"),
            (rsa(&long(256), "AQ"), "e is no exponent"),
            (rsa(&long(256), "AAAAAg"), "e is no exponent"),
            (rsa(&long(256), &long(5)), "e is no exponent"),
            (json!([{ "kty": "oct", "k": long(32) }, { "kty": "oct", "k": long(8) }]), "keys[1]"),
            (json!([{ "kty": "oct", "k": long(32) }, { "kty": "oct", "k": long(33) }]), "have no kid"),
            (
                json!([{ "kty": "oct", "kid": "a", "k": long(32) }, { "kty": "oct", "kid": "a", "k": long(33) }]),
                "the kid \"a\"",
            ),
            (json!([{ "kid": "a" }]), "kty is missing"),
            (json!(["a"]), "keys[0] is no object"),
            (json!([]), "no key that can be used"),
            (json!([{ "kty": "EC", "crv": "P-256", "x": "", "y": "" }]), "no key that can be used"),
            (json!("a"), "no JSON Web Key Set"),
        ] {
            let problem = parse(&keys).err().unwrap_or_default();
            assert!(problem.contains(told), "{keys}: {problem}");
        }
        let problem = parse_keys(&[b"{\"keys\":hunter2".to_vec()]).err().map(|error| format!("{error:#}"));
        assert!(
            problem.is_some_and(|problem| problem.contains("is no JSON") && !problem.contains("hunter2"))
        );
    }

    /// 2 is no y of a point of this curve.
    fn not_on_the_curve() -> String {
        let mut bytes = [0; 32];
        bytes[0] = 2;
        URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn keys_for_something_else_are_left_aside() {
        let keys = parse(&json!([
            { "kty": "oct", "kid": "mine", "alg": "HS256", "use": "sig", "k": long(32) },
            { "kty": "oct", "kid": "longer", "alg": "HS512", "k": long(64) },
            { "kty": "RSA", "kid": "sealing", "use": "enc", "n": long(256), "e": "AQAB" },
            { "kty": "EC", "kid": "curve", "crv": "P-256" },
            { "kty": "OKP", "kid": "exchange", "crv": "X25519" },
        ]))
        .expect("one can be used");
        assert_eq!((keys.len(), keys.unused()), (1, 4));
        assert!(keys.find(Some("mine")).is_some());
        for other in [None, Some("longer"), Some("sealing"), Some("curve"), Some("Mine"), Some("")] {
            assert!(keys.find(other).is_none(), "{other:?}");
        }
    }
}
