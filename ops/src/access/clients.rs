//! The access file: who the clients are, by what they prove it, and what each may do.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::caller::{Caller, Role};

/// Clients of one file at most.
const MOST_CLIENTS: usize = 10_000;
/// Tokens of one client at most: the one in use, and those on their way in and out.
const MOST_TOKENS: usize = 8;
/// The longest name of a client, in bytes.
const MOST_NAME_BYTES: usize = 64;
/// The shortest token, in bytes: shorter ones could be guessed from their hash.
pub const MIN_TOKEN_BYTES: usize = 32;
/// The most that a client may be allowed of either.
const MOST_REQUESTS_PER_SECOND: u32 = 1_000_000;
const MOST_STREAMS: u32 = 100_000;

type TokenHash = [u8; 32];

/// What stands in the access file for a token: SHA-256 in hex. Tokens are random, so that no slower hash is needed.
pub fn token_sha256(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One client, and how much it may ask for.
pub(super) struct Client {
    pub caller: Caller,
    /// Calls a second; None: no limit.
    pub requests_per_second: Option<u32>,
    /// Streams open at a time; None: no limit.
    pub streams: Option<u32>,
}

/// All clients, by what they prove to be themselves with.
#[derive(Default)]
pub(super) struct Clients {
    // By the first bytes of the hash. Time tells how far a lookup came, but nobody can choose a hash without the token.
    by_token: HashMap<[u8; 8], (TokenHash, Arc<Client>)>,
    by_certificate: HashMap<String, Arc<Client>>,
}

// No hashes.
impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens, {} certificates", self.by_token.len(), self.by_certificate.len())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    clients: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    token_sha256: Option<String>,
    #[serde(default)]
    tokens_sha256: Vec<String>,
    #[serde(default)]
    token_env: Option<String>,
    #[serde(default)]
    certificate: Option<String>,
    roles: Vec<Role>,
    #[serde(default)]
    requests_per_second: Option<u32>,
    #[serde(default)]
    streams: Option<u32>,
}

impl Clients {
    /// Reads the one file there is. What is wrong is told by the client's name, and nothing of its secrets.
    pub fn parse(contents: &[Vec<u8>]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(contents.first().context("there is no access file")?)
            .ok()
            .context("is no UTF-8")?;
        let file: File = toml::from_str(text).map_err(|error| {
            // Its own words show the line, which may be a token that was put there by mistake.
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            anyhow::anyhow!("line {line}: {}", error.message())
        })?;
        ensure!(!file.clients.is_empty(), "has no table [clients.NAME]: give one for each client");
        ensure!(file.clients.len() <= MOST_CLIENTS, "has more than {MOST_CLIENTS} clients");
        let mut clients = Self::default();
        for (name, table) in file.clients {
            clients.add(&name, table).with_context(|| format!("[clients.{name}]"))?;
        }
        Ok(clients)
    }

    fn add(&mut self, name: &str, table: Table) -> anyhow::Result<()> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        ensure!(
            (1..=MOST_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain),
            "a name has 1 to {MOST_NAME_BYTES} letters, digits, `-`, `_` and `.`"
        );
        ensure!(!table.roles.is_empty(), "roles is empty: give some of submit, devices, operate, read");
        check_range("requests_per_second", table.requests_per_second, MOST_REQUESTS_PER_SECOND)?;
        check_range("streams", table.streams, MOST_STREAMS)?;
        let tokens = tokens(&table)?;
        ensure!(
            !tokens.is_empty() || table.certificate.is_some(),
            "has neither token_sha256, tokens_sha256, token_env nor certificate: make a token with `bongsu token new`"
        );
        let client = Arc::new(Client {
            caller: Caller::new(name, &table.roles),
            requests_per_second: table.requests_per_second,
            streams: table.streams,
        });
        for hash in tokens {
            if let Some((_, other)) = self.by_token.insert(prefix(&hash), (hash, Arc::clone(&client))) {
                bail!("has the token of [clients.{}]: give each client its own", other.caller.client_id());
            }
        }
        if let Some(certificate) = table.certificate {
            ensure!(
                !certificate.is_empty(),
                "certificate is empty: give a name that stands in the certificate"
            );
            if let Some(other) = self.by_certificate.insert(certificate, client) {
                bail!("has the certificate of [clients.{}]", other.caller.client_id());
            }
        }
        Ok(())
    }

    /// The client that this is a token of.
    pub fn by_token(&self, token: &[u8]) -> Option<&Arc<Client>> {
        let hash: TokenHash = Sha256::digest(token).into();
        let (known, client) = self.by_token.get(&prefix(&hash))?;
        bool::from(known.ct_eq(&hash)).then_some(client)
    }

    /// The client that one of a certificate's names stands for.
    pub fn by_certificate(&self, names: &[String]) -> Option<&Arc<Client>> {
        names.iter().find_map(|name| self.by_certificate.get(name))
    }
}

fn prefix(hash: &TokenHash) -> [u8; 8] {
    std::array::from_fn(|i| hash[i])
}

fn tokens(table: &Table) -> anyhow::Result<Vec<TokenHash>> {
    let mut tokens: Vec<_> = table
        .token_sha256
        .iter()
        .chain(&table.tokens_sha256)
        .map(|hex| from_hex(hex).context("a token's hash has 64 hex digits, as `bongsu token new` tells it"))
        .collect::<anyhow::Result<_>>()?;
    if let Some(variable) = &table.token_env {
        let token = std::env::var(variable).ok();
        let token = token.with_context(|| format!("the environment variable {variable} is not set"))?;
        ensure!(
            token.len() >= MIN_TOKEN_BYTES,
            "the token in the environment variable {variable} has fewer than {MIN_TOKEN_BYTES} bytes"
        );
        tokens.push(Sha256::digest(token).into());
    }
    ensure!(tokens.len() <= MOST_TOKENS, "has {} tokens: {MOST_TOKENS} are the most", tokens.len());
    Ok(tokens)
}

fn from_hex(hex: &str) -> Option<TokenHash> {
    let digits = hex.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<_>>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect();
    (digits.len() == 64).then(|| bytes.try_into().ok())?
}

fn check_range(name: &str, value: Option<u32>, most: u32) -> anyhow::Result<()> {
    let Some(value) = value.filter(|value| !(1..=most).contains(value)) else { return Ok(()) };
    bail!("{name} is {value}: give it 1 to {most}, or leave it out for no limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn parse(text: &str) -> anyhow::Result<Clients> {
        Clients::parse(&[text.as_bytes().to_vec()])
    }

    fn hash(token: &str) -> String {
        token_sha256(token)
    }

    #[test]
    fn a_client_is_known_by_each_of_its_tokens_and_its_certificate() {
        let text = format!(
            "[clients.news]\ntoken_sha256 = \"{}\"\ntokens_sha256 = [\"{}\"]\nroles = [\"submit\"]\nstreams = 2\n\
             [clients.ops]\ncertificate = \"ops.example\"\nroles = [\"operate\", \"read\"]\n",
            hash("one"),
            hash("two"),
        );
        let clients = parse(&text).expect("a good file");
        for token in ["one", "two"] {
            let client = clients.by_token(token.as_bytes()).expect(token);
            assert_eq!((client.caller.client_id(), client.streams), ("news", Some(2)));
        }
        assert!(clients.by_token(b"three").is_none());
        assert!(clients.by_token(hash("one").as_bytes()).is_none(), "a hash is no token");
        let names = ["x".to_owned(), "ops.example".to_owned()];
        let client = clients.by_certificate(&names).expect("known");
        assert!(client.caller.has_any(&[Role::Read]) && !client.caller.has_any(&[Role::Submit]));
        assert!(clients.by_certificate(&names[..1]).is_none());
    }

    #[test]
    fn what_is_wrong_names_the_client_and_shows_no_secret() {
        let table = |rest: &str| format!("[clients.a]\ntoken_sha256 = \"{}\"\n{rest}", hash(TOKEN));
        let roles = "roles = [\"read\"]\n";
        for (text, part) in [
            (String::new(), "has no table"),
            (table("roles = []"), "roles is empty"),
            (table("roles = [\"root\"]"), "unknown variant"),
            (table("roles = [\"read\"]\nstreams = 0"), "streams is 0"),
            (table("roles = [\"read\"]\nrequest_per_second = 1"), "line 4"),
            (format!("[clients.a]\n{roles}"), "bongsu token new"),
            (format!("[clients.a]\ntoken_sha256 = \"{TOKEN}\"\n{roles}"), "64 hex digits"),
            (format!("[clients.a]\n{TOKEN}\n{roles}"), "line 2"),
            (
                format!("[clients.a]\ntoken_env = \"BONGSU_TEST_NOT_SET\"\n{roles}"),
                "BONGSU_TEST_NOT_SET is not set",
            ),
            (format!("[clients.\"a b\"]\ncertificate = \"x\"\n{roles}"), "a name has"),
            (
                format!("{}{roles}[clients.b]\ntoken_sha256 = \"{}\"\n{roles}", table(""), hash(TOKEN)),
                "[clients.b]",
            ),
        ] {
            let error = format!("{:#}", parse(&text).expect_err(part));
            assert!(error.contains(part), "{part}: {error}");
            assert!(!error.contains(TOKEN) && !error.contains(&hash(TOKEN)), "{error}");
        }
    }
}
