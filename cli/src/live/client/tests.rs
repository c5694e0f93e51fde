//! The client against a server that says what the test wants.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTED: &str = "retry: 1\nevent: connected\ndata: {\"heartbeat_ms\":15000}\n\n";

struct Server(TcpListener);

impl Server {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.expect("a free port"))
    }

    fn address(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("bound"))
    }

    /// Takes the next connection; returns it with the head of its request, in lower case.
    async fn accept(&self) -> (TcpStream, String) {
        let (mut connection, _) =
            timeout(PATIENCE, self.0.accept()).await.expect("in time").expect("a client");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.expect("a request"));
        }
        (connection, String::from_utf8(head).expect("text").to_lowercase())
    }

    /// Takes the next connection and begins a stream on it.
    async fn stream(&self, events: &str) -> (TcpStream, String) {
        let (mut connection, head) = self.accept().await;
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(answer.as_bytes()).await.expect("written");
        write(&mut connection, events).await;
        (connection, head)
    }

    async fn refuse(&self, status: &str, reason: &str) {
        let (mut connection, _) = self.accept().await;
        let body = format!("{{\"error\":{{\"reason\":\"{reason}\",\"message\":\"no\"}}}}");
        let answer =
            format!("HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        connection.write_all(answer.as_bytes()).await.expect("written");
    }
}

async fn write(connection: &mut TcpStream, events: &str) {
    let chunk = format!("{:x}\r\n{events}\r\n", events.len());
    connection.write_all(chunk.as_bytes()).await.expect("written");
}

fn notification(event: &str, id: i64) -> String {
    let data = format!(
        "{{\"event_id\":\"{event}\",\"notification_id\":\"{id}\",\"title\":\"봉수\",\"expire_time\":null}}"
    );
    format!("id: {event}\nevent: notification\ndata: {data}\n\n")
}

fn client(addresses: Vec<String>) -> Client {
    let mut client = Client::new(Network::new(addresses, PATIENCE, None).expect("HTTP"), "token");
    client.retry = Some(Duration::from_millis(1));
    client
}

async fn next(client: &mut Client) -> Happened {
    timeout(PATIENCE, client.next()).await.expect("in time").expect("no refusal")
}

/// The next notification's id, and whether it came again; what else happens is passed over.
async fn next_id(client: &mut Client) -> (i64, bool) {
    loop {
        if let Happened::Notification { notification, again } = next(client).await {
            return (notification.id().expect("a number"), again);
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_goes_on_after_the_last_event_and_what_comes_again_is_known() {
    let server = Server::start().await;
    let mut client = client(vec![server.address()]);
    let serving = async {
        let (connection, head) = server.stream(&format!("{CONNECTED}{}", notification("7-1", 41))).await;
        assert!(head.contains("authorization: bearer token") && !head.contains("last-event-id"), "{head}");
        drop(connection);
        let again = format!("{CONNECTED}{}{}", notification("7-1", 41), notification("7-2", 42));
        let (connection, head) = server.stream(&again).await;
        assert!(head.contains("last-event-id: 7-1"), "{head}");
        connection
    };
    let reading = async {
        assert_eq!(next_id(&mut client).await, (41, false));
        let Happened::Lost { after, .. } = next(&mut client).await else { panic!("it broke") };
        assert_eq!(after, Duration::from_millis(1), "as the server said");
        assert_eq!(next_id(&mut client).await, (41, true));
        assert_eq!(next_id(&mut client).await, (42, false));
    };
    tokio::join!(serving, reading);
}

#[tokio::test]
async fn an_app_that_was_started_anew_asks_for_all_and_still_knows_what_it_has_shown() {
    let server = Server::start().await;
    let mut client = client(vec![server.address()]);
    let stream = format!("{CONNECTED}{}", notification("7-1", 41));
    let (mut connection, first) = tokio::join!(server.stream(&stream), next_id(&mut client));
    assert_eq!(first, (41, false));
    client.hang_up(false);
    let gone = timeout(PATIENCE, connection.0.read_u8()).await.expect("in time");
    assert!(gone.is_err(), "the server sees that the client has gone");
    let ((_connection, head), again) = tokio::join!(server.stream(&stream), next_id(&mut client));
    assert!(!head.contains("last-event-id"), "{head}");
    assert_eq!(again, (41, true));
}

#[tokio::test]
async fn where_one_server_is_gone_the_other_is_asked() {
    let (gone, server) = (Server::start().await, Server::start().await);
    let addresses = vec![gone.address(), server.address()];
    drop(gone);
    for _ in 0..4 {
        let mut client = client(addresses.clone());
        let reading = async {
            loop {
                if let Happened::Connected { address } = next(&mut client).await {
                    return address;
                }
            }
        };
        let (_, address) = tokio::join!(server.stream(CONNECTED), reading);
        assert_eq!(address, server.address());
    }
}

#[tokio::test]
async fn a_refusal_for_now_is_waited_out_and_one_for_good_is_told() {
    let server = Server::start().await;
    let mut client = client(vec![server.address()]);
    let serving = async {
        server.refuse("429 Too Many Requests", "CONNECTIONS_EXCEEDED").await;
        server.refuse("503 Service Unavailable", "DRAINING").await;
        server.refuse("401 Unauthorized", "TOKEN_EXPIRED").await;
    };
    let reading = async {
        for reason in ["CONNECTIONS_EXCEEDED", "DRAINING"] {
            let Happened::Lost { because, .. } = next(&mut client).await else { panic!("no stream yet") };
            assert!(because.contains(reason), "{because}");
        }
        let refused = timeout(PATIENCE, client.next()).await.expect("in time").expect_err("for good");
        assert!(refused.to_string().contains("TOKEN_EXPIRED"), "{refused}");
    };
    tokio::join!(serving, reading);
}

#[tokio::test]
async fn a_connection_without_heartbeats_is_dead_and_one_that_is_sent_away_was_told_when_to_come_back() {
    let server = Server::start().await;
    let mut client = client(vec![server.address()]);
    let silent = "event: connected\ndata: {\"heartbeat_ms\":20}\n\n";
    let (_open, connected) = tokio::join!(server.stream(silent), next(&mut client));
    assert!(matches!(connected, Happened::Connected { .. }), "{connected:?}");
    let Happened::Lost { because, .. } = next(&mut client).await else { panic!("nothing comes") };
    assert!(because.starts_with("nothing came for 0.06 s"), "{because}");
    let leaving = format!("{CONNECTED}retry: 7\nevent: reconnect\ndata: {{\"after_ms\":70}}\n\n");
    let (_open, _) = tokio::join!(server.stream(&leaving), next(&mut client));
    let Happened::SentAway { after } = next(&mut client).await else { panic!("it was told to leave") };
    assert_eq!((after, client.retry), (Duration::from_millis(70), Some(Duration::from_millis(7))));
}

#[tokio::test]
async fn acknowledging_asks_another_server_where_the_first_is_gone() {
    let (gone, server) = (Server::start().await, Server::start().await);
    let mut client = client(vec![gone.address(), server.address()]);
    client.address = Some(gone.address());
    drop(gone);
    let serving = async {
        let (mut connection, head) = server.accept().await;
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("written");
        head
    };
    let acknowledger = client.acknowledger();
    let (head, done) = tokio::join!(serving, acknowledger.acknowledge(&[41]));
    assert!(head.starts_with("post /v1/live/acknowledge"), "{head}");
    done.expect("acknowledged");
}

#[test]
fn only_the_newest_ids_are_remembered() {
    let mut seen = Seen::default();
    assert!((0..=REMEMBERED as i64).all(|id| seen.insert(id)));
    assert_eq!(seen.ids.len(), REMEMBERED);
    assert!(!seen.insert(1) && seen.insert(0), "the oldest was forgotten");
}
