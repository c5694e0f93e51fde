//! Runs the bare loop against the simulator and measures both.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::bare_loop::Measured;
use super::kernel::{Watched, peak_memory_bytes};
use super::observe::Observer;
use super::report::Figures;
use super::steady::steady;
use super::world::World;

/// Calls before those that are measured, at most, and as a share of them: connections are opened, pages are touched.
const WARMUP: u64 = 20_000;
const WARMUP_SHARE: u64 = 10;

/// As many calls as there are devices, so that the simulator remembers as many keys as after the product's run. With all
/// that is in flight with several senders in one loop: the loop cannot be split without a second client.
pub async fn run(world: &World) -> anyhow::Result<Figures> {
    world.settle().await?;
    let calls = world.devices;
    let warmup = WARMUP.min(calls / WARMUP_SHARE);
    let in_flight = world.conditions.in_flight * u32::from(world.conditions.senders);
    let mut command = Command::new(std::env::current_exe().context("which executable is this?")?);
    command.arg("bare-loop").args(["--webhook", &world.webhook(), "--exit-with-parent"]);
    command.args(["--in-flight", &in_flight.to_string()]);
    command.args(["--calls", &calls.to_string(), "--warmup", &warmup.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).process_group(0);
    let mut child = command.spawn().context("the bare loop could not be started")?;
    // Its end would end the child.
    let _stdin = child.stdin.take();

    let [_, simulator, _] = world.watched()?;
    let simulator_pid = simulator.pid;
    let watched: Vec<Watched> = vec![simulator];
    let observer = Observer { provider: &world.provider, store: None, watched, done: |stats| stats.calls };
    let work = async { child.wait_with_output().await.context("the bare loop") };
    let (output, samples) = observer.during(work).await?;
    ensure!(output.status.success(), "the bare loop ended with {}", output.status);
    let measured: Measured = serde_json::from_slice(&output.stdout).context("what the bare loop measured")?;

    let window = steady(&samples, warmup + calls);
    let mut figures = Figures::default();
    figures.put("steady_per_s", "steady rate, per s", measured.calls_per_s);
    figures.put("sender_cpu_us", "CPU µs each: senders, or the loop", measured.cpu_us_per_call);
    figures.put("simulator_cpu_us", "CPU µs each: simulator", window.map(|window| window.cpu_us_each(0)));
    figures.put(
        "simulator_peak_mb",
        "peak memory, MB: simulator",
        peak_memory_bytes(simulator_pid)? as f64 / 1e6,
    );
    figures.count("calls", "calls at the provider", measured.calls);
    figures.count("not_accepted", "calls not accepted", measured.not_accepted);
    Ok(figures)
}
