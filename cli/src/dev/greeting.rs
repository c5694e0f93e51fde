//! What `bongsu dev` prints once all is up: where everything is, and lines to paste into another terminal.

use std::fmt::Write as _;

use super::samples::LIVE_USER;
use crate::stack::{Process, Stack};
use crate::table::details;

pub fn text(stack: &Stack, senders: &[Process]) -> String {
    let mut places = vec![("intake", with_metrics(&stack.intake))];
    places.extend(senders.iter().map(|sender| ("sender", with_metrics(sender))));
    places.push(("provider-sim", format!("{}/stats", stack.provider_sim.url())));
    match stack.postgres() {
        Some(_) => places.push(("Postgres", format!("psql '{}'", stack.database_url()))),
        None => places.push(("Postgres", "the one of BONGSU_DATABASE_URL".to_owned())),
    }
    let mut text = format!("Bongsu is up; Ctrl-C stops it.\n\n{}", details(&places));
    text.push_str("\nIn another terminal:\n");
    for line in lines(stack, senders) {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(page) = live_page(stack, senders) {
        let send = format!("bongsu send --user {LIVE_USER} --title Hello --routing live_then_push");
        let _ = writeln!(
            text,
            "\nWhat {LIVE_USER} sees, in a browser, and what to send there:\n  {page}\n  {send}"
        );
    }
    text
}

/// A link that opens the page of the live channel as a sample user. The token is where no server sees it.
pub fn live_page(stack: &Stack, senders: &[Process]) -> Option<String> {
    let url = senders.first()?.live_url()?;
    Some(format!("{url}/#token={}", stack.live_token(LIVE_USER)))
}

fn with_metrics(process: &Process) -> String {
    let metrics = process.admin().map(|admin| format!("  http://{admin}/metrics")).unwrap_or_default();
    format!("{}{metrics}", process.url())
}

fn lines(stack: &Stack, senders: &[Process]) -> Vec<String> {
    let intake = stack.intake.address();
    // `bongsu` finds the usual ports by itself; naming them does no harm and serves --any-port.
    let mut lines = vec![format!("export BONGSU_INTAKE={}", stack.intake.url())];
    lines.extend(senders.first().map(|sender| format!("export BONGSU_SENDER={}", sender.url())));
    lines.extend([
        "bongsu send --to-everyone --title 'Hello' --body 'The beacon is lit' --watch".to_owned(),
        "bongsu devices list".to_owned(),
        "bongsu dead-letters list".to_owned(),
        format!("grpcurl -plaintext {intake} list"),
        format!(
            "grpcurl -plaintext -d '{}' {intake} bongsu.v1.BroadcastService/CreateBroadcast",
            r#"{"idempotency_key":"hello-1","title":"Hello","audience":{"everyone":{}}}"#
        ),
        format!("curl -s {}/stats", stack.provider_sim.url()),
    ]);
    lines
}
