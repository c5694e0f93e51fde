//! What the live channel of a sender is started with.

use std::net::SocketAddr;
use std::path::PathBuf;

use bongsu_ops::access::AccessArgs;
use bongsu_ops::reload;

use super::auth::{self, MAX_COOKIE_NAME_BYTES, Origin, is_cookie_name};

pub(super) const DEFAULT_MAX_CONNECTIONS: u32 = 50_000;
const DEFAULT_MAX_USER_CONNECTIONS: u32 = 10;
const DEFAULT_HEARTBEAT_S: u32 = 15;

/// Every environment variable of [`LiveConfig`], for whoever starts senders that must not take over its own.
pub const ENVIRONMENT: [&str; 10] = [
    "BONGSU_LIVE_LISTEN",
    "BONGSU_LIVE_JWKS",
    "BONGSU_LIVE_JWT_ISSUER",
    "BONGSU_LIVE_JWT_AUDIENCE",
    "BONGSU_LIVE_COOKIE",
    "BONGSU_LIVE_ALLOW_ORIGIN",
    "BONGSU_LIVE_MAX_CONNECTIONS",
    "BONGSU_LIVE_MAX_USER_CONNECTIONS",
    "BONGSU_LIVE_HEARTBEAT_S",
    "BONGSU_LIVE_PAGE",
];

/// The live channel of one sender. Flatten it into the sender's own arguments.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct LiveConfig {
    /// Address to serve the live channel of users' apps on, over HTTP/1.1 and HTTP/2; port 0 takes a free one. Without it there
    /// is none here
    #[arg(id = "live_listen", long = "live-listen", env = "BONGSU_LIVE_LISTEN", value_name = "ADDR")]
    pub listen: Option<SocketAddr>,

    /// The keys that users' tokens are signed with: a JSON Web Key Set (docs/security.md). Read again when it changes
    #[arg(id = "live_jwks", long = "live-jwks", env = "BONGSU_LIVE_JWKS", value_name = "FILE")]
    pub jwks: Option<PathBuf>,

    /// Take only tokens of this issuer (`iss`)
    #[arg(
        id = "live_jwt_issuer",
        long = "live-jwt-issuer",
        env = "BONGSU_LIVE_JWT_ISSUER",
        value_name = "ISSUER"
    )]
    pub jwt_issuer: Option<String>,

    /// Take only tokens for this audience (`aud`). Without it, only tokens that are for no audience
    #[arg(
        id = "live_jwt_audience",
        long = "live-jwt-audience",
        env = "BONGSU_LIVE_JWT_AUDIENCE",
        value_name = "AUDIENCE"
    )]
    pub jwt_audience: Option<String>,

    /// Take a user's token from this cookie, too
    #[arg(id = "live_cookie", long = "live-cookie", env = "BONGSU_LIVE_COOKIE", value_name = "NAME")]
    pub cookie: Option<String>,

    /// Let pages of this origin use the live channel: scheme, host and, where it is not the usual one, port. Repeat it, or separate
    /// several by commas. Pages of its own host always may
    #[arg(
        id = "live_allow_origin",
        long = "live-allow-origin",
        env = "BONGSU_LIVE_ALLOW_ORIGIN",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    pub allow_origins: Vec<Origin>,

    /// Streams open at a time at most
    #[arg(
        id = "live_max_connections",
        long = "live-max-connections",
        env = "BONGSU_LIVE_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = DEFAULT_MAX_CONNECTIONS
    )]
    pub max_connections: u32,

    /// Streams of one user open at a time at most
    #[arg(
        id = "live_max_user_connections",
        long = "live-max-user-connections",
        env = "BONGSU_LIVE_MAX_USER_CONNECTIONS",
        value_name = "N",
        default_value_t = DEFAULT_MAX_USER_CONNECTIONS
    )]
    pub max_user_connections: u32,

    /// How many seconds a stream is silent at most: a heartbeat comes where nothing else does
    #[arg(
        id = "live_heartbeat_s",
        long = "live-heartbeat-s",
        env = "BONGSU_LIVE_HEARTBEAT_S",
        value_name = "SECONDS",
        default_value_t = DEFAULT_HEARTBEAT_S
    )]
    pub heartbeat_s: u32,

    /// Serve a page at / on which to try the live channel: for development
    #[arg(id = "live_page", long = "live-page", env = "BONGSU_LIVE_PAGE")]
    pub page: bool,
}

impl Default for LiveConfig {
    fn default() -> Self {
        Self {
            listen: None,
            jwks: None,
            jwt_issuer: None,
            jwt_audience: None,
            cookie: None,
            allow_origins: Vec::new(),
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_user_connections: DEFAULT_MAX_USER_CONNECTIONS,
            heartbeat_s: DEFAULT_HEARTBEAT_S,
            page: false,
        }
    }
}

impl LiveConfig {
    /// What is wrong, with the setting and what to do; `access` says whether the sender speaks TLS, `others` where else it
    /// listens, each with its setting.
    pub fn problems(&self, access: &AccessArgs, others: &[(&str, SocketAddr)]) -> Vec<String> {
        let mut problems = Vec::new();
        self.check_ranges(&mut problems);
        self.check_keys(&mut problems);
        if let Some(name) = &self.cookie
            && !is_cookie_name(name)
        {
            problems.push(format!(
                "--live-cookie (BONGSU_LIVE_COOKIE) is {name:?}: give it 1 to {MAX_COOKIE_NAME_BYTES} letters, digits, and \
                 any of !#$%&'*+-.^_`|~"
            ));
        }
        if let Some(listen) = self.listen {
            check_listen(listen, access, others, &mut problems);
        }
        problems
    }

    fn check_ranges(&self, problems: &mut Vec<String>) {
        let ranges: [(&str, u32, u32, u32); 3] = [
            ("--live-max-connections (BONGSU_LIVE_MAX_CONNECTIONS)", self.max_connections, 1, 1_000_000),
            (
                "--live-max-user-connections (BONGSU_LIVE_MAX_USER_CONNECTIONS)",
                self.max_user_connections,
                1,
                10_000,
            ),
            ("--live-heartbeat-s (BONGSU_LIVE_HEARTBEAT_S)", self.heartbeat_s, 1, 300),
        ];
        for (setting, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                problems.push(format!("{setting} is {value}: give it {least} to {most}"));
            }
        }
    }

    fn check_keys(&self, problems: &mut Vec<String>) {
        match (&self.listen, &self.jwks) {
            (Some(_), None) => problems.push(
                "--live-listen (BONGSU_LIVE_LISTEN) is set without --live-jwks (BONGSU_LIVE_JWKS), and nobody could be told \
                 from anybody else: give the keys that users' tokens are signed with (`bongsu live key` makes one to try)"
                    .to_owned(),
            ),
            (None, Some(_)) => problems.push(
                "--live-jwks (BONGSU_LIVE_JWKS) is set without --live-listen (BONGSU_LIVE_LISTEN): give both, or neither \
                 where there is no live channel"
                    .to_owned(),
            ),
            _ => {}
        }
        if let Some(path) = &self.jwks
            && let Err(error) = reload::read(std::slice::from_ref(path), auth::parse_keys)
        {
            problems.push(format!("--live-jwks (BONGSU_LIVE_JWKS): {error:#}"));
        }
        let claims = [
            ("--live-jwt-issuer (BONGSU_LIVE_JWT_ISSUER)", &self.jwt_issuer),
            ("--live-jwt-audience (BONGSU_LIVE_JWT_AUDIENCE)", &self.jwt_audience),
        ];
        for (setting, _) in claims.iter().filter(|(_, value)| value.as_deref() == Some("")) {
            problems.push(format!("{setting} is empty: give what the tokens say, or leave it out"));
        }
    }
}

fn check_listen(
    listen: SocketAddr,
    access: &AccessArgs,
    others: &[(&str, SocketAddr)],
    problems: &mut Vec<String>,
) {
    let taken = others.iter().filter(|(_, other)| *other == listen && listen.port() != 0);
    problems.extend(taken.map(|(setting, _)| {
        format!(
            "--live-listen (BONGSU_LIVE_LISTEN) and {setting} are both {listen}: give one of them another port"
        )
    }));
    if !listen.ip().is_loopback() && access.tls_cert.is_none() && !access.insecure_listen {
        problems.push(format!(
            "--live-listen (BONGSU_LIVE_LISTEN) is {listen}, which others can reach, without TLS (--tls-cert, --tls-key), and \
             tokens could be read on their way: set that, or a loopback address, or --insecure-listen \
             (BONGSU_INSECURE_LISTEN) where something else protects the port"
        ));
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Parser};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        live: LiveConfig,
        #[command(flatten)]
        access: AccessArgs,
    }

    fn problems(words: &[&str]) -> String {
        let line = Line::parse_from([&["x"], words].concat());
        let others = [("--listen", "127.0.0.1:7080".parse().expect("an address"))];
        line.live.problems(&line.access, &others).join("\n")
    }

    fn jwks(directory: &tempfile::TempDir, text: &str) -> String {
        let path = directory.path().join("jwks.json");
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    const KEYS: &str = r#"{"keys":[{"kty":"oct","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;

    #[test]
    fn there_is_no_live_channel_without_being_asked_for() {
        assert_eq!(problems(&[]), "");
        assert!(LiveConfig::default().listen.is_none());
        assert_eq!(format!("{:?}", Line::parse_from(["x"]).live), format!("{:?}", LiveConfig::default()));
    }

    #[test]
    fn whoever_clears_the_environment_for_a_sender_knows_all_of_it() {
        let command = LiveConfig::augment_args(clap::Command::new("x"));
        let variables = command.get_arguments().filter_map(|setting| setting.get_env()?.to_str());
        assert_eq!(variables.collect::<Vec<_>>(), ENVIRONMENT);
    }

    #[test]
    fn a_channel_needs_keys_and_beyond_this_host_it_needs_tls() {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = jwks(&directory, KEYS);
        assert_eq!(problems(&["--live-listen=127.0.0.1:7090", "--live-jwks", &keys]), "");
        assert!(problems(&["--live-listen=127.0.0.1:7090"]).contains("without --live-jwks"));
        assert!(problems(&["--live-jwks", &keys]).contains("without --live-listen"));
        let beyond = ["--live-listen=0.0.0.0:7090", "--live-jwks", &keys];
        assert!(problems(&beyond).contains("others can reach"), "{}", problems(&beyond));
        assert_eq!(problems(&[&beyond[..], &["--insecure-listen"]].concat()), "");
        assert!(
            problems(&["--live-listen=127.0.0.1:7080", "--live-jwks", &keys]).contains("another port"),
            "the sender listens there already"
        );
    }

    #[test]
    fn what_is_wrong_is_told_by_its_setting() {
        for (words, told) in [
            (&["--live-max-connections=0"][..], "--live-max-connections (BONGSU_LIVE_MAX_CONNECTIONS) is 0"),
            (&["--live-max-user-connections=0"], "--live-max-user-connections"),
            (&["--live-heartbeat-s=301"], "give it 1 to 300"),
            (&["--live-cookie=a b"], "--live-cookie (BONGSU_LIVE_COOKIE) is \"a b\""),
            (&["--live-cookie="], "--live-cookie"),
            (&["--live-jwt-issuer="], "--live-jwt-issuer (BONGSU_LIVE_JWT_ISSUER) is empty"),
            (&["--live-jwt-audience="], "--live-jwt-audience (BONGSU_LIVE_JWT_AUDIENCE) is empty"),
        ] {
            assert!(problems(words).contains(told), "{words:?}: {}", problems(words));
        }
        for origin in ["*", "null", "app.example.com", "https://app.example.com/path", "ftp://x.example"] {
            assert!(Line::try_parse_from(["x", "--live-allow-origin", origin]).is_err(), "{origin}");
        }
    }

    #[test]
    fn keys_that_are_too_weak_are_refused_at_the_start_and_not_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let weak = jwks(&directory, r#"{"keys":[{"kty":"oct","k":"aHVudGVyMg"}]}"#);
        let told = problems(&["--live-listen=127.0.0.1:7090", "--live-jwks", &weak]);
        assert!(told.contains("jwks.json") && told.contains("32") && !told.contains("aHVudGVyMg"), "{told}");
    }
}
