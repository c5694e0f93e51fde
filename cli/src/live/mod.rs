//! `bongsu live`: keys and tokens of users, to try the live channel without the server that signs them ([`token`]), and the channel
//! from the side of a user's client.
//!
//! * [`client`] is one user's client: a stream ([`network`], [`sse`]) that comes back by itself; [`listen`] prints what one gets
//! * [`crowd`] is many of them at once, for the demo, the chaos trials and the benchmark, and [`record`] what each one got;
//!   [`verdict`] says how a user got a notification, [`open_files`] makes room for them all

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use self::token::{Claims, SigningKey};
use crate::Context;
use crate::error::Failure;
use crate::stack::Process;
use crate::times::parse_span;

pub(crate) mod client;
pub(crate) mod crowd;
mod listen;
pub(crate) mod network;
mod notification;
pub(crate) mod open_files;
pub(crate) mod record;
mod sse;
pub mod token;
pub(crate) mod verdict;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Key(KeyArgs),
    Token(TokenArgs),
    Listen(listen::Args),
}

/// Make a key for users' tokens, as a JSON Web Key Set
///
/// For the senders' --live-jwks and for `bongsu live token`. It is a secret (HS256): whoever has it can be any user. Where another
/// server signs users' tokens, give the senders that server's public keys instead.
#[derive(Debug, clap::Args)]
pub struct KeyArgs {
    /// The key's name, which tokens then carry: several keys in one set need one each
    #[arg(long, value_name = "KID")]
    kid: Option<String>,
}

/// Make a token for a user, as the apps' own server would: for development
#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    /// The file that `bongsu live key` made
    #[arg(long, env = "BONGSU_LIVE_JWKS", value_name = "FILE")]
    jwks: PathBuf,

    /// The user, as devices are registered under
    #[arg(long, value_name = "USER")]
    user: String,

    /// How long it is valid
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_ttl)]
    ttl: Duration,

    /// Sign with the key of this name [default: the only secret of the file]
    #[arg(long, value_name = "KID")]
    kid: Option<String>,

    /// Say that this issuer made it, where the senders ask for one (--live-jwt-issuer)
    #[arg(long, value_name = "ISSUER")]
    issuer: Option<String>,

    /// Say that it is for this audience, where the senders ask for one (--live-jwt-audience)
    #[arg(long, value_name = "AUDIENCE")]
    audience: Option<String>,
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Key(KeyArgs { kid }) => context.output.object(&SigningKey::fresh(kid.as_deref())?.jwks()),
        Command::Token(args) => {
            let token = make(&args).map_err(|error| Failure::Refused { message: format!("{error:#}") })?;
            context.output.either(&json!({ "token": token }), || format!("{token}\n"))
        }
        Command::Listen(args) => listen::run(args, context).await,
    }
}

fn make(args: &TokenArgs) -> anyhow::Result<String> {
    let key = SigningKey::read(&args.jwks, args.kid.as_deref())?;
    let claims = Claims {
        issuer: args.issuer.as_deref(),
        audience: args.audience.as_deref(),
        ..Claims::of(&args.user, args.ttl)
    };
    key.token(&claims)
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    match parse_span(text)? {
        Duration::ZERO => Err("a token that is valid for no time is none: give 1s or more".to_owned()),
        span => Ok(span),
    }
}

/// Where clients connect to a sender of ours.
pub(crate) fn live_url(sender: &Process) -> anyhow::Result<String> {
    sender.live_url().with_context(|| format!("{} has no live port", sender.name()))
}
