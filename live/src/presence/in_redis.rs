//! Presence in Redis: for each user a sorted set of senders, by the moment until which their word holds.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

use bongsu_store::{SenderId, UserNo};
use redis::{Script, ScriptInvocation};

use crate::error::LiveError;
use crate::link::Link;

/// How long an announcement holds: three times as long as senders take to make it again.
const HOLDS: Duration = Duration::from_secs(30);
/// Users of a round trip, at most. A script keeps everybody else waiting: so many take about a millisecond.
const BATCH: usize = 1_000;

/// Moments are Redis' own: the clocks of senders need not agree.
const NOW: &str = "local t = redis.call('TIME')\nlocal now = t[1] * 1000 + math.floor(t[2] / 1000)\n";

/// ARGV: sender, milliseconds. With the set goes what dead senders left in it.
static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| {
    script(
        "for _, key in ipairs(KEYS) do
            redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
            redis.call('ZADD', key, now + ARGV[2], ARGV[1])
            redis.call('PEXPIRE', key, ARGV[2])
        end",
    )
});

/// ARGV: sender.
static WITHDRAW: LazyLock<Script> =
    LazyLock::new(|| script("for _, key in ipairs(KEYS) do redis.call('ZREM', key, ARGV[1]) end"));

/// Answers 1 or 0 for each key.
static PRESENT: LazyLock<Script> = LazyLock::new(|| {
    script(
        "local present = {}
        for i, key in ipairs(KEYS) do
            present[i] = math.min(redis.call('ZCOUNT', key, '(' .. string.format('%d', now), '+inf'), 1)
        end
        return present",
    )
});

fn script(body: &str) -> Script {
    Script::new(&format!("{NOW}{body}"))
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct InRedis(Link);

impl InRedis {
    pub(super) fn new(link: Link) -> Self {
        Self(link)
    }

    pub(super) async fn announce(&self, sender: SenderId, users: &[UserNo]) -> Result<(), LiveError> {
        for batch in users.chunks(BATCH) {
            let mut of = self.of(&ANNOUNCE, batch);
            of.arg(sender.0.to_string()).arg(HOLDS.as_millis() as u64);
            self.0.call(async |mut redis| of.invoke_async::<()>(&mut redis).await).await?;
        }
        Ok(())
    }

    pub(super) async fn withdraw(&self, sender: SenderId, users: &[UserNo]) -> Result<(), LiveError> {
        for batch in users.chunks(BATCH) {
            let mut of = self.of(&WITHDRAW, batch);
            of.arg(sender.0.to_string());
            self.0.call(async |mut redis| of.invoke_async::<()>(&mut redis).await).await?;
        }
        Ok(())
    }

    pub(super) async fn present(&self, users: &[UserNo]) -> Result<HashSet<UserNo>, LiveError> {
        let mut found = HashSet::new();
        for batch in users.chunks(BATCH) {
            let of = self.of(&PRESENT, batch);
            let present: Vec<bool> = self.0.call(async |mut redis| of.invoke_async(&mut redis).await).await?;
            found.extend(batch.iter().zip(present).filter_map(|(user, present)| present.then_some(*user)));
        }
        Ok(found)
    }

    fn of<'a>(&self, script: &'a Script, users: &[UserNo]) -> ScriptInvocation<'a> {
        let mut invocation = script.prepare_invoke();
        for user in users {
            invocation.key(format!("{}:here:{}", self.0.prefix(), user.0));
        }
        invocation
    }
}
