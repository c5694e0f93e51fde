//! A provider over HTTP/1.1 that answers byte by byte as it is told, also what no HTTP server would.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// What an endless body would have: more than all buffers between us and a caller who has read enough.
const ENDLESS_BYTES: usize = 64 << 20;
/// Between two bytes of a trickle.
const TRICKLE: Duration = Duration::from_millis(20);

/// What a call is answered with.
pub enum Reply {
    /// These bytes, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, and the connection ends.
    Last(Vec<u8>),
    /// The first bytes at once, the others one by one, for longer than anybody waits.
    Trickle(Vec<u8>, Vec<u8>),
    /// These bytes, and then the same letter for as long as the caller reads.
    Endless(Vec<u8>),
    /// Nothing, and the connection stays open.
    Silence,
    /// Nothing, and the connection is reset.
    Reset,
}

/// How the nth call, from 1, of a token is answered.
pub type Manners = fn(token: &str, nth: u32) -> Reply;

pub struct RawProvider {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _accepting: AbortOnDropHandle<()>,
}

/// What it was asked.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Calls that were read whole, by token.
    pub calls: BTreeMap<String, u32>,
    /// Requests to other paths than /push.
    pub elsewhere: u32,
    /// How long the callers waited whose answer never ended.
    pub given_up_after: Vec<Duration>,
    /// The most bytes that a caller took of an endless body, or that were under way to it.
    pub most_taken: usize,
    /// When the latest call came.
    pub latest: Option<Instant>,
}

impl RawProvider {
    /// Resets the first `resets` connections before anything is read from them.
    pub async fn start(manners: Manners, mut resets: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if resets > 0 {
                    resets -= 1;
                    stream.set_zero_linger().unwrap();
                    continue;
                }
                let seen = shared.clone();
                tokio::spawn(async move {
                    // A caller that goes away ends it.
                    let _ = serve(stream, manners, &seen).await;
                });
            }
        });
        Self { address, seen, _accepting: AbortOnDropHandle::new(accepting) }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, manners: Manners, seen: &Mutex<Seen>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some((path, body)) = request(&mut stream).await? {
        let came = Instant::now();
        if path != "/push" {
            seen.lock().unwrap().elsewhere += 1;
            stream.write_all(&answer("200 OK", b"")).await?;
            continue;
        }
        let push: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let token = push["to"].as_str().unwrap().to_owned();
        let nth = {
            let mut seen = seen.lock().unwrap();
            seen.latest = Some(came);
            let calls = seen.calls.entry(token.clone()).or_default();
            *calls += 1;
            *calls
        };
        match manners(&token, nth) {
            Reply::Bytes(bytes) => stream.write_all(&bytes).await?,
            Reply::Last(bytes) => return stream.write_all(&bytes).await,
            Reply::Trickle(at_once, slowly) => {
                stream.write_all(&at_once).await?;
                for byte in slowly {
                    tokio::time::sleep(TRICKLE).await;
                    if stream.write_all(&[byte]).await.is_err() {
                        break;
                    }
                }
                seen.lock().unwrap().given_up_after.push(came.elapsed());
                return Ok(());
            }
            Reply::Endless(bytes) => {
                stream.write_all(&bytes).await?;
                let mut taken = 0;
                while taken < ENDLESS_BYTES && stream.write_all(&[b'x'; 4_096]).await.is_ok() {
                    taken += 4_096;
                }
                let mut seen = seen.lock().unwrap();
                seen.most_taken = seen.most_taken.max(taken);
                return Ok(());
            }
            Reply::Silence => {
                let _ = stream.read_u8().await;
                seen.lock().unwrap().given_up_after.push(came.elapsed());
                return Ok(());
            }
            Reply::Reset => return stream.get_ref().set_zero_linger(),
        }
    }
    Ok(())
}

/// Path and body of the next request; None where the caller has gone.
async fn request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        first.get_or_insert(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let path = first.unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    Ok(Some((path, body)))
}

/// A whole answer.
pub fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    begun(status, body.len(), body)
}

/// An answer that says how long its body is, and the beginning of the body.
pub fn begun(status: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nlocation: /elsewhere\r\n\r\n");
    [head.as_bytes(), body].concat()
}
