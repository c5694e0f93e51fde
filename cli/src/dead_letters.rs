//! `bongsu dead-letters list|replay|purge`.

use std::time::Duration;

use bongsu_proto::v1;
use serde_json::json;

use crate::Context;
use crate::error::Failure;
use crate::pages::{Limit, walk};
use crate::status::follow;
use crate::table::{Table, number};
use crate::times::{parse_span, parse_time};
use crate::view::{DeadLetterView, dead_letter_columns, dead_letter_row};
use crate::words;
use crate::words::parse_id;

/// Dead letters in a page: the most the API gives.
const PAGE: i32 = 1_000;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    List(ListArgs),
    Replay(ReplayArgs),
    Purge(PurgeArgs),
}

/// Deliveries that will not be tried again, newest broadcast first; with --json all of them, a line each
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only those of this broadcast
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    broadcast: Option<i64>,

    /// Only those that died of this; repeat for several
    #[arg(long = "reason", value_name = "REASON", value_parser = words::parser::<v1::DeadReason>())]
    reasons: Vec<v1::DeadReason>,

    /// Only those whose last attempt ended with exactly this code: an HTTP status, "timeout", …
    #[arg(long, value_name = "CODE")]
    code: Option<String>,

    /// Only those of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Not those before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    from: Option<prost_types::Timestamp>,

    /// Only those before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    to: Option<prost_types::Timestamp>,

    /// How many to show at most; 0: all [default: 100, with --json all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Send dead letters again, as a broadcast of its own with the same message
///
/// Each is taken up by one replay, and by a further one only where that ended without calling it; sending again with the same
/// --key is harmless. Devices that are retired, or
/// without consent by now, are left out; --dry-run tells how many.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// Whose dead letters
    #[arg(value_name = "BROADCAST", value_parser = parse_id)]
    broadcast: i64,

    /// Only those that died of this; repeat for several [default: all but unconfirmed, which a provider may have accepted]
    #[arg(long = "reason", value_name = "REASON", value_parser = words::parser::<v1::DeadReason>())]
    reasons: Vec<v1::DeadReason>,

    /// Only those whose last attempt ended with exactly this code: an HTTP status, "timeout", …
    #[arg(long, value_name = "CODE")]
    code: Option<String>,

    /// Only those of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Only those of these devices, 10000 at most
    #[arg(long = "device", value_name = "ID", num_args = 1.., value_parser = parse_id,
          conflicts_with_all = ["reasons", "code", "provider", "from", "to"])]
    devices: Vec<i64>,

    /// Only what died not before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    from: Option<prost_types::Timestamp>,

    /// Only what died before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    to: Option<prost_types::Timestamp>,

    /// Calls within a second at most, by all senders together [default: no limit but the provider's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    max_rate: Option<i32>,

    /// Idempotency key of the replay [default: a new UUID, told on stderr]
    #[arg(long)]
    key: Option<String>,

    /// How long it is worth sending, such as 1h30m [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    ttl: Option<Duration>,

    /// Tell how many there are, and how many would be left out and why; send nothing
    #[arg(long, alias = "validate-only", conflicts_with = "watch")]
    dry_run: bool,

    /// Follow it to its end, like `bongsu status --watch`
    #[arg(long, short)]
    watch: bool,
}

/// Delete dead letters: those of a broadcast, or what died before a time
///
/// They can then be neither listed nor replayed. Counts and deliveries stay as they are. Without this they go with their
/// broadcast, after --history-days.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true).args(["broadcast", "before"])))]
pub struct PurgeArgs {
    /// Only those of this broadcast
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    broadcast: Option<i64>,

    /// Only what died before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    before: Option<prost_types::Timestamp>,

    /// Only what died not before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    from: Option<prost_types::Timestamp>,

    /// Only those that died of this; repeat for several
    #[arg(long = "reason", value_name = "REASON", value_parser = words::parser::<v1::DeadReason>())]
    reasons: Vec<v1::DeadReason>,

    /// Only those whose last attempt ended with exactly this code: an HTTP status, "timeout", …
    #[arg(long, value_name = "CODE")]
    code: Option<String>,

    /// Only those of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Tell how many there are, and delete nothing
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Replay(args) => replay(args, context).await,
        Command::Purge(args) => purge(args, context).await,
    }
}

async fn replay(args: ReplayArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let output = context.output;
    let key = args.key.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    if args.key.is_none() && !args.dry_run {
        // Before the call: whatever happens to us or to the answer, the call can be repeated.
        let note = format!("idempotency key: {key} (to ask again: --key {key})");
        output.note_with(&note, json!({ "idempotency_key": key }));
    }
    let request = v1::ReplayDeadLettersRequest {
        replay_id: key,
        broadcast_id: args.broadcast,
        reasons: args.reasons.iter().map(|reason| *reason as i32).collect(),
        code: args.code.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        ttl: args.ttl.map(|ttl| prost_types::Duration {
            seconds: ttl.as_secs().try_into().unwrap_or(i64::MAX),
            nanos: 0,
        }),
        validate_only: args.dry_run,
        device_ids: args.devices,
        from_time: args.from,
        to_time: args.to,
        max_rate_per_second: args.max_rate.unwrap_or_default(),
    };
    let answer = client.call("replay dead letters", client.deliveries().replay_dead_letters(request)).await?;
    if args.dry_run {
        return dry_run(&answer, context);
    }
    let id = answer.broadcast_id;
    let again = if answer.replayed { "was asked for before: it" } else { "of its dead letters" };
    let text = format!("the replay {again} is broadcast {id}  (bongsu status {id} --watch)\n");
    output.either(&json!({ "broadcast_id": id.to_string(), "replayed": answer.replayed }), || text)?;
    if args.watch { follow(id, context).await } else { Ok(()) }
}

/// Goes on until the server has looked at all: a call does what it can in some seconds.
async fn purge(args: PurgeArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let mut request = v1::PurgeDeadLettersRequest {
        broadcast_id: args.broadcast.unwrap_or_default(),
        reasons: args.reasons.iter().map(|reason| *reason as i32).collect(),
        code: args.code.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        from_time: args.from,
        to_time: args.before,
        validate_only: args.dry_run,
        page_token: String::new(),
    };
    let (mut purged, mut matching) = (0, 0);
    let mut deliveries = client.deliveries();
    loop {
        let call = deliveries.purge_dead_letters(request.clone());
        let answer = client.call("purge dead letters", call).await.inspect_err(|_| {
            if purged > 0 {
                context.output.note(&format!("{} were deleted before", number(purged)));
            }
        })?;
        purged += answer.purged;
        matching += answer.matching;
        if answer.next_page_token.is_empty() {
            break;
        }
        request.page_token = answer.next_page_token;
    }
    let object = json!({ "purged": purged, "matching": matching });
    context.output.either(&object, || match args.dry_run {
        true => format!("{} would be deleted\n", number(matching)),
        false => format!("{} were deleted\n", number(purged)),
    })
}

/// What a replay would send, and what it would not.
fn dry_run(answer: &v1::ReplayDeadLettersResponse, context: &Context) -> Result<(), Failure> {
    let (matching, partial) = (answer.matching, answer.partial);
    let left = answer.excluded.unwrap_or_default();
    let reasons = [
        ("taken_up", left.taken_up, "taken up by a replay"),
        ("unconfirmed", left.unconfirmed, "unconfirmed: name that reason to send them all the same"),
        ("retired", left.retired, "device retired or quarantined"),
        ("without_consent", left.without_consent, "consent withdrawn"),
        ("unknown", left.unknown, "device without a dead letter of this broadcast"),
    ];
    let excluded: serde_json::Map<_, _> =
        reasons.iter().map(|(name, n, _)| ((*name).to_owned(), json!(n))).collect();
    let object = json!({ "matching": matching, "excluded": excluded, "partial": partial });
    context.output.either(&object, || {
        let mut text = format!("{} would be sent again\n", number(matching));
        for (_, n, why) in reasons.iter().filter(|(_, n, _)| *n > 0) {
            text += &format!("{} would not: {why}\n", number(*n));
        }
        if partial {
            text += "there are more: this is as far as a dry run looks\n";
        }
        text
    })
}

async fn list(args: ListArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let output = context.output;
    let filter = v1::ListDeadLettersRequest {
        broadcast_id: args.broadcast.unwrap_or_default(),
        reasons: args.reasons.iter().map(|reason| *reason as i32).collect(),
        code: args.code.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        from_time: args.from,
        to_time: args.to,
        ..Default::default()
    };
    let fetch = async |page_size, page_token| {
        let request = v1::ListDeadLettersRequest { page_size, page_token, ..filter.clone() };
        let page = client.call("list dead letters", client.deliveries().list_dead_letters(request)).await?;
        Ok((page.dead_letters, page.next_page_token))
    };
    let mut table = Table::new(&dead_letter_columns());
    let print = |letters: Vec<v1::DeadLetter>| {
        if output.json {
            return letters.iter().try_for_each(|letter| output.object(&DeadLetterView::from(letter)));
        }
        output.data(&table.page(letters.iter().map(dead_letter_row).collect()))
    };
    // For people a screen full; a program that is not told of a limit wants them all.
    let limit = Limit { limit: args.limit.unwrap_or(if output.json { 0 } else { 100 }) };
    walk(output, &limit, PAGE, fetch, print).await
}
