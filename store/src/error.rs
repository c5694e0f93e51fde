//! What can go wrong between Bongsu and Postgres, sorted by what the caller can do about it.

use std::time::Duration;

/// A failed store operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Postgres could not be reached, is starting or stopping, has no connection left, or was too slow. Nothing is known
    /// to be wrong with the request: ask again.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// Postgres works, but a statement took longer, or waited longer for a lock, than it may. Ask again, for less.
    #[error("the database is too slow: {0}")]
    TooSlow(String),
    /// Postgres refused a value or a constraint failed.
    #[error("the database refused the data: {0}")]
    Data(String),
    /// What this program was told about the database cannot be.
    #[error("{0}")]
    Config(String),
    /// The schema is not the one this program was built for.
    #[error("{0}")]
    Schema(String),
    /// Anything else: a bug.
    #[error("unexpected database error: {0}")]
    Bug(String),
}

/// Shorthand for results of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// Whether asking again later can help.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::TooSlow(_))
    }

    pub(crate) fn timed_out(what: &str, after: Duration) -> Self {
        Self::TooSlow(format!("{what} had no answer within {after:?}"))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let text = error.to_string();
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(text),
            sqlx::Error::Database(db) => {
                let code = db.code().unwrap_or_default().into_owned();
                by_sqlstate(&code, text)
            }
            _ => Self::Bug(text),
        }
    }
}

/// Sorts by SQLSTATE (PostgreSQL documentation, appendix A).
fn by_sqlstate(code: &str, text: String) -> StoreError {
    match code {
        // Schema of another version: undefined column, object, table, function.
        "42703" | "42704" | "42P01" | "42883" | "3F000" => {
            StoreError::Schema(format!("{text} — is the schema up to date? run `bongsu migrate`"))
        }
        // statement_timeout and lock_timeout.
        "57014" | "55P03" => StoreError::TooSlow(text),
        // A cached plan after a migration: the next try prepares it anew.
        "0A000" if text.contains("cached plan") => StoreError::Unavailable(text),
        _ => match code.get(..2).unwrap_or_default() {
            // Connection, rollback (serialisation, deadlock), resources, object in use, operator intervention
            // (statement_timeout, shutdown, starting up), system error; read-only during a failover.
            "08" | "25" | "40" | "53" | "55" | "57" | "58" => StoreError::Unavailable(text),
            "22" | "23" => StoreError::Data(text),
            // Authentication and missing database are configuration, but ask-again is right while it is being set up.
            "28" | "3D" => StoreError::Unavailable(text),
            _ => StoreError::Bug(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_restarts_or_is_full_can_be_asked_again_a_bad_value_cannot() {
        for code in ["57P01", "57P03", "53300", "40P01", "57014", "08006", "55P03"] {
            assert!(by_sqlstate(code, String::new()).is_unavailable(), "{code}");
        }
        assert!(matches!(by_sqlstate("22021", String::new()), StoreError::Data(_)));
        assert!(matches!(by_sqlstate("23514", String::new()), StoreError::Data(_)));
        assert!(matches!(by_sqlstate("42P01", String::new()), StoreError::Schema(_)));
        assert!(matches!(by_sqlstate("42601", String::new()), StoreError::Bug(_)));
    }
}
