//! Where presence and bus are.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use redis::{Client, ConnectionAddr};

/// A prefix may have this many bytes.
const PREFIX_BYTES: usize = 64;

/// Where presence and bus are: in Postgres, or in a Redis. Flatten it into a service's own arguments.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct LiveArgs {
    /// A Redis by which senders know who is connected, and hear of what is new: redis://USER:PASSWORD@HOST:6379/DATABASE, or rediss://
    /// with TLS. The same for all intakes and senders; without it they use Postgres.
    #[arg(
        id = "live_redis",
        long = "live-redis",
        env = "BONGSU_LIVE_REDIS",
        hide_env_values = true,
        value_name = "URL",
        value_parser = RedisUrlParser
    )]
    pub redis: Option<RedisUrl>,

    /// What our keys and channels in Redis begin with. Another one for each Bongsu that shares a Redis.
    #[arg(
        id = "live_redis_prefix",
        long = "live-redis-prefix",
        env = "BONGSU_LIVE_REDIS_PREFIX",
        default_value = "bongsu",
        value_name = "PREFIX",
        value_parser = prefix
    )]
    pub redis_prefix: String,
}

impl Default for LiveArgs {
    /// Those of a service that is told nothing: Postgres.
    fn default() -> Self {
        Self { redis: None, redis_prefix: "bongsu".to_owned() }
    }
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    if text.is_empty() || text.len() > PREFIX_BYTES || !text.bytes().all(plain) {
        return Err("give it 1 to 64 letters, digits or -_.:");
    }
    Ok(text.to_owned())
}

/// The URL of a Redis. It may hold a password, so it is never shown.
#[derive(Clone)]
pub struct RedisUrl {
    client: Client,
    /// Without user and password.
    shown: String,
}

impl RedisUrl {
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

/// What is wrong with a URL, without the URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not the URL of a Redis ({0}; its value is not shown, it may hold a password): give it \
     redis://USER:PASSWORD@HOST:6379/DATABASE, rediss:// for TLS, or redis+unix:///PATH"
)]
pub struct BadRedisUrl(String);

impl FromStr for RedisUrl {
    type Err = BadRedisUrl;

    fn from_str(url: &str) -> Result<Self, BadRedisUrl> {
        let client = Client::open(url).map_err(|error| BadRedisUrl(error.to_string()))?;
        let shown = match client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) => format!("redis://{host}:{port}"),
            // `#insecure` in a URL: anybody's certificate would do, and take the password.
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(BadRedisUrl("TLS without a look at the certificate".to_owned()));
            }
            ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}"),
            ConnectionAddr::Unix(path) => format!("redis+unix://{}", path.display()),
            _ => return Err(BadRedisUrl("an unknown kind of address".to_owned())),
        };
        Ok(Self { client, shown })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.shown)
    }
}

/// clap itself would show the value in its complaint.
#[derive(Clone)]
struct RedisUrlParser;

impl TypedValueParser for RedisUrlParser {
    type Value = RedisUrl;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<RedisUrl, clap::Error> {
        let url = value.to_str().ok_or_else(|| BadRedisUrl("it is not UTF-8".to_owned()));
        url.and_then(RedisUrl::from_str).map_err(|problem| {
            let text = format!("--live-redis (BONGSU_LIVE_REDIS) {problem}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Program {
        #[command(flatten)]
        live: LiveArgs,
    }

    fn parse(url: &str) -> Result<Program, clap::Error> {
        Program::try_parse_from(["program", "--live-redis", url])
    }

    #[test]
    fn every_way_to_a_redis_is_understood_and_no_password_is_shown() {
        for (url, shown) in [
            ("redis://127.0.0.1", "RedisUrl(redis://127.0.0.1:6379)"),
            ("redis://me:secret@cache.example:7000/2", "RedisUrl(redis://cache.example:7000)"),
            ("rediss://:secret@cache.example", "RedisUrl(rediss://cache.example:6379)"),
            ("redis+unix:///run/redis.sock?pass=secret", "RedisUrl(redis+unix:///run/redis.sock)"),
        ] {
            let live = parse(url).unwrap().live;
            assert_eq!(format!("{:?}", live.redis.as_ref().unwrap()), shown);
            assert!(!format!("{live:?}").contains("secret"), "{live:?}");
        }
    }

    #[test]
    fn a_url_of_something_else_is_refused_before_the_start_without_its_password() {
        for url in [
            "",
            "cache.example:6379",
            "http://me:secret@cache.example",
            "redis://me:secret@",
            "redis://me:secret@cache.example/many",
            "rediss://me:secret@cache.example/#insecure",
        ] {
            let complaint = parse(url).unwrap_err().to_string();
            assert!(
                complaint.contains("--live-redis (BONGSU_LIVE_REDIS) is not the URL of a Redis"),
                "{complaint}"
            );
            assert!(!complaint.contains("secret"), "{complaint}");
        }
    }

    #[test]
    fn a_prefix_is_short_and_plain() {
        let parse = |prefix| Program::try_parse_from(["program", "--live-redis-prefix", prefix]);
        assert_eq!(parse("team-a:bongsu").unwrap().live.redis_prefix, "team-a:bongsu");
        for bad in ["", "a b", "a*", "a{b}", &"x".repeat(65)] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
