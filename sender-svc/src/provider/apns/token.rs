//! The provider token of the moment, the same at every sender.
//!
//! Apple refuses a token that is over an hour old, and a change sooner than 20 minutes after the one before, whoever made it.
//! So tokens are issued at the full and the half hour, by the clock that all have, and are signed so that the text is the same
//! wherever it is made. Nobody has to tell anybody.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{DATE, HeaderValue};

use super::Reply;
use super::answer::Failure;
use super::jwt::Key;
use crate::provider::credentials::Credentials;

/// Seconds from one token to the next.
const STEP_S: u64 = 30 * 60;
/// A token that comes sooner than so many seconds after another one may be refused for that.
const LEAST_LIFE_S: u64 = 20 * 60;
/// Our clock may differ by so many seconds from Apple's before we go by theirs.
const TOLERATED_SKEW_S: u64 = 60;
/// No token was refused for coming too soon.
const NONE: u64 = 0;

/// Whoever signs with this key.
pub(super) struct Tokens {
    key: Arc<Credentials<Key>>,
    key_id: String,
    team_id: String,
    clock: Clock,
    /// When the latest token was issued that was refused for coming too soon after another.
    too_soon: AtomicU64,
    now: RwLock<Option<Arc<Token>>>,
}

/// A provider token.
pub(super) struct Token {
    key: Arc<Key>,
    issued_at: u64,
    header: HeaderValue,
}

// Nothing that could be used.
impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tokens of the key {} of the team {}", self.key_id, self.team_id)
    }
}

impl Token {
    /// As the header that carries it.
    pub fn header(&self) -> &HeaderValue {
        &self.header
    }
}

impl Tokens {
    pub fn new(key: Arc<Credentials<Key>>, key_id: String, team_id: String) -> Self {
        let clock = Clock { ahead_s: AtomicI64::new(0) };
        Self { key, key_id, team_id, clock, too_soon: AtomicU64::new(NONE), now: RwLock::new(None) }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The token of the moment. Made once for a key and half an hour.
    pub fn get(&self) -> Arc<Token> {
        let key = self.key.get();
        let issued_at = issue_time(self.clock.unix_s(), self.too_soon.load(Ordering::Relaxed));
        let fits = |token: &Arc<Token>| {
            (token.issued_at == issued_at && Arc::ptr_eq(&token.key, &key)).then(|| token.clone())
        };
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(fits);
        if let Some(token) = known {
            return token;
        }
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have made it meanwhile.
        if let Some(token) = now.as_ref().and_then(fits) {
            return token;
        }
        let text = format!("bearer {}", key.token(&self.key_id, &self.team_id, issued_at));
        let mut header = HeaderValue::from_str(&text).expect("base64 and dots");
        // Neither shown nor logged. HTTP/2 would not have kept it in its table either: h2 does so with no authorization.
        header.set_sensitive(true);
        let token = Arc::new(Token { key, issued_at, header });
        *now = Some(token.clone());
        token
    }

    /// What to try at once in place of a token that was used for a call that failed so; `None` where the token is not to
    /// blame, or is the only one there is.
    pub fn instead_of(&self, used: &Arc<Token>, failure: &Failure, reply: &Reply) -> Option<Arc<Token>> {
        match &*failure.reason {
            "ExpiredProviderToken" | "InvalidProviderToken" => {
                let date = reply.headers.get(DATE).and_then(|date| date.to_str().ok());
                if let Some(date) = date.and_then(|date| httpdate::parse_http_date(date).ok()) {
                    self.clock.follow(unix_s_of(date));
                }
            }
            "TooManyProviderTokenUpdates" => {
                if self.too_soon.fetch_max(used.issued_at, Ordering::Relaxed) < used.issued_at {
                    tracing::warn!(
                        key_id = self.key_id,
                        "APNs says that provider tokens of this team change too often"
                    );
                }
            }
            _ => return None,
        }
        Some(self.get()).filter(|token| !Arc::ptr_eq(token, used))
    }
}

/// When the token was issued that is used at `now`; both in seconds since 1970, as is `too_soon`.
///
/// Whoever began shortly before the half hour changes its token shortly after its first one. Where that is refused, the one of
/// before is used until nobody can call the change too soon: it is 50 minutes old then, less than the hour that it may be.
fn issue_time(now: u64, too_soon: u64) -> u64 {
    let step = now - now % STEP_S;
    if step == too_soon && now - step < LEAST_LIFE_S { step.saturating_sub(STEP_S) } else { step }
}

/// The wall clock, as the provider has it where ours is wrong.
pub(super) struct Clock {
    /// How far ours is behind, in seconds.
    ahead_s: AtomicI64,
}

impl Clock {
    /// Seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        unix_s_of(SystemTime::now()).saturating_add_signed(self.ahead_s.load(Ordering::Relaxed))
    }

    /// Seconds since 1970, in `time_left`.
    pub fn unix_s_after(&self, time_left: Duration) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let then = since.saturating_add(time_left).as_secs();
        then.saturating_add_signed(self.ahead_s.load(Ordering::Relaxed))
    }

    /// As if it were this late.
    #[cfg(test)]
    pub fn pretend(&self, unix_s: u64) {
        let ahead_s = unix_s.cast_signed() - unix_s_of(SystemTime::now()).cast_signed();
        self.ahead_s.store(ahead_s, Ordering::Relaxed);
    }

    /// Goes by the provider's clock where it differs too much from what we took the time to be.
    fn follow(&self, provider_s: u64) {
        if provider_s.abs_diff(self.unix_s()) <= TOLERATED_SKEW_S {
            return;
        }
        let ahead_s = provider_s.cast_signed() - unix_s_of(SystemTime::now()).cast_signed();
        // Many calls may find it at once; one tells.
        if self.ahead_s.swap(ahead_s, Ordering::Relaxed).abs_diff(ahead_s) > TOLERATED_SKEW_S {
            tracing::error!(ahead_s, "the clock of APNs differs from ours: tokens are issued by theirs");
        }
    }
}

fn unix_s_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_PAST: u64 = 1_700_001_000 - 1_700_001_000 % STEP_S;

    #[test]
    fn a_token_is_never_older_than_half_an_hour_and_changes_at_the_half_hour() {
        for (now, age) in [(0, 0), (1, 1), (STEP_S - 1, STEP_S - 1), (STEP_S, 0)] {
            assert_eq!(now + HALF_PAST - issue_time(now + HALF_PAST, NONE), age);
        }
    }

    #[test]
    fn one_that_came_too_soon_waits_for_its_turn_and_the_one_of_before_stays_under_an_hour() {
        for now in HALF_PAST..HALF_PAST + 2 * STEP_S {
            let issued = issue_time(now, HALF_PAST);
            assert!(now - issued <= 50 * 60, "{} s old", now - issued);
        }
        assert_eq!(issue_time(HALF_PAST + 5, HALF_PAST), HALF_PAST - STEP_S);
        assert_eq!(issue_time(HALF_PAST + LEAST_LIFE_S, HALF_PAST), HALF_PAST);
    }

    #[test]
    fn a_clock_that_is_wrong_follows_and_one_that_is_nearly_right_does_not() {
        let clock = Clock { ahead_s: AtomicI64::new(0) };
        let now = clock.unix_s();
        clock.follow(now + 50);
        assert!(clock.unix_s() < now + 40);
        clock.follow(now + 5_000);
        assert!((now + 4_999..now + 5_010).contains(&clock.unix_s()));
        clock.follow(now - 5_000);
        assert!((now - 5_001..now - 4_990).contains(&clock.unix_s()));
    }
}
