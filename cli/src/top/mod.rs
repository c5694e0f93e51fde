//! `bongsu top`: what is under way, looked at once a second through the API.
//!
//! Lines of text that are drawn over each other, without a library for user interfaces: there is nothing here to point at or
//! to fill in, the frame is tested as the text that it is, and `--once` prints that same text.

mod frame;
mod look;
mod terminal;

use std::time::Duration;

use bongsu_ops::shutdown;
use tokio::io::AsyncReadExt as _;

use self::frame::frame;
use self::look::Watcher;
use self::terminal::Screen;
use crate::Context;
use crate::error::Failure;

/// Lines of a frame that goes to no terminal: nothing is left out of it.
const ENDLESS: usize = usize::MAX;
/// Columns where there is no terminal.
const COLUMNS: usize = 100;

/// Watch broadcasts and providers, live; `q` quits
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one frame, after two looks, and end: for scripts, and where there is no terminal
    #[arg(long)]
    once: bool,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    interval: u32,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if context.output.json {
        let message =
            "top is for people: `bongsu status BROADCAST --json --watch` is for programs".to_owned();
        return Err(Failure::Refused { message });
    }
    if !args.once && !terminal::is_one() {
        let message = "there is no terminal: `bongsu top --once` prints one frame, `bongsu status BROADCAST --json` is for programs"
            .to_owned();
        return Err(Failure::Refused { message });
    }
    let interval = Duration::from_secs(args.interval.into());
    let mut watcher = Watcher::connect(context).await?;
    watcher.look().await?;
    if args.once {
        tokio::time::sleep(interval).await;
        watcher.look().await?;
        let columns = terminal::size().map_or(COLUMNS, |(columns, _)| columns);
        let lines = frame(watcher.seen(), columns, ENDLESS);
        return context.output.data(&format!("{}\n", lines.join("\n")));
    }
    live(&mut watcher, interval).await
}

/// Until somebody quits. A server that does not answer is said in the frame, and asked again.
async fn live(watcher: &mut Watcher, interval: Duration) -> Result<(), Failure> {
    let stopped = shutdown::on_signals();
    let mut screen = Screen::enter().map_err(|error| Failure::Other(error.into()))?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut keys = tokio::io::stdin();
    loop {
        let draw = tokio::select! {
            _ = ticks.tick() => {
                watcher.look_or_say_why().await;
                true
            }
            // An end of the input is no wish to quit.
            key = keys.read_u8() => match key {
                Ok(b'q' | b'Q') => return Ok(()),
                Ok(_) => false,
                Err(_) => {
                    stopped.cancelled().await;
                    return Ok(());
                }
            },
            () = stopped.cancelled() => return Ok(()),
        };
        if draw {
            let (columns, rows) = terminal::size().unwrap_or((80, 24));
            screen.draw(&frame(watcher.seen(), columns, rows)).map_err(Failure::from_stdout)?;
        }
    }
}
