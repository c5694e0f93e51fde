//! The service account that Bongsu is at Google, and the assertions that it signs (RFC 7523; RS256 of RFC 7518).

use std::fmt;

use anyhow::{Context as _, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::http::uri::PathAndQuery;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

/// What an access token is asked for: sending messages, and nothing else.
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// How long an assertion is good; Google takes no longer one.
const ASSERTION_SECONDS: i64 = 3_600;

/// A service account's key file, as the Google Cloud console gives it.
pub(super) struct ServiceAccount {
    /// Where its project's messages are sent to.
    pub path: PathAndQuery,
    pub token_uri: reqwest::Url,
    email: String,
    key_id: Option<String>,
    key: RsaKeyPair,
}

// Nothing of the key.
impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the service account {}", self.email)
    }
}

#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    project_id: String,
    private_key_id: Option<String>,
    private_key: String,
    client_email: String,
    token_uri: String,
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    typ: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'static str,
    aud: &'a str,
    iat: i64,
    exp: i64,
}

/// Where the messages of a project are sent to.
pub(super) fn send_path(project_id: &str) -> anyhow::Result<PathAndQuery> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
    ensure!(
        !project_id.is_empty() && project_id.chars().all(fine),
        "project_id {project_id:?} is no project: give its id, like my-project-1234, or its number"
    );
    format!("/v1/projects/{project_id}/messages:send").parse().context("project_id")
}

impl ServiceAccount {
    /// Reads a key file. What is wrong is told without the key.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        // serde_json would repeat a value of the wrong type.
        let file: KeyFile = serde_json::from_slice(bytes).map_err(|error| {
            anyhow!("is no service account's key in JSON (line {}, column {})", error.line(), error.column())
        })?;
        ensure!(
            file.kind == "service_account",
            "is no key of a service account: \"type\" is not \"service_account\""
        );
        let token_uri = reqwest::Url::parse(&file.token_uri).context("token_uri is no URL")?;
        ensure!(token_uri.scheme() == "https", "token_uri must begin with https://");
        let key = private_key(&file.private_key).context("private_key")?;
        Ok(Self {
            path: send_path(&file.project_id)?,
            token_uri,
            email: file.client_email,
            key_id: file.private_key_id,
            key,
        })
    }

    /// An assertion for `audience`, issued at that second since 1970.
    pub fn assertion(&self, audience: &str, issued_at: i64) -> anyhow::Result<String> {
        let header = Header { alg: "RS256", typ: "JWT", kid: self.key_id.as_deref() };
        let (iat, exp) = (issued_at, issued_at + ASSERTION_SECONDS);
        let claims = Claims { iss: &self.email, scope: SCOPE, aud: audience, iat, exp };
        let mut assertion = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header)?);
        assertion.push('.');
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(&claims)?, &mut assertion);
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), assertion.as_bytes(), &mut signature)
            .map_err(|_| anyhow!("the key does not sign"))?;
        assertion.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut assertion);
        Ok(assertion)
    }
}

fn private_key(pem: &str) -> anyhow::Result<RsaKeyPair> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| anyhow!("is no key in PEM"))?;
    let pair = match &der {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(anyhow!("is no RSA key")),
    };
    pair.map_err(|rejected| anyhow!("is no RSA key that can be used: {rejected}"))
}

#[cfg(test)]
pub(super) mod tests {
    use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = include_str!("../../../../provider-sim/keys/test-service-account-opens-nothing.pem");

    /// A key file for tests.
    pub fn key_file(token_uri: &str) -> Value {
        json!({
            "type": "service_account", "project_id": "bongsu-test", "private_key_id": "key-1", "private_key": KEY,
            "client_email": "sender@bongsu-test.iam.gserviceaccount.com", "token_uri": token_uri,
            "universe_domain": "googleapis.com",
        })
    }

    fn parse(file: &Value) -> anyhow::Result<ServiceAccount> {
        ServiceAccount::parse(file.to_string().as_bytes())
    }

    #[test]
    fn an_assertion_says_who_asks_for_what_until_when_and_is_signed() {
        let account = parse(&key_file("https://oauth2.googleapis.com/token")).expect("a service account");
        assert_eq!(account.path.as_str(), "/v1/projects/bongsu-test/messages:send");
        let assertion = account.assertion(account.token_uri.as_str(), 1_700_000_000).expect("signed");
        let (signed, signature) = assertion.rsplit_once('.').expect("three parts");
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, account.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &decode(signature)).expect("our signature");
        let (header, claims) = signed.split_once('.').expect("two parts");
        let read = |text| serde_json::from_slice::<Value>(&decode(text)).expect("JSON");
        assert_eq!(read(header), json!({ "alg": "RS256", "typ": "JWT", "kid": "key-1" }));
        assert_eq!(
            read(claims),
            json!({
                "iss": "sender@bongsu-test.iam.gserviceaccount.com", "scope": SCOPE,
                "aud": "https://oauth2.googleapis.com/token", "iat": 1_700_000_000, "exp": 1_700_003_600,
            })
        );
    }

    #[test]
    fn what_is_wrong_with_a_key_file_is_told_without_the_key() {
        let good = key_file("https://oauth2.googleapis.com/token");
        let with = |field: &str, value: Value| {
            let mut file = good.clone();
            file[field] = value;
            file
        };
        for (file, told) in [
            (with("type", json!("authorized_user")), "service_account"),
            (with("private_key", json!("secret")), "private_key"),
            (with("private_key", json!(["secret"])), "line 1"),
            (with("token_uri", json!("http://oauth2.example/token")), "https"),
            (with("project_id", json!("a/../b")), "project_id"),
        ] {
            let error = format!("{:#}", parse(&file).expect_err(told));
            assert!(error.contains(told) && !error.contains("secret"), "{error}");
        }
        let account = format!("{:?}", parse(&good).expect("a service account"));
        assert_eq!(account, "the service account sender@bongsu-test.iam.gserviceaccount.com");
    }
}
