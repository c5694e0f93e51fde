//! A provider over HTTP/2, frame by frame, that refuses calls which it has received: it tells, in either way the protocol has
//! for it, that it has not looked at them. Server libraries do so only in moments that a test cannot choose.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A round begins once so many calls are there …
const GATHERED: usize = 40;
/// … of which the first ones are answered, and the others refused.
const ANSWERED: usize = 10;
/// Rounds before it answers everything.
const ROUNDS: u32 = 3;
/// What it refuses in all, at least.
pub const LEAST_REFUSED: u32 = ROUNDS * (GATHERED - ANSWERED) as u32;

/// Frame types, flags and error codes of RFC 9113.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;
pub const NO_ERROR: u32 = 0;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// `:status: 200`, an entry of HPACK's static table.
const STATUS_200: &[u8] = &[0x88];
const PREFACE_BYTES: usize = 24;

/// How calls are refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// The connection goes away for this reason, and names the last call that was looked at.
    GoAway(u32),
    /// Each with a RST_STREAM of its own; the connection goes on.
    Reset,
}

pub struct RefusingProvider {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _accepting: AbortOnDropHandle<()>,
}

/// What it was asked.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Answered calls, by token.
    pub accepted: BTreeMap<String, u32>,
    /// Calls that were read whole and refused, by token.
    pub refused: BTreeMap<String, u32>,
    pub rounds: u32,
}

impl RefusingProvider {
    pub async fn start(refusal: Refusal) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let connection = Connection::new(stream, refusal, shared.clone());
                // A caller that goes away ends it.
                tokio::spawn(async move { connection.serve().await.ok() });
            }
        });
        Self { address, seen, _accepting: AbortOnDropHandle::new(accepting) }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    refusal: Refusal,
    seen: Arc<Mutex<Seen>>,
    /// What has come of the bodies, by stream.
    bodies: BTreeMap<u32, Vec<u8>>,
    /// Streams that ended, and are neither answered nor refused.
    whole: BTreeSet<u32>,
    /// The first stream that was not settled: they are looked at in order, so that none is left behind a GOAWAY.
    next: u32,
    gone: bool,
}

impl Connection {
    fn new(stream: TcpStream, refusal: Refusal, seen: Arc<Mutex<Seen>>) -> Self {
        let (bodies, whole) = (BTreeMap::new(), BTreeSet::new());
        Self { stream: BufReader::new(stream), refusal, seen, bodies, whole, next: 1, gone: false }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    async fn serve(mut self) -> io::Result<()> {
        self.stream.get_ref().set_nodelay(true)?;
        self.stream.read_exact(&mut [0; PREFACE_BYTES]).await?;
        self.write(SETTINGS, 0, 0, &[]).await?;
        // Room for all bodies that may come.
        self.write(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()).await?;
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await?;
            let [_, _, _, kind, flags, id @ ..] = head;
            let id = u32::from_be_bytes(id);
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await?;
            match kind {
                SETTINGS | PING if flags & ACK == 0 => {
                    let echo = if kind == PING { &payload[..] } else { &[] };
                    self.write(kind, ACK, 0, echo).await?;
                }
                // What is called is in the body.
                DATA => {
                    self.bodies.entry(id).or_default().extend(payload);
                    if flags & END_STREAM != 0 {
                        self.whole.insert(id);
                        self.settle().await?;
                    }
                }
                // Nobody waits for it any more.
                RST_STREAM => {
                    self.whole.insert(id);
                    self.bodies.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// Answers and refuses what is to be, now that one call more is there.
    async fn settle(&mut self) -> io::Result<()> {
        if self.gone {
            // It came after the GOAWAY.
            for id in std::mem::take(&mut self.whole) {
                self.count(id, false);
            }
            return Ok(());
        }
        let ready: Vec<u32> = (self.next..).step_by(2).take_while(|id| self.whole.contains(id)).collect();
        let answered = {
            let mut seen = self.seen();
            let round = seen.rounds < ROUNDS;
            if round && ready.len() < GATHERED {
                return Ok(());
            }
            seen.rounds += u32::from(round);
            if round { ANSWERED } else { ready.len() }
        };
        let (answer, refuse) = ready.split_at(answered);
        for id in answer {
            self.count(*id, true);
            self.write(HEADERS, END_HEADERS | END_STREAM, *id, STATUS_200).await?;
        }
        for id in refuse {
            self.count(*id, false);
            if self.refusal == Refusal::Reset {
                self.write(RST_STREAM, 0, *id, &REFUSED_STREAM.to_be_bytes()).await?;
            }
        }
        if let (Refusal::GoAway(reason), false, Some(last)) = (self.refusal, refuse.is_empty(), answer.last())
        {
            self.gone = true;
            self.write(GOAWAY, 0, 0, &[last.to_be_bytes(), reason.to_be_bytes()].concat()).await?;
        }
        Ok(())
    }

    fn count(&mut self, id: u32, accepted: bool) {
        self.whole.remove(&id);
        self.next = self.next.max(id + 2);
        let Some(body) = self.bodies.remove(&id) else { return };
        let push: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let token = push["to"].as_str().unwrap().to_owned();
        let mut seen = self.seen();
        let counts = if accepted { &mut seen.accepted } else { &mut seen.refused };
        *counts.entry(token).or_default() += 1;
    }

    async fn write(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> io::Result<()> {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[..], &[kind, flags], &id.to_be_bytes(), payload].concat();
        self.stream.write_all(&frame).await
    }
}
