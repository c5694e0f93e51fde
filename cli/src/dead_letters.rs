//! `bongsu dead-letters list`.

use bongsu_proto::v1;

use crate::Context;
use crate::error::Failure;
use crate::pages::{Limit, walk};
use crate::table::Table;
use crate::times::parse_time;
use crate::view::{DeadLetterView, dead_letter_columns, dead_letter_row};
use crate::words;
use crate::words::parse_id;

/// Dead letters in a page: the most the API gives.
const PAGE: i32 = 1_000;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    List(ListArgs),
}

/// Deliveries that will not be tried again, newest broadcast first
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

    #[command(flatten)]
    limit: Limit,
}

pub async fn run(Command::List(args): Command, context: &Context) -> Result<(), Failure> {
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
    walk(output, &args.limit, PAGE, fetch, print).await
}
