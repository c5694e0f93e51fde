//! `bongsu send`.

use std::time::Duration;

use bongsu_proto::v1;
use bongsu_proto::v1::create_broadcast_request::Expiry;
use serde_json::json;

use crate::Context;
use crate::client::Client;
use crate::error::Failure;
use crate::output::Output;
use crate::status::follow;
use crate::times::{parse_span, parse_time};
use crate::view::{BroadcastView, SentView, audience, broadcast_details};
use crate::words;

mod audience_args;

use audience_args::AudienceArgs;

/// How often the call is made at most.
const MAX_CALLS: u32 = 5;
/// The wait before the second call; doubled for each further one.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The longest wait a server may ask for.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Send a broadcast
///
/// Sending again with the same --key is harmless: the same broadcast is answered, and nobody is notified twice.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    audience: AudienceArgs,

    /// Title of the notification
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "Message")]
    title: String,

    /// Text of the notification
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "Message")]
    body: String,

    /// A pair for the app, handed over as it is; repeat for several
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair, help_heading = "Message")]
    data: Vec<(String, String)>,

    /// Idempotency key: one for each announcement, such as newsletter-2026-11-29 [default: a new UUID, told on stderr]
    #[arg(long)]
    key: Option<String>,

    /// How long it is worth sending, such as 1h30m [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "expires_at")]
    ttl: Option<Duration>,

    /// Until when it is worth sending
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    expires_at: Option<prost_types::Timestamp>,

    /// Share of the senders' capacity while others wait, too [default: normal]
    #[arg(long, value_parser = words::parser::<v1::Priority>())]
    priority: Option<v1::Priority>,

    /// What becomes of a delivery of which nobody knows whether the provider took it: called again, or left unconfirmed
    /// [default: at_least_once]
    #[arg(long, value_parser = words::parser::<v1::Guarantee>())]
    guarantee: Option<v1::Guarantee>,

    /// Have everything checked, and send nothing
    #[arg(long, conflicts_with = "watch")]
    validate_only: bool,

    /// Follow it to its end, like `bongsu status --watch`
    #[arg(long, short)]
    watch: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let (validate_only, watch) = (args.validate_only, args.watch);
    let (key_given, request) = (args.key.is_some(), request(args)?);
    let client = context.servers.intake().await?;
    if !key_given && !validate_only {
        // Before the call: whatever happens to us or to the answer, the call can be repeated.
        let key = &request.idempotency_key;
        output.note_with(
            &format!("idempotency key: {key} (to ask again: --key {key})"),
            json!({ "idempotency_key": key }),
        );
    }
    let answer = create(&client, &request, output).await?;
    let broadcast = answer.broadcast.unwrap_or_default();
    print(&broadcast, answer.replayed, validate_only, output)?;
    if watch { follow(broadcast.id, context).await } else { Ok(()) }
}

fn request(args: Args) -> Result<v1::CreateBroadcastRequest, Failure> {
    let expiry = match (args.ttl, args.expires_at) {
        (Some(ttl), _) => Some(Expiry::Ttl(prost_types::Duration {
            seconds: ttl.as_secs().try_into().unwrap_or(i64::MAX),
            nanos: 0,
        })),
        (None, Some(time)) => Some(Expiry::ExpireTime(time)),
        (None, None) => None,
    };
    Ok(v1::CreateBroadcastRequest {
        idempotency_key: args.key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        title: args.title,
        body: args.body,
        data: args.data.into_iter().collect(),
        audience: Some(args.audience.into_audience()?),
        priority: args.priority.unwrap_or_default() as i32,
        guarantee: args.guarantee.unwrap_or_default() as i32,
        expiry,
        validate_only: args.validate_only,
    })
}

/// Calls until there is an answer. Every call carries the same key, so one whose answer was lost does no harm.
async fn create(
    client: &Client,
    request: &v1::CreateBroadcastRequest,
    output: Output,
) -> Result<v1::CreateBroadcastResponse, Failure> {
    let mut delay = FIRST_RETRY_DELAY;
    for calls in 1.. {
        let call = async { client.broadcasts().create_broadcast(request.clone()).await };
        let failure = match client.call("accept the broadcast", call).await {
            Err(failure) if failure.is_unavailable() && calls < MAX_CALLS => failure,
            answer => return answer,
        };
        let wait = failure.retry_delay().map_or(delay, |asked| asked.clamp(delay, MAX_RETRY_DELAY));
        output.note(&format!(
            "{}; asking again with the same key in {} s (call {} of {MAX_CALLS})",
            failure.message(),
            wait.as_secs_f64(),
            calls + 1
        ));
        tokio::time::sleep(wait).await;
        delay = (delay * 2).min(MAX_RETRY_DELAY);
    }
    unreachable!("the last call returns")
}

fn print(
    broadcast: &v1::Broadcast,
    replayed: bool,
    validate_only: bool,
    output: Output,
) -> Result<(), Failure> {
    if output.json {
        return output.object(&SentView {
            broadcast: BroadcastView::from(broadcast),
            replayed,
            validate_only,
        });
    }
    if validate_only {
        output.note("valid; nothing was stored, nothing will be sent");
        return output.data(&broadcast_details(broadcast));
    }
    if replayed {
        output.note("this key was accepted before, with the same content: here is that broadcast, nothing is sent twice");
    }
    let audience = audience(broadcast.audience.as_ref());
    let state = words::word::<v1::BroadcastState>(broadcast.state).replace('_', " ");
    output.data(&format!("broadcast {} for {audience} is {state}\n", broadcast.id))
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE, such as url=https://example.com/news".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{Cli, Command};

    fn parsed(line: &[&str]) -> Result<v1::CreateBroadcastRequest, String> {
        let cli =
            Cli::try_parse_from([&["bongsu", "send"], line].concat()).map_err(|error| error.to_string())?;
        match cli.command {
            Command::Send(args) => request(args).map_err(|failure| failure.message()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_pair_is_split_at_its_first_equals_sign() {
        assert_eq!(parse_pair("url=https://x/?a=b"), Ok(("url".into(), "https://x/?a=b".into())));
        assert_eq!(parse_pair("empty="), Ok(("empty".into(), String::new())));
        for text in ["", "key", "=value"] {
            parse_pair(text).expect_err(text);
        }
    }

    #[test]
    fn every_argument_reaches_its_field() {
        let line =
            ["--topic", "a", "--topic", "b", "--title", "T", "--body", "B", "--data", "k=v", "--key", "K"];
        let request =
            parsed(&[&line[..], &["--ttl", "1h", "--priority", "high"]].concat()).expect("a good line");
        assert_eq!(
            (request.title.as_str(), request.body.as_str(), request.idempotency_key.as_str()),
            ("T", "B", "K")
        );
        assert_eq!(request.data.into_iter().collect::<Vec<_>>(), [("k".to_owned(), "v".to_owned())]);
        assert_eq!(request.priority, v1::Priority::High as i32);
        assert_eq!(request.expiry, Some(Expiry::Ttl(prost_types::Duration { seconds: 3600, nanos: 0 })));
        let topics = v1::TopicAudience { topics: vec!["a".into(), "b".into()] };
        assert_eq!(request.audience, Some(v1::Audience { kind: Some(v1::audience::Kind::Topics(topics)) }));
    }

    #[test]
    fn a_key_is_made_where_none_is_given() {
        let made = [(); 2].map(|()| parsed(&["--to-everyone"]).expect("a good line").idempotency_key);
        assert_ne!(made[0], made[1]);
        assert_eq!(made[0].len(), 36);
    }

    #[test]
    fn there_is_one_audience_and_one_expiry() {
        for line in [
            &["--title", "x"][..],
            &["--to-everyone", "--topic", "a"],
            &["--user", "u", "--device", "1"],
            &["--to-everyone", "--ttl", "1h", "--expires-at", "2026-11-29T00:00:00Z"],
            &["--to-everyone", "--validate-only", "--watch"],
        ] {
            parsed(line).expect_err(&line.join(" "));
        }
    }
}
