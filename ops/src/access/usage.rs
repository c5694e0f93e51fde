//! How much each client asks for at the moment, at this process. Clients of several processes have as much at each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::clients::Client;

/// What is in use by name of client, so that it outlives a change of the access file. As many as clients were ever named.
#[derive(Debug, Default)]
pub(super) struct Usage {
    clients: Mutex<HashMap<String, Arc<InUse>>>,
}

#[derive(Debug, Default)]
struct InUse {
    calls: Mutex<Calls>,
    streams: AtomicU32,
}

/// Calls of late, as a bucket that runs out at the allowed rate and holds what is allowed of one second.
#[derive(Debug, Default)]
struct Calls {
    level: f64,
    at: Option<Instant>,
}

/// A stream that counts until this is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<InUse>);

impl Usage {
    /// Counts a call; `Err`: when there is room for another one.
    pub fn call(&self, client: &Client, now: Instant) -> Result<(), Duration> {
        let Some(rate) = client.requests_per_second else { return Ok(()) };
        let in_use = self.of(client);
        let mut calls = in_use.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.take(rate, now)
    }

    /// Counts a stream; None where it is one too many.
    pub fn stream(&self, client: &Client) -> Option<OpenStream> {
        let limit = client.streams.unwrap_or(u32::MAX);
        let in_use = self.of(client);
        let fits = |open: u32| (open < limit).then_some(open + 1);
        in_use.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(OpenStream(in_use))
    }

    fn of(&self, client: &Client) -> Arc<InUse> {
        let name = client.caller.client_id();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(in_use) = clients.get(name) {
            return Arc::clone(in_use);
        }
        Arc::clone(clients.entry(name.to_owned()).or_default())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Calls {
    fn take(&mut self, rate: u32, now: Instant) -> Result<(), Duration> {
        let rate = f64::from(rate);
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let level = (self.level - passed.as_secs_f64() * rate).max(0.0);
        self.at = Some(now);
        self.level = level;
        if level + 1.0 > rate {
            return Err(Duration::from_secs_f64((level + 1.0 - rate) / rate));
        }
        self.level = level + 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::caller::{Caller, Role};
    use super::*;

    fn client(requests_per_second: Option<u32>, streams: Option<u32>) -> Client {
        Client { caller: Caller::new("a", &[Role::Read]), requests_per_second, streams }
    }

    #[test]
    fn a_client_has_its_rate_and_is_told_when_to_ask_again() {
        let (usage, client, start) = (Usage::default(), client(Some(10), None), Instant::now());
        for _ in 0..10 {
            usage.call(&client, start).expect("within a second's worth");
        }
        let wait = usage.call(&client, start).expect_err("one too many");
        assert!(wait > Duration::from_millis(90) && wait <= Duration::from_millis(101), "{wait:?}");
        let later = start + wait + Duration::from_millis(1);
        usage.call(&client, later).expect("as told");
        usage.call(&client, later).expect_err("room for one");
        let in_ten_seconds = start + Duration::from_secs(10);
        let taken = (0..100).filter(|_| usage.call(&client, in_ten_seconds).is_ok()).count();
        assert_eq!(taken, 10, "silence is not saved up for longer than a second");
    }

    #[test]
    fn a_stream_counts_until_it_ends() {
        let (usage, limited) = (Usage::default(), client(None, Some(1)));
        let open = usage.stream(&limited).expect("the first");
        assert!(usage.stream(&limited).is_none());
        drop(open);
        usage.stream(&limited).expect("there is room again");
        let _many: Vec<_> = (0..50).map(|_| usage.stream(&client(None, None)).expect("no limit")).collect();
        usage.call(&limited, Instant::now()).expect("no limit");
    }
}
