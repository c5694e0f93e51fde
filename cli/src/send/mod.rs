//! `bongsu send`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bongsu_proto::v1;
use bongsu_proto::v1::create_broadcast_request::Expiry;
use serde_json::json;

use crate::Context;
use crate::error::Failure;
use crate::output::Output;
use crate::status::follow;
use crate::times::{parse_span, parse_time};
use crate::view::{
    BroadcastView, PreflightView, SentView, audience, broadcast_details, broadcast_state, preflight_text,
};
use crate::words;

mod audience_args;
mod create;
mod file;
pub mod start_args;

use audience_args::AudienceArgs;
use create::create;
use start_args::StartArgs;

/// One of these says whom it is for.
const SOURCES: [&str; 6] = ["file", "to_everyone", "topics", "users", "users_file", "devices"];

/// Send a broadcast
///
/// Sending again with the same --key is harmless: the same broadcast is answered, and nobody is notified twice.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").args(SOURCES).required(true).multiple(true))]
pub struct Args {
    /// The whole request as JSON or TOML, with the names of CreateBroadcastRequest (docs/api.md); - for stdin. Options beside
    /// it win
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,

    #[command(flatten)]
    audience: AudienceArgs,

    /// Title of the notification
    #[arg(long, help_heading = "Message")]
    title: Option<String>,

    /// Text of the notification
    #[arg(long, help_heading = "Message")]
    body: Option<String>,

    /// A pair for the app, handed over as it is, beside those of --file; repeat for several
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair, help_heading = "Message")]
    data: Vec<(String, String)>,

    /// Idempotency key: one for each announcement, such as newsletter-2026-11-29 [default: a new UUID, told on stderr]
    #[arg(long)]
    key: Option<String>,

    #[command(flatten)]
    start: StartArgs,

    /// How long it is worth sending from its start, such as 1h30m [default: 24h]
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

    /// Which way it goes: to devices (push), to inboxes and live streams of users (live), or both
    /// [default: push]
    #[arg(long, value_parser = words::parser::<v1::Routing>())]
    routing: Option<v1::Routing>,

    /// How long a user who is connected has to acknowledge it before the push goes out, with --routing live_then_push; 1s to 1h
    /// [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    ack_timeout: Option<Duration>,

    /// Calls within any second at most, of all senders together [default: as many as can be made]
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(i32).range(1..=1_000_000))]
    max_rate: Option<i32>,

    /// Have everything checked, and send nothing: shows whom it would reach, how long that would take, and what stands in the way
    #[arg(long, visible_alias = "dry-run", conflicts_with = "watch")]
    validate_only: bool,

    /// Follow it to its end, like `bongsu status --watch`
    #[arg(long, short)]
    watch: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let watch = args.watch;
    let mut request = request(args)?;
    let validate_only = request.validate_only;
    if watch && validate_only {
        let message = "the file says validate_only, which sends nothing to --watch: leave one of them out";
        return Err(Failure::Refused { message: message.to_owned() });
    }
    let key_made = make_key(&mut request);
    let client = context.servers.intake().await?;
    if key_made && !validate_only {
        // Before the call: whatever happens to us or to the answer, the call can be repeated.
        let key = &request.idempotency_key;
        output.note_with(
            &format!("idempotency key: {key} (to ask again: --key {key})"),
            json!({ "idempotency_key": key }),
        );
    }
    let answer = create(&client, &request, output).await?;
    print(&answer, validate_only, output)?;
    let id = answer.broadcast.unwrap_or_default().id;
    if watch { follow(id, context).await } else { Ok(()) }
}

/// The request of the file, or an empty one, and over it what the command line says. Without a key where neither has one.
fn request(args: Args) -> Result<v1::CreateBroadcastRequest, Failure> {
    if args.file.as_deref() == Some(Path::new("-")) && args.audience.reads_stdin() {
        return Err(anyhow::anyhow!("--file and --users-file cannot both be read from stdin").into());
    }
    let mut request = match &args.file {
        Some(path) => file::read(path)?,
        None => v1::CreateBroadcastRequest::default(),
    };
    if let Some(audience) = args.audience.into_audience()? {
        request.audience = Some(audience);
    }
    request.title = args.title.unwrap_or(request.title);
    request.body = args.body.unwrap_or(request.body);
    request.data.extend(args.data);
    request.idempotency_key = args.key.unwrap_or(request.idempotency_key);
    request.priority = args.priority.map_or(request.priority, |priority| priority as i32);
    request.guarantee = args.guarantee.map_or(request.guarantee, |guarantee| guarantee as i32);
    request.routing = args.routing.map_or(request.routing, |routing| routing as i32);
    request.ack_timeout = args.ack_timeout.map(duration).or(request.ack_timeout);
    if let Some(ttl) = args.ttl {
        request.expiry = Some(Expiry::Ttl(duration(ttl)));
    } else if let Some(time) = args.expires_at {
        request.expiry = Some(Expiry::ExpireTime(time));
    }
    request.schedule_time = args.start.time().or(request.schedule_time);
    request.max_rate_per_second = args.max_rate.unwrap_or(request.max_rate_per_second);
    request.validate_only |= args.validate_only;
    Ok(request)
}

fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: span.as_secs().try_into().unwrap_or(i64::MAX), nanos: 0 }
}

/// Gives a request without a key one of its own; returns whether it did.
fn make_key(request: &mut v1::CreateBroadcastRequest) -> bool {
    let missing = request.idempotency_key.is_empty();
    if missing {
        request.idempotency_key = uuid::Uuid::new_v4().to_string();
    }
    missing
}

fn print(answer: &v1::CreateBroadcastResponse, validate_only: bool, output: Output) -> Result<(), Failure> {
    let (broadcast, replayed) = (&answer.broadcast.clone().unwrap_or_default(), answer.replayed);
    if output.json {
        return output.object(&SentView {
            broadcast: BroadcastView::from(broadcast),
            replayed,
            validate_only,
            preflight: answer.preflight.as_ref().map(PreflightView::from),
        });
    }
    if validate_only {
        output.note("valid; nothing was stored, nothing will be sent");
        let preflight = answer.preflight.as_ref().map(|preflight| format!("\n{}", preflight_text(preflight)));
        return output.data(&(broadcast_details(broadcast) + &preflight.unwrap_or_default()));
    }
    if replayed {
        output.note("this key was accepted before, with the same content: here is that broadcast, nothing is sent twice");
    }
    let audience = audience(broadcast.audience.as_ref());
    let state = broadcast_state(broadcast).replace('_', " ");
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
            parsed(&[&line[..], &["--ttl", "1h", "--priority", "high", "--max-rate", "50"]].concat())
                .expect("a good line");
        assert_eq!((request.routing, request.ack_timeout), (0, None));
        let live = parsed(&["--to-everyone", "--routing", "live-then-push", "--ack-timeout", "30s"]);
        let live = live.expect("a good line");
        assert_eq!(live.routing, v1::Routing::LiveThenPush as i32);
        assert_eq!(live.ack_timeout, Some(prost_types::Duration { seconds: 30, nanos: 0 }));
        assert_eq!(
            (request.title.as_str(), request.body.as_str(), request.idempotency_key.as_str()),
            ("T", "B", "K")
        );
        assert_eq!(request.data.into_iter().collect::<Vec<_>>(), [("k".to_owned(), "v".to_owned())]);
        assert_eq!((request.priority, request.max_rate_per_second), (v1::Priority::High as i32, 50));
        assert_eq!(request.expiry, Some(Expiry::Ttl(prost_types::Duration { seconds: 3600, nanos: 0 })));
        let topics = v1::TopicAudience { topics: vec!["a".into(), "b".into()] };
        assert_eq!(request.audience, Some(v1::Audience { kind: Some(v1::audience::Kind::Topics(topics)) }));
    }

    #[test]
    fn a_start_is_a_moment_or_so_far_ahead() {
        let start = |line: &[&str]| parsed(line).expect("a good line").schedule_time;
        assert_eq!(start(&["--to-everyone"]), None);
        let at = start(&["--to-everyone", "--at", "2026-11-29T18:00:00+09:00"]).expect("a time");
        assert_eq!(at.seconds, 1_795_942_800);
        let before = time::OffsetDateTime::now_utc().unix_timestamp();
        let later = start(&["--to-everyone", "--in", "2h"]).expect("a time").seconds;
        assert!((before + 7_200..before + 7_260).contains(&later), "{later}");
    }

    #[test]
    fn a_key_is_made_where_none_is_given() {
        let made = [(); 2].map(|()| {
            let mut request = parsed(&["--to-everyone"]).expect("a good line");
            assert!(make_key(&mut request));
            request.idempotency_key
        });
        assert_ne!(made[0], made[1]);
        let mut given = parsed(&["--to-everyone", "--key", "K"]).expect("a good line");
        assert!(!make_key(&mut given) && given.idempotency_key == "K");
    }

    #[test]
    fn options_win_over_the_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text = r#"{"idempotency_key": "k", "title": "T", "body": "B", "data": {"a": "1", "b": "2"},
                       "audience": {"everyone": {}}, "ttl": "1h", "priority": "low"}"#;
        std::fs::write(file.path(), text).expect("it can be written");
        let path = file.path().to_str().expect("UTF-8");
        let alone = parsed(&["--file", path]).expect("a good file");
        assert_eq!((alone.idempotency_key.as_str(), alone.title.as_str()), ("k", "T"));
        let line = [
            "--file",
            path,
            "--title",
            "Other",
            "--data",
            "b=3",
            "--topic",
            "t",
            "--key",
            "K",
            "--priority",
            "high",
        ];
        let both = parsed(&line).expect("a good line");
        assert_eq!(
            (both.idempotency_key.as_str(), both.title.as_str(), both.body.as_str()),
            ("K", "Other", "B")
        );
        assert_eq!(both.data.values().collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!(both.priority, v1::Priority::High as i32);
        assert_eq!(both.expiry, alone.expiry);
        let topics = v1::TopicAudience { topics: vec!["t".into()] };
        assert_eq!(both.audience, Some(v1::Audience { kind: Some(v1::audience::Kind::Topics(topics)) }));
        let stdin_twice = parsed(&["--file", "-", "--users-file", "-"]).expect_err("one stdin");
        assert!(stdin_twice.contains("stdin"), "{stdin_twice}");
    }

    #[test]
    fn there_is_one_audience_and_one_expiry() {
        for line in [
            &["--title", "x"][..],
            &["--to-everyone", "--topic", "a"],
            &["--user", "u", "--device", "1"],
            &["--to-everyone", "--ttl", "1h", "--expires-at", "2026-11-29T00:00:00Z"],
            &["--to-everyone", "--validate-only", "--watch"],
            &["--to-everyone", "--at", "2026-11-29T00:00:00Z", "--in", "1h"],
            &["--to-everyone", "--max-rate", "0"],
        ] {
            parsed(line).expect_err(&line.join(" "));
        }
    }
}
