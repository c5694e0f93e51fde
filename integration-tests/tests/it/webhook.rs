//! A webhook with everything that one can be told: TLS by a CA of its own, headers, a signature, a body of one's own shape.

use provider_sim::Behaviour;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::world::{World, quick};

const NEW: &str = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3";
const OLD: &str = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk";

/// A receiver that wants calls signed with the old secret still.
async fn receiver(stop: &CancellationToken) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let webhook_secret = Some(OLD.parse().unwrap());
    let config = provider_sim::Config { webhook_secret, ..Default::default() };
    tokio::spawn(provider_sim::run(config, listener, stop.clone()));
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_signed_with_the_old_secret_and_the_new_and_reach_who_knows_either() {
    let mut world = World::new(Behaviour::default()).await;
    let stop = CancellationToken::new();
    let address = receiver(&stop).await;
    let unsigned = reqwest::Client::new().post(format!("http://{address}/push")).body(r#"{"to":"x"}"#);
    assert_eq!(unsigned.send().await.unwrap().status(), 401);

    let directory = std::env::temp_dir().join(format!("bongsu-webhook-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name);
    let ca = reqwest::get(format!("http://{address}/ca.pem")).await.unwrap().bytes().await.unwrap();
    std::fs::write(file("ca.pem"), ca).unwrap();
    std::fs::write(file("secrets"), format!("{NEW}\n{OLD}\n")).unwrap();
    let text = format!(
        "[providers.push]\nkind = \"webhook\"\nurl = \"https://{address}/push\"\nca_file = {:?}\n\
         secret = {{ file = {:?} }}\nheaders = {{ X-App = \"shop\" }}\n\
         body = '{{\"to\": \"{{{{token}}}}\", \"text\": \"{{{{body}}}}\", \"notification\": {{\"broadcast_id\": \
         \"{{{{broadcast_id}}}}\"}}}}'\n",
        file("ca.pem"),
        file("secrets"),
    );
    std::fs::write(file("providers.toml"), text).unwrap();
    let providers = Some(file("providers.toml"));
    world
        .add_sender(|config| {
            quick(config);
            config.providers = providers;
            config.webhooks.clear();
        })
        .await;
    world.import_good(20).await;
    let id = world.broadcast("signed").await.id;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, 20);
    std::fs::remove_dir_all(directory).unwrap();
    stop.cancel();
    world.stop().await;
}
