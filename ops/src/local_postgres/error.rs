//! Why there is no private PostgreSQL, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::binaries::OLDEST_MAJOR;

/// How to get the server binaries, and the way around them.
const INSTALL: &str = "install it\n  Debian, Ubuntu:  apt-get install postgresql\n  Fedora:          dnf install \
                       postgresql-server\n  macOS:           brew install postgresql@17\nor give the URL of a \
                       database in BONGSU_DATABASE_URL";

/// Why [`super::LocalPostgres::start`] failed. Every message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LocalPostgresError {
    /// No server binaries anywhere we look.
    #[error(
        "no PostgreSQL server on this machine (looked for initdb, pg_ctl and postgres beside each other on PATH and in \
         the usual places): {INSTALL}"
    )]
    NotInstalled,

    /// Server binaries, but only of versions we do not support.
    #[error("PostgreSQL {major} in {} is older than {OLDEST_MAJOR}, the oldest we support: {INSTALL}", bin.display())]
    TooOld {
        /// The newest version found.
        major: u32,
        /// Where it is.
        bin: PathBuf,
    },

    /// Running as root without a user to run the server as.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody` to run it as: start this \
         as an ordinary user, or give the URL of a database in BONGSU_DATABASE_URL"
    )]
    NoUser,

    /// Nowhere to put the cluster.
    #[error(
        "no place for a private PostgreSQL (tried: {tried}): set TMPDIR to a directory that {user} can write to and \
         whose path is short enough for a socket, or give the URL of a database in BONGSU_DATABASE_URL"
    )]
    NoDirectory {
        /// Each place, with what is wrong with it.
        tried: String,
        /// Who has to be able to use it.
        user: String,
    },

    /// One of [`super::Options::settings`] would not survive a configuration file.
    #[error(
        "`{name}` is not a PostgreSQL setting we can pass on: names are letters, digits, `_` and `.`, values one line"
    )]
    Setting {
        /// The setting's name as given.
        name: String,
    },

    /// A file could not be prepared.
    #[error("{} could not be written: check the space and the permissions there", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// The guard process could not be started or waited for.
    #[error("the process that guards a private PostgreSQL could not be run as /bin/sh: {0}")]
    Guard(#[source] io::Error),

    /// The guard process has no output; cannot happen.
    #[error("the process that guards a private PostgreSQL has no output to read: please report this")]
    NoPipe,

    /// `initdb` or the server failed.
    #[error(
        "the private PostgreSQL did not start; its log ends with\n{log}\nif that does not help, give the URL of a \
         database in BONGSU_DATABASE_URL"
    )]
    Start {
        /// The end of what initdb and the server logged.
        log: String,
    },
}
