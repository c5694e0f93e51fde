//! Starting and ending.

use std::time::Instant;

use provider_sim::{Behaviour, Config};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::{PATIENCE, Sim, client, push};

#[tokio::test]
async fn shutdown_returns_although_pushes_hang_and_closes_their_connections() {
    let mut sim = Sim::start(Behaviour { hang: true, ..Behaviour::default() }).await;
    let mut http1 = sim.push_on_socket("t", "one").await;
    let (http2, url) = (client(|builder| builder.http2_prior_knowledge()), sim.url("/push"));
    let http2 = tokio::spawn(async move { push(&http2, &url, "t", "two").await });
    let waiting = sim.client.get(sim.url("/wait?accepted=1"));
    let waiting = tokio::spawn(async move { waiting.send().await?.error_for_status() });
    sim.stats_when(|stats| stats.hung == 2).await;

    sim.shutdown.cancel();
    let ended = tokio::time::timeout(PATIENCE, &mut sim.running).await.expect("prompt").expect("no panic");
    assert!(ended.is_ok(), "{ended:?}");
    let mut nothing = Vec::new();
    let read = tokio::time::timeout(PATIENCE, http1.read_to_end(&mut nothing)).await.expect("closed");
    assert!(read.is_err() || nothing.is_empty(), "a hung push is not answered by the end");
    let http2 = tokio::time::timeout(PATIENCE, http2).await.expect("closed").expect("no panic");
    assert!(http2.is_err(), "{http2:?}");
    let waiting = tokio::time::timeout(PATIENCE, waiting).await.expect("closed").expect("no panic");
    assert!(waiting.is_err(), "{waiting:?}");

    // HTTP/2 streams are tasks of their own, the hung one too. Only this test's tasks run on this runtime.
    drop((sim, http1, waiting, http2));
    let (tasks, deadline) = (tokio::runtime::Handle::current().metrics(), Instant::now() + PATIENCE);
    while tasks.num_alive_tasks() > 0 {
        assert!(Instant::now() < deadline, "{} tasks are left", tasks.num_alive_tasks());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_impossible_behaviour_refuses_to_start() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let behaviour = Behaviour { transient: 3.0, ..Behaviour::default() };
    let config = Config { behaviour, ..Config::default() };
    let refused = provider_sim::run(config, listener, CancellationToken::new()).await;
    assert!(refused.expect_err("refused").to_string().starts_with("transient is 3"));
}
