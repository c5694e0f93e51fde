//! Where Postgres is, without ever showing it.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A `postgres://` URL. It may hold a password, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL itself, for whoever connects.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is wrong with the setting, if anything.
    pub fn problem(setting: Option<&Self>) -> Option<&'static str> {
        match setting {
            None => Some(
                "--database-url (BONGSU_DATABASE_URL) is not set: give it the URL of a Postgres, \
                 postgres://user:password@host:5432/database",
            ),
            Some(Self(url)) if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) => Some(
                "--database-url (BONGSU_DATABASE_URL) does not begin with postgres:// (its value is not shown, it may \
                 hold a password): give it postgres://user:password@host:5432/database",
            ),
            Some(_) => None,
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = Infallible;

    fn from_str(url: &str) -> Result<Self, Infallible> {
        Ok(Self(url.to_owned()))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(hidden)")
    }
}
