//! `bongsu`, the operator's tool, and – as hidden subcommands – the services themselves, so that one executable is
//! enough to run all of Bongsu on one machine.
//!
//! * a command is a module with its arguments and a `run`
//! * [`servers`] knows where the services are and who we are, [`client`] connects and calls, [`error`] says what went wrong, [`output`] and [`view`] print
//! * [`services`] are the hidden subcommands, [`stack`] starts them as child processes of this executable

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Failure;
use crate::output::Output;
use crate::servers::Servers;

mod bench;
mod broadcasts;
mod broken;
pub mod chaos;
mod client;
mod completions;
mod dead_letters;
mod deliveries;
mod demo;
mod dev;
mod devices;
#[cfg(test)]
mod docs;
mod doctor;
mod error;
mod explain;
mod inbox;
pub mod live;
mod migrate;
mod output;
mod pages;
mod profiles;
mod progress;
mod providers;
mod retention;
mod send;
mod senders;
mod servers;
mod services;
pub mod stack;
mod status;
mod table;
mod times;
mod token;
mod top;
mod view;
mod words;

/// Sends push notifications once, to everybody who asked for them
#[derive(Debug, Parser)]
#[command(name = "bongsu", version, propagate_version = true, after_help = error::EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    servers: Servers,

    /// Write JSON, one object per line: data to stdout, notes and errors to stderr
    ///
    /// Field names are those of the API's proto files; ids are strings, counts are numbers, times are RFC 3339.
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Dev(dev::Args),
    Send(send::Args),
    Status(status::Args),
    Top(top::Args),
    /// Broadcasts: list, get, pause, resume, cancel, reschedule
    #[command(subcommand)]
    Broadcasts(broadcasts::Command),
    /// Stop the calls of a broadcast until it is resumed; calls already in flight are finished
    Pause(broadcasts::Id),
    /// Go on with a paused broadcast
    Resume(broadcasts::Id),
    /// Stop a broadcast for good: calls already in flight end as their provider answers, everything else is not sent
    Cancel(broadcasts::Id),
    Deliveries(deliveries::Args),
    Explain(explain::Args),
    Senders(senders::Args),
    /// Devices: list, get, register, import, restore, consent, topics
    #[command(subcommand)]
    Devices(devices::Command),
    /// Providers: list, park by hand, and take up again one that is parked
    #[command(subcommand)]
    Providers(providers::Command),
    /// Deliveries that were given up: list, replay
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
    /// Tokens that say to the services who calls
    #[command(subcommand)]
    Token(token::Command),
    /// The live channel: keys and tokens of users, and what a user's client gets
    #[command(subcommand)]
    Live(live::Command),
    Migrate(migrate::Args),
    /// Inboxes of the live channel: begin a new epoch
    #[command(subcommand)]
    Inbox(inbox::Command),
    Doctor(doctor::Args),
    Retention(retention::Args),
    Chaos(chaos::Args),
    Bench(bench::Args),
    Completions(completions::Args),
}

/// What every command needs.
#[derive(Clone, Debug)]
struct Context {
    servers: Servers,
    output: Output,
}

/// The whole program: parses the command line, runs the command, and tells how it went.
pub fn main() -> ExitCode {
    if let Some(service) = services::asked_for() {
        return services::run(service);
    }
    let cli = Cli::parse();
    let output = Output { json: cli.json };
    let context = Context { servers: Servers { output, ..cli.servers }, output };
    // One thread is plenty for a client, and starts faster than a pool.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(run(cli.command, &context));
            // A thread that still reads stdin cannot be stopped, and nobody needs what it would read.
            runtime.shutdown_background();
            result
        }
        Err(error) => {
            Err(Failure::Other(anyhow::Error::new(error).context("the runtime could not be started")))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(output);
            failure.exit_code()
        }
    }
}

async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::run(args, context).await,
        Command::Dev(args) => dev::run(args, context).await,
        Command::Send(args) => send::run(args, context).await,
        Command::Status(args) => status::run(args, context).await,
        Command::Top(args) => top::run(args, context).await,
        Command::Broadcasts(command) => broadcasts::run(command, context).await,
        Command::Pause(id) => broadcasts::pause(id, context).await,
        Command::Resume(id) => broadcasts::resume(id, context).await,
        Command::Cancel(id) => broadcasts::cancel(id, context).await,
        Command::Deliveries(args) => deliveries::run(args, context).await,
        Command::Explain(args) => explain::run(args, context).await,
        Command::Senders(args) => senders::run(args, context).await,
        Command::Devices(command) => devices::run(command, context).await,
        Command::Providers(command) => providers::run(command, context).await,
        Command::DeadLetters(command) => dead_letters::run(command, context).await,
        Command::Token(command) => token::run(&command, context),
        Command::Live(command) => live::run(command, context).await,
        Command::Migrate(args) => migrate::run(args, context).await,
        Command::Inbox(command) => inbox::run(command, context).await,
        Command::Doctor(args) => doctor::run(args, context).await,
        Command::Retention(args) => retention::run(args, context).await,
        Command::Chaos(args) => chaos::run(args, context).await,
        Command::Bench(args) => bench::run(args, context).await,
        Command::Completions(args) => completions::run(&args, context),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
