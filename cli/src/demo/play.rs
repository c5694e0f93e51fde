//! The play, from an empty machine to the last delivery.

use std::time::{Duration, Instant};

use bongsu_proto::v1;
use tonic::Code;

use super::facts::{Facts, Presses};
use super::killing::kill_and_restart;
use super::sim::Sim;
use super::{Args, audience};
use crate::Context;
use crate::client::{Address, Client};
use crate::error::Failure;
use crate::progress::Progress;
use crate::stack::{Options, SenderOptions, Stack};
use crate::table::number;

/// Progress is asked for this often.
const LOOK: Duration = Duration::from_millis(100);
/// Where there is no terminal, a line at most this often.
const LINE_INTERVAL: Duration = Duration::from_secs(2);
const KEY: &str = "fire-on-the-mountain";
const TITLE: &str = "봉수";
pub(super) const BODY: &str = "남산에 불이 올랐습니다";

pub async fn play(args: &Args, context: &Context) -> Result<Facts, Failure> {
    let output = context.output;
    let logs = tempfile::Builder::new().prefix("bongsu-demo-").tempdir().map_err(anyhow::Error::from)?;
    output.note("starting PostgreSQL, provider-sim, intake-svc and sender-svc …");
    let mut stack = Stack::start(options(args, logs.path())?).await?;
    let sender = SenderOptions {
        args: vec!["--in-flight".into(), args.in_flight.to_string()],
        ..SenderOptions::default()
    };
    let mut senders = Vec::new();
    for _ in 0..args.senders {
        senders.push(stack.spawn_sender(sender.clone()).await?);
    }
    let sim = Sim::new(&stack)?;
    let address: Address = stack.intake.url().parse().map_err(anyhow::Error::msg)?;
    let intake = Client::connect(&address, context.servers.timeout, "it has just been started").await?;
    output.note(&format!("registering {} devices …", number(args.devices.into())));
    audience::import(args, &intake).await?;

    let (id, presses) = press(&intake).await?;
    let accepted_at = Instant::now();
    output.note(&format!(
        "broadcast {id} accepted in {:.1} ms; pressed again: answered in {:.1} ms; another text: {}",
        presses.accept_ms,
        presses.replay_ms,
        if presses.conflict_refused { "refused" } else { "ACCEPTED" }
    ));
    let kills = args.kill_after() > 0;
    let (counts, kill) = {
        let crash = async {
            let recorded = async || {
                let (_, counts) = counts_of(&intake, id).await.map_err(|f| anyhow::anyhow!(f.message()))?;
                Ok(counts.sent.unsigned_abs())
            };
            let note = |text: &str| output.note(text);
            kill_and_restart(args, &mut stack, &mut senders, sender, &sim, recorded, note).await
        };
        let crash = async { if kills { crash.await.map(Some) } else { Ok(None) } };
        let (counts, kill) = tokio::try_join!(async { watch(&intake, id, context).await }, async {
            crash.await.map_err(Failure::from)
        },)?;
        (counts, kill)
    };
    let total_ms = u64::try_from(accepted_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let stats = sim.stats().await?;
    stack.stop(senders).await;
    Ok(Facts::new(args, &presses, &counts, &stats, kill, total_ms))
}

pub(super) fn options(args: &Args, logs: &std::path::Path) -> anyhow::Result<Options> {
    let mut options = Options::new()?;
    options.database_url = args.database_url.clone().filter(|url| !url.is_empty());
    options.logs = Some(logs.to_owned());
    options.log_filter = "info".to_owned();
    let flag = |name: &str, value: String| [name.to_owned(), value];
    options.provider_sim_args = [
        flag("--latency-ms", args.latency_ms.to_string()),
        flag("--jitter-ms", args.jitter_ms.to_string()),
        flag("--transient", args.transient.to_string()),
        flag("--seed", args.seed.to_string()),
    ]
    .concat();
    if args.provider_dedupe {
        options.provider_sim_args.push("--dedupe".to_owned());
    }
    Ok(options)
}

/// The operator: presses, presses again, and presses with another text.
async fn press(intake: &Client) -> Result<(i64, Presses), Failure> {
    let millis = |since: Instant| since.elapsed().as_secs_f64() * 1_000.0;
    let mut client = intake.broadcasts();
    let began = Instant::now();
    let first = intake.call("create the broadcast", client.create_broadcast(request(BODY))).await?;
    let accept_ms = millis(began);
    let began = Instant::now();
    let again = intake.call("create it again", client.create_broadcast(request(BODY))).await?;
    let replay_ms = millis(began);
    let conflict = client.create_broadcast(request("다른 글")).await;
    let id = |answer: &v1::CreateBroadcastResponse| answer.broadcast.as_ref().map_or(0, |b| b.id);
    let presses = Presses {
        accept_ms,
        replay_ms,
        replay_same_broadcast: !first.replayed && again.replayed && id(&first) == id(&again),
        conflict_refused: conflict.is_err_and(|status| status.code() == Code::AlreadyExists),
    };
    Ok((id(&first), presses))
}

pub(super) fn request(body: &str) -> v1::CreateBroadcastRequest {
    v1::CreateBroadcastRequest {
        idempotency_key: KEY.to_owned(),
        title: TITLE.to_owned(),
        body: body.to_owned(),
        audience: Some(v1::Audience { kind: Some(v1::audience::Kind::Everyone(v1::EveryoneAudience {})) }),
        ..Default::default()
    }
}

/// Shows the progress until the broadcast has ended; returns its final counts.
pub(super) async fn watch(
    intake: &Client,
    id: i64,
    context: &Context,
) -> Result<v1::DeliveryCounts, Failure> {
    let mut progress = Progress::new(context.output, LINE_INTERVAL);
    loop {
        let (state, counts) = counts_of(intake, id).await?;
        if matches!(state, v1::BroadcastState::Completed | v1::BroadcastState::Cancelled) {
            return Ok(counts);
        }
        let settled = counts.total - counts.pending;
        let text = format!(
            "{} of {}: {} sent, {} dead, {} being tried again",
            number(settled),
            number(counts.total),
            number(counts.sent),
            number(counts.dead),
            number(counts.retrying)
        );
        progress.show(settled.unsigned_abs(), counts.total.unsigned_abs(), &text);
        tokio::time::sleep(LOOK).await;
    }
}

pub(super) async fn counts_of(
    intake: &Client,
    id: i64,
) -> Result<(v1::BroadcastState, v1::DeliveryCounts), Failure> {
    let request = v1::GetBroadcastRequest { broadcast_id: id };
    let answer = intake.call("get the broadcast", intake.broadcasts().get_broadcast(request)).await?;
    let broadcast = answer.broadcast.unwrap_or_default();
    Ok((broadcast.state(), broadcast.counts.unwrap_or_default()))
}
