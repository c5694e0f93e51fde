//! `bongsu devices import`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bongsu_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::rows::{Format, Meter, Metered};
use crate::Context;
use crate::client::Client;
use crate::error::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::table::number;

mod batches;
mod report;

use batches::Batches;
use report::Report;

/// Messages read ahead of the network.
const MESSAGES_AHEAD: usize = 2;
/// Input is read in pieces of this many bytes.
const READ_BYTES: usize = 64 * 1024;
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(250);
/// How often a line comes where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Register many devices from a file; sending a file again is harmless
///
/// CSV names its columns in the first line: user_id, provider, token, and if you like installation_id, consent (true,
/// false, or nothing to leave it as it is) and topics (separated by `;`). JSON lines have an object of the same fields
/// a line, topics as an array. A row that is wrong is reported with its line and does not stop its neighbours; then the
/// exit code is 4.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file; - for stdin
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Its format [default: by its name; csv for stdin]
    #[arg(long)]
    format: Option<Format>,

    /// Only read the file and report what is malformed; asks no server
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let stdin = args.file.as_os_str() == "-";
    let format = match args.format.or_else(|| Format::of_file(&args.file)) {
        Some(format) => format,
        None if stdin => Format::Csv,
        None => {
            return Err(anyhow!("{} may be anything: say --format csv or jsonl", args.file.display()).into());
        }
    };
    let name = if stdin { "stdin".to_owned() } else { args.file.display().to_string() };
    let meter = Arc::new(Meter::default());
    let (input, size) = open(&args.file, stdin, &meter)?;
    let client = if args.dry_run { None } else { Some(context.servers.intake().await?) };

    let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
    // Reading blocks, on a slow pipe for long: not on the thread that keeps the connection alive.
    let reading = tokio::task::spawn_blocking(move || Batches::read(format, input, &sender));
    let progress = Progress::new(context.output, LINE_INTERVAL);
    let (report, failure) = match client {
        Some(client) => {
            let answer = show_until(send(&client, messages), progress, &meter, size).await?;
            let batches = reading.await.map_err(anyhow::Error::from)?;
            (Report::of_import(&answer, &batches), batches.failure)
        }
        None => {
            show_until(drain(messages), progress, &meter, size).await;
            let batches = reading.await.map_err(anyhow::Error::from)?;
            (Report::of_dry_run(&batches), batches.failure)
        }
    };
    finish(&report, failure, &name, context.output)
}

type Input = Metered<Box<dyn BufRead + Send>>;

/// The input, and its size in bytes where that is known.
fn open(path: &Path, stdin: bool, meter: &Arc<Meter>) -> anyhow::Result<(Input, u64)> {
    let (input, size): (Box<dyn BufRead + Send>, u64) = if stdin {
        (Box::new(BufReader::with_capacity(READ_BYTES, std::io::stdin())), 0)
    } else {
        let file = File::open(path).with_context(|| format!("{} could not be opened", path.display()))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(BufReader::with_capacity(READ_BYTES, file)), size)
    };
    Ok((Metered::new(input, Arc::clone(meter)), size))
}

/// Streams the messages. There is no time-out: the answer comes when the last one is committed.
async fn send(
    client: &Client,
    messages: mpsc::Receiver<v1::ImportDevicesRequest>,
) -> Result<v1::ImportDevicesResponse, Failure> {
    match client.devices().import_devices(ReceiverStream::new(messages)).await {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(client.failed(status)),
    }
}

async fn drain(mut messages: mpsc::Receiver<v1::ImportDevicesRequest>) {
    while messages.recv().await.is_some() {}
}

async fn show_until<T>(work: impl Future<Output = T>, mut progress: Progress, meter: &Meter, size: u64) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = tokio::time::sleep(TICK) => {
                progress.show(meter.bytes(), size, &format!("{} rows read", number(meter.rows() as i64)));
            }
        }
    }
}

fn finish(
    report: &Report,
    failure: Option<anyhow::Error>,
    name: &str,
    output: Output,
) -> Result<(), Failure> {
    output.either(report, || report.text())?;
    if let Some(failure) = failure {
        let context = format!("{name} was read only in part; once that is mended, import all of it again");
        return Err(Failure::Other(failure.context(context)));
    }
    match report.refused() {
        0 => Ok(()),
        rows => Err(Failure::RowsRefused { rows }),
    }
}
