//! `bongsu dev`.

use std::net::{Ipv4Addr, SocketAddr};
use std::task::Poll;

use anyhow::{Context as _, bail};
use bongsu_ops::shutdown;
use serde_json::json;

use crate::Context;
use crate::error::Failure;
use crate::stack::{ANY_PORT, Options, Process, SenderOptions, Stack};

mod greeting;
mod samples;

/// The ports that the commands expect where they are told nothing else.
const INTAKE_PORT: u16 = 7070;
const INTAKE_ADMIN_PORT: u16 = 7071;
const SENDER_PORT: u16 = 7080;
const SENDER_ADMIN_PORT: u16 = 7081;
/// Live connections.
const LIVE_PORT: u16 = 7090;
const PROVIDER_SIM_PORT: u16 = 8090;

/// Run all of Bongsu on this machine, with a simulated push provider and some sample devices, until Ctrl-C
///
/// Senders keep live connections, too, and serve a page to see them work; the link that is printed opens it as a sample user.
/// Without BONGSU_DATABASE_URL it brings a private PostgreSQL, which is gone afterwards with everything in it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A database to use instead of a private PostgreSQL; its schema is brought up to date
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    /// How many senders
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    senders: u16,

    /// Take any free ports instead of the usual ones
    #[arg(long)]
    any_port: bool,

    /// Register no sample devices
    #[arg(long)]
    no_samples: bool,

    /// What the services log to stderr: a level, or levels by target
    #[arg(long = "log", env = "BONGSU_LOG", default_value = "warn", value_name = "FILTER")]
    log_filter: String,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals();
    let samples = !args.no_samples;
    let starting = async {
        let (stack, senders) = start(args).await?;
        if samples {
            samples::register(&stack, context.servers.timeout).await?;
        }
        greet(&stack, &senders, context)?;
        Ok::<_, Failure>((stack, senders))
    };
    // Dropping what is half started kills it.
    let Some(started) = shutdown.run_until_cancelled(starting).await else {
        return Ok(());
    };
    let (mut stack, mut senders) = started?;

    let lost = tokio::select! {
        () = shutdown.cancelled() => None,
        lost = watch(&mut stack, &mut senders, context) => Some(lost),
    };
    context.output.note("stopping");
    stack.stop(senders).await;
    match lost {
        None => Ok(()),
        Some(what) => Err(anyhow::anyhow!("{what}; what it logged above says why").into()),
    }
}

async fn start(args: Args) -> anyhow::Result<(Stack, Vec<Process>)> {
    let port = |port| if args.any_port { ANY_PORT } else { SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
    let mut options = Options::new()?;
    options.database_url = args.database_url.filter(|url| !url.is_empty());
    options.log_filter = args.log_filter;
    options.intake = port(INTAKE_PORT);
    options.intake_admin = port(INTAKE_ADMIN_PORT);
    options.provider_sim = port(PROVIDER_SIM_PORT);
    options.live = true;
    let ports =
        [INTAKE_PORT, INTAKE_ADMIN_PORT, SENDER_PORT, SENDER_ADMIN_PORT, LIVE_PORT, PROVIDER_SIM_PORT];
    if !args.any_port {
        ports.into_iter().try_for_each(check_free)?;
    }
    let stack = Stack::start(options).await?;
    let mut senders = Vec::new();
    for number in 0..args.senders {
        let mut sender = SenderOptions { args: vec!["--live-page".to_owned()], ..SenderOptions::default() };
        // Only the first can have the usual ports.
        if number == 0 {
            sender.listen = port(SENDER_PORT);
            sender.admin = port(SENDER_ADMIN_PORT);
            sender.live = port(LIVE_PORT);
        }
        senders.push(stack.spawn_sender(sender).await?);
    }
    Ok((stack, senders))
}

/// Looks before the leap: a second `bongsu dev` should fail at once, not after having started a Postgres.
fn check_free(port: u16) -> anyhow::Result<()> {
    match std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!("127.0.0.1:{port} is in use: stop what listens there, or start this with --any-port")
        }
        Err(error) => {
            Err(error).with_context(|| format!("127.0.0.1:{port} cannot be listened on; try --any-port"))
        }
    }
}

fn greet(stack: &Stack, senders: &[Process], context: &Context) -> Result<(), Failure> {
    let sender_urls: Vec<String> = senders.iter().map(Process::url).collect();
    let live_urls: Vec<String> = senders.iter().filter_map(Process::live_url).collect();
    let pids: Vec<Option<u32>> = senders.iter().map(Process::pid).collect();
    let object = json!({
        "intake": stack.intake.url(),
        "senders": sender_urls,
        "sender_pids": pids, // to kill one
        "live": live_urls,
        "live_jwks": stack.live_jwks(),
        "live_page": greeting::live_page(stack, senders),
        "provider_sim": stack.provider_sim.url(),
        "database_url": stack.postgres().map(|_| stack.database_url()),
    });
    context.output.either(&object, || greeting::text(stack, senders))
}

/// Watches the processes until nothing can be done without one that has ended, and says which. To kill a sender while
/// another lives is a thing to try here.
async fn watch(stack: &mut Stack, senders: &mut Vec<Process>, context: &Context) -> String {
    loop {
        let processes = [&mut stack.intake, &mut stack.provider_sim].into_iter().chain(senders.iter_mut());
        let (which, what) = first_to_end(processes).await;
        let Some(sender) = which.checked_sub(2) else { return what };
        if senders.len() == 1 {
            return what;
        }
        senders.remove(sender);
        context.output.note(&format!("{what}; senders left: {}", senders.len()));
    }
}

/// Waits until one of the processes has ended: its position, and what to say about it.
async fn first_to_end<'a>(processes: impl Iterator<Item = &'a mut Process>) -> (usize, String) {
    let end = async |(which, process): (usize, &'a mut Process)| {
        let status = process.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        (which, format!("{} ended ({status})", process.name()))
    };
    let mut ends: Vec<_> = processes.enumerate().map(|process| Box::pin(end(process))).collect();
    let first = |cx: &mut std::task::Context<'_>| {
        let first = ends.iter_mut().map(|end| end.as_mut().poll(cx)).find(Poll::is_ready);
        first.unwrap_or(Poll::Pending)
    };
    std::future::poll_fn(first).await
}
