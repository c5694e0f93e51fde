//! Threads that encrypt. It takes some 60 µs of processor for each call, too much for the thread that all calls share; and handing
//! a message to another thread that sleeps costs as much again. So there are a few that take one message after the other, and
//! sleep only when there is none.

use std::iter;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::Context as _;
use bongsu_store::Subscription;
use bytes::Bytes;
use ring::error::Unspecified;
use tokio::sync::oneshot;

use super::encrypt::encrypt;

/// Messages that wait together are handed back together, up to so many (about a millisecond's work): each hand-over may wake the
/// thread of the calls, which then writes what it has to the network.
const TOGETHER: usize = 16;

type Encrypted = Result<Bytes, Unspecified>;

/// One message for one browser. There are never more than calls under way, since each waits for its own.
struct Job {
    subscription: Subscription,
    message: Arc<[u8]>,
    done: oneshot::Sender<(Subscription, Encrypted)>,
}

/// The threads of a provider. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Encryptors {
    queues: Vec<mpsc::Sender<Job>>,
    next: AtomicUsize,
}

impl Encryptors {
    /// For half of the processors: the rest is for calls, and for others.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread.
    pub fn new() -> anyhow::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let queues = (0..processors.div_ceil(2)).map(|_| {
            let (queue, jobs) = mpsc::channel();
            thread::Builder::new().name("webpush-encrypt".to_owned()).spawn(move || work(&jobs))?;
            Ok(queue)
        });
        let queues = queues.collect::<std::io::Result<_>>().context("starting a thread that encrypts")?;
        Ok(Self { queues, next: AtomicUsize::new(0) })
    }

    /// The body that only this browser can open, and its subscription again. `None` where the thread is gone.
    pub async fn encrypt(
        &self,
        subscription: Subscription,
        message: Arc<[u8]>,
    ) -> Option<(Subscription, Encrypted)> {
        let (done, encrypted) = oneshot::channel();
        let queue = &self.queues[self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len()];
        queue.send(Job { subscription, message, done }).ok()?;
        encrypted.await.ok()
    }
}

fn work(jobs: &mpsc::Receiver<Job>) {
    let mut ready = Vec::with_capacity(TOGETHER);
    while let Ok(first) = jobs.recv() {
        for Job { subscription, message, done } in iter::once(first).chain(jobs.try_iter()).take(TOGETHER) {
            // The call may have been given up.
            if !done.is_closed() {
                let encrypted = encrypt(&subscription, &message).map(Bytes::from);
                ready.push((done, (subscription, encrypted)));
            }
        }
        for (done, encrypted) in ready.drain(..) {
            let _ = done.send(encrypted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::webpush::encrypt::tests::browser;

    #[tokio::test]
    async fn every_call_gets_a_body_of_its_own_and_a_wrong_key_spoils_no_other() {
        let encryptors = Encryptors::new().expect("threads");
        let message: Arc<[u8]> = b"fire".as_slice().into();
        let wrong = Subscription { p256dh: [4; 65], ..browser() };
        let calls = (0..100).map(|n| {
            let subscription = if n % 10 == 0 { wrong.clone() } else { browser() };
            encryptors.encrypt(subscription, Arc::clone(&message))
        });
        let encrypted = futures::future::join_all(calls).await;
        let bodies: std::collections::HashSet<_> =
            encrypted.into_iter().filter_map(|done| done.expect("a thread").1.ok()).collect();
        assert_eq!(bodies.len(), 90);
    }
}
