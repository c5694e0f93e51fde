//! What a push costs, measured on request: `cargo test --release -p provider-sim -- --ignored --nocapture`.

use std::time::Instant;

use provider_sim::{Config, Stats};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::{client, push};

const CONNECTIONS: usize = 4;
const IN_FLIGHT_PER_CONNECTION: usize = 128;
const PUSHES_PER_TASK: usize = 400;

/// The processor time of the simulator's own thread is measured, not the rate: the client costs more than the simulator
/// and shares the machine with it.
#[test]
#[ignore = "a measurement, not a promise"]
fn the_cost_of_a_push_over_http2() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let base = format!("http://{}", listener.local_addr().expect("bound"));
    let shutdown = CancellationToken::new();
    let ending = shutdown.clone();
    let simulator = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a socket");
            provider_sim::run(Config::default(), listener, ending).await.expect("runs");
        });
        thread_cpu_ticks()
    });

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (stats, took) = runtime.block_on(drive(&base));
    shutdown.cancel();
    let ticks = simulator.join().expect("no panic");
    let micros = ticks as f64 * 10_000.0 / stats.calls as f64; // a tick is 10 ms on Linux
    println!(
        "{} pushes in {took:.2} s: {:.0}/s, {micros:.1} µs of the simulator's thread each ({:.0}/s on a core)",
        stats.calls,
        stats.calls as f64 / took,
        1e6 / micros
    );
    assert_eq!(stats.accepted, (CONNECTIONS * IN_FLIGHT_PER_CONNECTION * PUSHES_PER_TASK) as u64);
}

async fn drive(base: &str) -> (Stats, f64) {
    let url = format!("{base}/push");
    let began = Instant::now();
    let mut tasks = Vec::new();
    for connection in 0..CONNECTIONS {
        let client = client(|builder| builder.http2_prior_knowledge());
        for task in 0..IN_FLIGHT_PER_CONNECTION {
            let (client, url) = (client.clone(), url.clone());
            tasks.push(tokio::spawn(async move {
                for n in 0..PUSHES_PER_TASK {
                    let key = format!("1234567890:{connection}:{task}:{n}");
                    push(&client, &url, &format!("token-{task}-{n}"), &key).await.expect("an answer");
                }
            }));
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let took = began.elapsed().as_secs_f64();
    let stats = client(|builder| builder).get(format!("{base}/stats")).send().await.expect("an answer");
    (stats.json().await.expect("stats"), took)
}

/// User and system time of the calling thread: fields 14 and 15 of its stat line.
fn thread_cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
    let after_name = stat.rsplit_once(") ").expect("a stat line").1;
    after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}
