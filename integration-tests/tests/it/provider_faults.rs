//! Whatever a provider answers, or does instead: each call ends in its time, each delivery gets the outcome of the answer
//! table, and nobody else's suffers.

use std::collections::BTreeMap;
use std::time::Duration;

use bongsu_proto::v1::{BroadcastStatus, DeadLetter, DeadReason, ListDeadLettersRequest};
use provider_sim::Behaviour;

use crate::raw_provider::{Manners, RawProvider, Reply, answer, begun};
use crate::world::{World, quick, until};

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a provider's words that are kept.
const DETAIL_BYTES: usize = 512;

/// A kind of answer, and what becomes of the delivery: nothing for sent, else reason and code of its dead letter.
type Outcome = Option<(DeadReason, &'static str)>;

const EXHAUSTED: DeadReason = DeadReason::AttemptsExhausted;
const REJECTED: DeadReason = DeadReason::Rejected;

/// The kinds of misbehaviour; a token is a kind and a number.
const KINDS: [(&str, Outcome); 23] = [
    ("silence", Some((EXHAUSTED, "timeout"))),
    ("slow head", Some((EXHAUSTED, "timeout"))),
    ("reset", Some((EXHAUSTED, "broken"))),
    ("end", Some((EXHAUSTED, "broken"))),
    ("half a head", Some((EXHAUSTED, "broken"))),
    ("no http", Some((EXHAUSTED, "broken"))),
    ("huge head", Some((EXHAUSTED, "broken"))),
    ("301", Some((EXHAUSTED, "301"))),
    ("302", Some((EXHAUSTED, "302"))),
    ("307", Some((EXHAUSTED, "307"))),
    ("308", Some((EXHAUSTED, "308"))),
    ("half a 503", Some((EXHAUSTED, "503"))),
    ("html 502", Some((EXHAUSTED, "502"))),
    ("endless 500", Some((EXHAUSTED, "500"))),
    ("html 400", Some((REJECTED, "400"))),
    ("binary 400", Some((REJECTED, "400"))),
    ("endless 400", Some((REJECTED, "400"))),
    // Accepted is accepted, whatever comes after.
    ("half a 200", None),
    ("slow 200", None),
    ("html 200", None),
    ("binary 200", None),
    ("endless 200", None),
    ("good", None),
];

fn misbehave(token: &str, _: u32) -> Reply {
    let html = b"<html><body><h1>Bad Gateway</h1>\r\n</body></html>";
    // No UTF-8, a NUL, an escape sequence, and enough of it for the bound to fall into it.
    let binary = b"\xff\xfe\0\x1b[31m\x80".repeat(200);
    match token.split_once('-').unwrap().0 {
        "silence" => Reply::Silence,
        "slow head" => Reply::Trickle(vec![], answer("200 OK", &[b'x'; 4_096])),
        "reset" => Reply::Reset,
        "end" => Reply::Last(vec![]),
        "half a head" => Reply::Last(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()),
        "no http" => Reply::Last(b"220 mail.example ESMTP\r\n".to_vec()),
        "huge head" => Reply::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec()),
        "301" => Reply::Bytes(answer("301 Moved Permanently", b"")),
        "302" => Reply::Bytes(answer("302 Found", b"")),
        "307" => Reply::Bytes(answer("307 Temporary Redirect", b"")),
        "308" => Reply::Bytes(answer("308 Permanent Redirect", b"")),
        "half a 503" => Reply::Last(begun("503 Service Unavailable", 100, b"only half")),
        "html 502" => Reply::Bytes(answer("502 Bad Gateway", html)),
        "endless 500" => Reply::Endless(begun("500 Internal Server Error", usize::MAX >> 1, b"")),
        "html 400" => Reply::Bytes(answer("400 Bad Request", html)),
        "binary 400" => Reply::Bytes(answer("400 Bad Request", &binary)),
        "endless 400" => Reply::Endless(begun("400 Bad Request", usize::MAX >> 1, b"")),
        "half a 200" => Reply::Last(begun("200 OK", 100, b"only half")),
        "slow 200" => Reply::Trickle(begun("200 OK", 4_096, b""), vec![b'x'; 4_096]),
        "html 200" => Reply::Bytes(answer("200 OK", html)),
        "binary 200" => Reply::Bytes(answer("200 OK", &binary)),
        "endless 200" => Reply::Endless(begun("200 OK", usize::MAX >> 1, b"")),
        _ => Reply::Bytes(answer("200 OK", b"{}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_its_outcome_and_no_other_delivery_suffers() {
    let provider = RawProvider::start(misbehave, 0).await;
    let tokens: Vec<_> =
        KINDS.iter().flat_map(|(kind, _)| (0..5).map(move |n| format!("{kind}-{n}"))).collect();
    let (world, status) = broadcast(&provider, &tokens, 1).await;

    let letters = dead_letters(&world, status.broadcast_id).await;
    for (kind, outcome) in KINDS {
        for n in 0..5 {
            let token = format!("{kind}-{n}");
            let letter = letters.get(&token);
            let told = letter.map(|letter| (letter.reason(), letter.code.as_str()));
            assert_eq!(told, outcome, "{token}: {letter:?}");
        }
    }
    let counts = status.counts.unwrap();
    let sent = KINDS.iter().filter(|(_, outcome)| outcome.is_none()).count() * 5;
    assert_eq!(counts.sent, i64::try_from(sent).unwrap());
    for letter in letters.values() {
        assert!(letter.detail.len() <= DETAIL_BYTES, "{letter:?}");
        assert!(!letter.detail.contains(char::is_control), "{letter:?}");
    }
    assert!(letters["html 502-0"].detail.contains("Bad Gateway"), "{:?}", letters["html 502-0"]);
    assert_eq!(letters["endless 400-0"].detail, "x".repeat(DETAIL_BYTES));

    let seen = provider.seen();
    assert!(tokens.iter().all(|token| seen.calls[token] == 1), "{seen:?}");
    assert_eq!(seen.elsewhere, 0, "redirects are not followed");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_end_in_their_time_and_an_endless_answer_is_not_read() {
    let provider = RawProvider::start(misbehave, 0).await;
    let kinds = ["silence", "slow head", "slow 200", "endless 400", "huge head", "good"];
    let tokens: Vec<_> = kinds.iter().flat_map(|kind| (0..10).map(move |n| format!("{kind}-{n}"))).collect();
    let (world, _) = broadcast(&provider, &tokens, 1).await;
    until("the provider noticed that they gave up", async || provider.seen().given_up_after.len() == 30)
        .await;
    let seen = provider.seen();
    let slowest = seen.given_up_after.iter().max().unwrap();
    assert!(*slowest < CALL_TIMEOUT * 5, "{slowest:?}");
    // What buffers in between hold is not ours; it is far from all.
    assert!(seen.most_taken < 32 << 20, "{} bytes", seen.most_taken);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_failed_on_the_way_is_made_again_and_no_device_is_lost() {
    let once: Manners = |token, nth| if nth == 1 { misbehave(token, nth) } else { misbehave("good-0", nth) };
    let provider = RawProvider::start(once, 3).await;
    let transient: Vec<_> = KINDS.iter().filter(|(_, o)| o.is_some_and(|(r, _)| r == EXHAUSTED)).collect();
    let tokens: Vec<_> = transient
        .iter()
        .map(|(kind, _)| *kind)
        .chain(["good"])
        .flat_map(|kind| (0..5).map(move |n| format!("{kind}-{n}")))
        .collect();
    let (world, status) = broadcast(&provider, &tokens, 4).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (i64::try_from(tokens.len()).unwrap(), 0), "{counts:?}");
    for (token, calls) in provider.seen().calls {
        assert_eq!(calls, if token.starts_with("good") { 1 } else { 2 }, "{token}");
    }
    // The failed ones, and up to three whose connection ended before they were read.
    let failed = i64::try_from(transient.len() * 5).unwrap();
    assert!((failed..=failed + 3).contains(&counts.retried), "{counts:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_nobody_asked_for_is_nobodys() {
    let twice: Manners =
        |_, _| Reply::Bytes([answer("200 OK", b"{}"), answer("410 Gone", b"unregistered")].concat());
    let provider = RawProvider::start(twice, 0).await;
    let tokens: Vec<_> = (0..50).map(|n| format!("good-{n}")).collect();
    let mut world = World::new(Behaviour::default()).await;
    // One call after the other, so that each finds the connection of the one before.
    add_sender(&mut world, &provider, |config| config.in_flight = 1).await;
    world.import(&tokens).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (50, 0), "{counts:?}");
    assert!(provider.seen().calls.values().all(|calls| *calls == 1), "{:?}", provider.seen());
    world.stop().await;
}

/// Sends to these tokens, a call taking [`CALL_TIMEOUT`] at most, and waits for the end.
async fn broadcast(provider: &RawProvider, tokens: &[String], max_attempts: u32) -> (World, BroadcastStatus) {
    let mut world = World::new(Behaviour::default()).await;
    add_sender(&mut world, provider, |config| config.max_attempts = max_attempts).await;
    world.import(tokens).await;
    let id = world.broadcast("k").await.id;
    let status = world.finish(id).await;
    (world, status)
}

async fn add_sender(
    world: &mut World,
    provider: &RawProvider,
    configure: impl FnOnce(&mut sender_svc::Config),
) {
    let webhook = format!("push=http://{}/push", provider.address).parse().unwrap();
    world
        .add_sender(|config| {
            quick(config);
            config.webhooks = vec![webhook];
            config.never_park = true; // most of these devices fail
            config.call_timeout_ms = u64::try_from(CALL_TIMEOUT.as_millis()).unwrap();
            configure(config);
        })
        .await;
}

/// By token.
async fn dead_letters(world: &World, broadcast_id: i64) -> BTreeMap<String, DeadLetter> {
    let request = ListDeadLettersRequest { broadcast_id, page_size: 500, ..Default::default() };
    let letters = world.deliveries().await.list_dead_letters(request).await.unwrap().into_inner();
    letters.dead_letters.into_iter().map(|letter| (letter.user_id.clone(), letter)).collect()
}
