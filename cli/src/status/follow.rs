//! Following a broadcast to its end, over as many streams as it takes.

use std::time::{Duration, Instant};

use bongsu_proto::v1;
use tonic::{Status, Streaming};

use crate::Context;
use crate::client::Client;
use crate::error::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::table::number;
use crate::view::{StatusView, progress_text, status_text};

/// Where there is no terminal, at most a line this often.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// The wait before a stream that broke is opened again; doubled each time.
const FIRST_RECONNECT_DELAY: Duration = Duration::from_millis(250);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);
/// How long to try without having got a single status.
const RECONNECT_PATIENCE: Duration = Duration::from_secs(120);

/// Shows the progress of a broadcast until it has ended, and then its final status on stdout. A sender that stops in
/// between is waited for; one that is not there at the start is an error.
pub async fn follow(broadcast_id: i64, context: &Context) -> Result<(), Failure> {
    tokio::select! {
        followed = follow_to_the_end(broadcast_id, context) => followed,
        // Whoever stops watching must not believe to have stopped the broadcast.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!(
            "no longer watching; the broadcast goes on: `bongsu status {broadcast_id} --watch` follows it, `bongsu cancel \
             {broadcast_id}` stops it"
        )
        .into()),
    }
}

async fn follow_to_the_end(broadcast_id: i64, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let mut display = Display::new(context.output);
    let mut delay = FIRST_RECONNECT_DELAY;
    let mut last_status: Option<Instant> = None;
    loop {
        let before = last_status;
        let failure = match follow_one(&client, broadcast_id, &mut display, &mut last_status).await {
            Ok(status) => return display.finish(&status),
            Err(failure) => failure,
        };
        let Some(silence) = last_status.map(|last| last.elapsed()).filter(|_| failure.is_unavailable())
        else {
            return Err(failure);
        };
        if silence > RECONNECT_PATIENCE {
            display.note(&format!("no status for {} s: giving up", silence.as_secs()));
            return Err(failure);
        }
        if last_status != before {
            delay = FIRST_RECONNECT_DELAY;
            display.note(&format!("{}; asking again", failure.message()));
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(MAX_RECONNECT_DELAY);
    }
}

/// Follows one stream to the final status; its early end is an error.
async fn follow_one(
    client: &Client,
    broadcast_id: i64,
    display: &mut Display,
    last_status: &mut Option<Instant>,
) -> Result<v1::BroadcastStatus, Failure> {
    let request = v1::StreamStatusRequest { broadcast_id };
    let mut stream = client.call("open the stream", client.deliveries().stream_status(request)).await?;
    let mut shown: Option<v1::BroadcastStatus> = None;
    while let Some(status) = next(client, &mut stream, display, shown.as_ref()).await? {
        *last_status = Some(Instant::now());
        if is_final(&status) {
            return Ok(status);
        }
        display.show(&status)?;
        shown = Some(status);
    }
    Err(client.failed(Status::unavailable("the stream ended before the broadcast")))
}

/// The next status of the stream. Meanwhile shows the one before, should its line have come too early.
async fn next(
    client: &Client,
    stream: &mut Streaming<v1::StreamStatusResponse>,
    display: &mut Display,
    before: Option<&v1::BroadcastStatus>,
) -> Result<Option<v1::BroadcastStatus>, Failure> {
    loop {
        let overdue = display.overdue_at();
        let line = async {
            match overdue {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = stream.message() => {
                let message = message.map_err(|status| client.failed(status))?;
                return Ok(message.map(|message| message.status.unwrap_or_default()));
            }
            () = line => if let Some(status) = before { display.show(status)? },
        }
    }
}

fn is_final(status: &v1::BroadcastStatus) -> bool {
    matches!(status.state(), v1::BroadcastState::Completed | v1::BroadcastState::Cancelled)
}

/// How it is shown: JSON lines on stdout, or progress on stderr.
struct Display {
    output: Output,
    progress: Progress,
    /// The last line, lest it comes twice.
    line: String,
    /// Whether a status came too early for its line.
    waiting: bool,
}

impl Display {
    fn new(output: Output) -> Self {
        Self { output, progress: Progress::new(output, LINE_INTERVAL), line: String::new(), waiting: false }
    }

    fn show(&mut self, status: &v1::BroadcastStatus) -> Result<(), Failure> {
        if self.output.json {
            return self.output.object(&StatusView::from(status));
        }
        let counts = status.counts.unwrap_or_default();
        let settled = counts.total - counts.pending;
        let mut line = progress_text(status);
        if counts.total > 0 {
            line = format!("{} of {}: {line}", number(settled), number(counts.total));
        }
        self.waiting = line != self.line && self.progress.next_line().is_some();
        if line != self.line && !self.waiting {
            self.progress.show(unsigned(settled), unsigned(counts.total), &line);
            self.line = line;
        }
        Ok(())
    }

    /// When a line that came too early is due.
    fn overdue_at(&self) -> Option<Instant> {
        if self.waiting { Some(self.progress.next_line().unwrap_or_else(Instant::now)) } else { None }
    }

    fn note(&self, text: &str) {
        self.progress.note(self.output, text);
    }

    fn finish(self, status: &v1::BroadcastStatus) -> Result<(), Failure> {
        drop(self.progress); // takes the bar away
        self.output.either(&StatusView::from(status), || status_text(status))
    }
}

fn unsigned(count: i64) -> u64 {
    count.try_into().unwrap_or_default()
}
