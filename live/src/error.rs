//! What can go wrong with presence and bus.

use bongsu_store::StoreError;
use redis::{ErrorKind, RedisError};

/// Presence or bus could not be used. Nothing is lost by that: treat it as if nobody were connected, and ask again later.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LiveError {
    /// Postgres, where they are kept there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis could not be reached, did not answer in time, or was asked moments ago and did not.
    #[error("Redis is unavailable: {0}")]
    Unavailable(String),
    /// Redis is there and does not let us do what we need.
    #[error(
        "Redis refuses it: {0}; look at the user, the password and the database number in --live-redis (BONGSU_LIVE_REDIS), and at \
         what that user may do (docs/security.md)"
    )]
    Refused(String),
}

/// What an answer begins with when the user is a wrong one, or may not do it.
const REFUSALS: [&str; 5] = ["NOAUTH", "WRONGPASS", "NOPERM", "NOPROTO", "DENIED"];

/// Within a script there is no such word, only this one.
const REFUSAL_IN_A_SCRIPT: &str = "user executing the script can't";

impl From<RedisError> for LiveError {
    fn from(error: RedisError) -> Self {
        let text = error.to_string();
        let refused =
            matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig)
                || error.code().is_some_and(|code| REFUSALS.contains(&code))
                || text.contains(REFUSAL_IN_A_SCRIPT);
        if refused { Self::Refused(text) } else { Self::Unavailable(text) }
    }
}
