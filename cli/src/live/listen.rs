//! `bongsu live listen`.

use std::path::PathBuf;
use std::time::Duration;

use bongsu_ops::shutdown;
use serde_json::json;

use super::client::{Client, Happened};
use super::network::{Network, Problem};
use super::notification::Notification;
use super::token::{Claims, SigningKey};
use crate::Context;
use crate::client::Address;
use crate::error::Failure;
use crate::output::Output;
use crate::table::printable;

const DEFAULT_LIVE: &str = "http://127.0.0.1:7090";
/// How long a token for --user is good for: longer than anybody looks on.
const TOKEN_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Print a user's notifications as they come
///
/// A client of the live channel like a user's own: it begins with what no client of the user has acknowledged, comes back
/// after a break where it was, and prints each notification once. What happens to the connection is told on stderr. Ends with
/// Ctrl-C, or where the token is refused.
#[derive(Clone, clap::Args)]
pub struct Args {
    /// Where sender-svc listens for live connections; given more than once, another one is asked where one is gone
    #[arg(long, env = "BONGSU_LIVE", value_name = "URL", value_delimiter = ',', default_value = DEFAULT_LIVE)]
    live: Vec<Address>,

    /// The user's JSON Web Token; better in the environment, since a command line can be read by every user of the host
    #[arg(long, env = "BONGSU_USER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// Instead of a token: the user, for whom one is made with the key of --jwks
    #[arg(long, value_name = "USER", requires = "jwks")]
    user: Option<String>,

    /// The file that `bongsu live key` made
    #[arg(long, env = "BONGSU_LIVE_JWKS", value_name = "FILE")]
    jwks: Option<PathBuf>,

    /// Acknowledge each notification: with the routing `live_then_push` no push goes out then
    #[arg(long)]
    acknowledge: bool,
}

// Not the token.
impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Args").field("live", &self.live).field("acknowledge", &self.acknowledge).finish()
    }
}

impl Args {
    fn token(&self) -> Result<String, Failure> {
        let made = |message: String| Failure::Refused { message };
        match (&self.user, &self.jwks, &self.token) {
            (Some(user), Some(jwks), _) => SigningKey::read(jwks, None)
                .and_then(|key| key.token(&Claims::of(user, TOKEN_TTL)))
                .map_err(|error| made(format!("{error:#}"))),
            (_, _, Some(token)) => Ok(token.clone()),
            _ => Err(made(
                "who is listening? give --user and --jwks, or --token (BONGSU_USER_TOKEN)".to_owned(),
            )),
        }
    }
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if let Some(exposed) = args.live.iter().find(|address| address.is_exposed()) {
        let message = format!(
            "the token would go to {exposed} unencrypted, for everybody on the way to read: give an https:// address"
        );
        return Err(Failure::Refused { message });
    }
    let token = args.token()?;
    let ca = context.servers.ca_pem()?;
    let addresses = args.live.iter().map(ToString::to_string).collect();
    let network = Network::new(addresses, context.servers.timeout, ca.as_deref())?;
    let listening = listen(Client::new(network, token), args.acknowledge, context.output);
    match shutdown::on_signals().run_until_cancelled(listening).await {
        Some(ended) => ended,
        None => Ok(()), // as it was told
    }
}

async fn listen(mut client: Client, acknowledge: bool, output: Output) -> Result<(), Failure> {
    loop {
        match client.next().await.map_err(|problem| refused(&problem))? {
            Happened::Connected { address } => output.note(&format!("connected to {address}")),
            Happened::Notification { notification, again } => {
                if !again {
                    output.either(&notification, || line(&notification))?;
                }
                if acknowledge && let Some(id) = notification.id() {
                    let acknowledged = client.acknowledger().acknowledge(&[id]).await;
                    if let Err(problem) = acknowledged {
                        output.note(&format!("notification {id} could not be acknowledged: {problem}"));
                    }
                }
            }
            Happened::Gap { reason } => {
                output.note_with(
                    &format!("some notifications are missing here: {}", printable(&reason)),
                    json!({ "gap": reason }),
                );
            }
            Happened::SentAway { after } => {
                output.note(&format!("the server is stopping; coming back in {}", seconds(after)));
            }
            Happened::Lost { because, after } => {
                output.note(&format!("not connected ({because}); trying again in {}", seconds(after)));
            }
        }
    }
}

fn refused(problem: &Problem) -> Failure {
    Failure::Refused { message: format!("{problem}: `bongsu live token` makes one for a user") }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn line(notification: &Notification) -> String {
    let Notification { notification_id, create_time, title, body, .. } = notification;
    let time = create_time.as_deref().unwrap_or_default();
    format!(
        "{}  {}  {}  {}\n",
        printable(time),
        printable(notification_id),
        printable(title),
        printable(body)
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        Line::parse_from([&["listen"], words].concat()).args
    }

    #[test]
    fn a_user_is_whom_the_token_says_and_the_token_is_not_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let jwks = directory.path().join("keys.json").display().to_string();
        let key = SigningKey::fresh(None).expect("random bytes");
        std::fs::write(&jwks, key.jwks().to_string()).expect("written");
        let made = args(&["--user", "minji", "--jwks", &jwks]).token().expect("made");
        assert_eq!(made.split('.').count(), 3, "a JSON Web Token");
        let given = args(&["--token", "a.secret.token"]);
        assert_eq!(given.token().expect("given"), "a.secret.token");
        assert!(!format!("{given:?}").contains("secret"), "{given:?}");
        assert!(Line::try_parse_from(["listen", "--user", "minji"]).is_err(), "a token is made with a key");
        assert!(args(&[]).token().expect_err("nobody").message().contains("--user"));
    }

    #[test]
    fn what_a_notification_says_cannot_move_the_cursor() {
        let json =
            "{\"event_id\":\"7-1\",\"notification_id\":\"41\",\"title\":\"a\\u001b[2J\",\"body\":\"b\\nc\"}";
        let notification: Notification = serde_json::from_str(json).expect("a notification");
        let line = line(&notification);
        assert!(line.ends_with('\n') && line.trim_end().chars().all(|c| !c.is_control()), "{line:?}");
        assert!(!format!("{notification:?}").contains("2J"), "a log must not have it");
    }
}
