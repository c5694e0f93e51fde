//! `bongsu broadcasts list|get|reschedule`, and `bongsu pause|resume|cancel`.

use bongsu_proto::v1;
use bongsu_proto::v1::reschedule_broadcast_request::Start;

use crate::Context;
use crate::error::Failure;
use crate::pages::{Limit, walk};
use crate::send::start_args::StartArgs;
use crate::table::Table;
use crate::view::{BroadcastView, broadcast_columns, broadcast_details, broadcast_row};
use crate::words;
use crate::words::parse_id;

/// Broadcasts in a page: their bodies make them large.
const PAGE: i32 = 100;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    List(ListArgs),
    /// One broadcast with all its fields
    Get(Id),
    /// Stop the calls of a broadcast until it is resumed
    Pause(Id),
    /// Go on with a paused broadcast
    Resume(Id),
    /// Stop a broadcast for good
    Cancel(Id),
    Reschedule(RescheduleArgs),
}

/// Broadcasts, newest first
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only those in this state; repeat for several
    #[arg(long = "state", value_name = "STATE", value_parser = words::parser::<v1::BroadcastState>())]
    states: Vec<v1::BroadcastState>,

    #[command(flatten)]
    limit: Limit,
}

/// Which broadcast
#[derive(Debug, clap::Args)]
pub struct Id {
    /// Id of the broadcast
    #[arg(value_name = "BROADCAST", value_parser = parse_id)]
    id: i64,
}

/// Have a scheduled broadcast start at another time, or now
///
/// What expires so long after its start, which is the default, expires later or earlier by as much.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("start").args(["at", "in_span", "now"]).required(true))]
pub struct RescheduleArgs {
    #[command(flatten)]
    id: Id,

    #[command(flatten)]
    start: StartArgs,

    /// Start at once
    #[arg(long)]
    now: bool,
}

pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Get(id) => get(id, context).await,
        Command::Pause(id) => pause(id, context).await,
        Command::Resume(id) => resume(id, context).await,
        Command::Cancel(id) => cancel(id, context).await,
        Command::Reschedule(args) => reschedule(&args, context).await,
    }
}

async fn list(args: ListArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let output = context.output;
    let states: Vec<i32> = args.states.iter().map(|state| *state as i32).collect();
    let fetch = async |page_size, page_token| {
        let request = v1::ListBroadcastsRequest { states: states.clone(), page_size, page_token };
        let page = client.call("list broadcasts", client.broadcasts().list_broadcasts(request)).await?;
        Ok((page.broadcasts, page.next_page_token))
    };
    let mut table = Table::new(&broadcast_columns());
    let print = |broadcasts: Vec<v1::Broadcast>| {
        if output.json {
            return broadcasts
                .iter()
                .try_for_each(|broadcast| output.object(&BroadcastView::from(broadcast)));
        }
        output.data(&table.page(broadcasts.iter().map(broadcast_row).collect()))
    };
    walk(output, &args.limit, PAGE, fetch, print).await
}

async fn get(Id { id }: Id, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::GetBroadcastRequest { broadcast_id: id };
    let answer = client.call("get the broadcast", client.broadcasts().get_broadcast(request)).await?;
    print(&answer.broadcast.unwrap_or_default(), context)
}

pub async fn pause(Id { id }: Id, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::PauseBroadcastRequest { broadcast_id: id };
    let answer = client.call("pause the broadcast", client.broadcasts().pause_broadcast(request)).await?;
    print(&answer.broadcast.unwrap_or_default(), context)
}

pub async fn resume(Id { id }: Id, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::ResumeBroadcastRequest { broadcast_id: id };
    let answer = client.call("resume the broadcast", client.broadcasts().resume_broadcast(request)).await?;
    print(&answer.broadcast.unwrap_or_default(), context)
}

pub async fn cancel(Id { id }: Id, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::CancelBroadcastRequest { broadcast_id: id };
    let answer = client.call("cancel the broadcast", client.broadcasts().cancel_broadcast(request)).await?;
    print(&answer.broadcast.unwrap_or_default(), context)
}

async fn reschedule(args: &RescheduleArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let start = args.start.time().map_or(Start::Now(args.now), Start::ScheduleTime);
    let request = v1::RescheduleBroadcastRequest { broadcast_id: args.id.id, start: Some(start) };
    let call = async { client.broadcasts().reschedule_broadcast(request).await };
    let answer = client.call("reschedule the broadcast", call).await?;
    print(&answer.broadcast.unwrap_or_default(), context)
}

fn print(broadcast: &v1::Broadcast, context: &Context) -> Result<(), Failure> {
    context.output.either(&BroadcastView::from(broadcast), || broadcast_details(broadcast))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::Cli;

    #[test]
    fn a_new_start_is_asked_for_in_exactly_one_way() {
        let parse = |line: &[&str]| {
            Cli::try_parse_from([&["bongsu", "broadcasts", "reschedule", "7"], line].concat()).map(|_| ())
        };
        for line in [&["--at", "2026-11-29T18:00:00Z"][..], &["--in", "2h"], &["--now"]] {
            parse(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        }
        for line in [&[][..], &["--now", "--in", "2h"], &["--at", "2026-11-29T18:00:00Z", "--in", "2h"]] {
            parse(line).expect_err("a forgotten or a second start");
        }
    }
}
