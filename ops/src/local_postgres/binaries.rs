//! Where the system keeps PostgreSQL's server binaries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::LocalPostgresError;

/// The oldest major version Bongsu supports.
pub(super) const OLDEST_MAJOR: u32 = 15;

/// What a directory must hold to be of use.
const NEEDED: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// Where packages put a directory per version: its parent, the prefix of its name, and the binaries inside it.
const PER_VERSION: [(&str, &str, &str); 4] = [
    ("/usr/lib/postgresql", "", "bin"),         // Debian, Ubuntu
    ("/usr", "pgsql-", "bin"),                  // postgresql.org's RPMs
    ("/opt/homebrew/opt", "postgresql", "bin"), // macOS on ARM
    ("/usr/local/opt", "postgresql", "bin"),    // macOS on Intel
];

/// The directory of the server binaries to use: the first supported one of `PATH` and then the usual places.
pub(super) fn find() -> Result<PathBuf, LocalPostgresError> {
    let mut newest_too_old: Option<(u32, PathBuf)> = None;
    for bin in on_path().into_iter().chain(in_usual_places()) {
        match major_version(&bin) {
            Some(major) if major >= OLDEST_MAJOR => return Ok(bin),
            Some(major) if newest_too_old.as_ref().is_none_or(|(newest, _)| *newest < major) => {
                newest_too_old = Some((major, bin));
            }
            _ => {}
        }
    }
    Err(match newest_too_old {
        Some((major, bin)) => LocalPostgresError::TooOld { major, bin },
        None => LocalPostgresError::NotInstalled,
    })
}

/// The directories of every `postgres` on `PATH`, links resolved: a link in /usr/local/bin has no `initdb` beside it.
fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let servers = env::split_paths(&path).filter_map(|dir| fs::canonicalize(dir.join("postgres")).ok());
    servers.filter_map(|server| server.parent().map(Path::to_owned)).filter(|bin| is_complete(bin)).collect()
}

fn in_usual_places() -> Vec<PathBuf> {
    PER_VERSION
        .iter()
        .flat_map(|(parent, prefix, inside)| versions(Path::new(parent), prefix, inside))
        .collect()
}

/// The complete directories `parent/prefix*/inside`, newest version first.
fn versions(parent: &Path, prefix: &str, inside: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(prefix)?.trim_start_matches('@');
            // Homebrew's unversioned `postgresql` comes last; what it is shows when it is asked.
            Some((leading_number(version).unwrap_or(0), entry.path().join(inside)))
        })
        .filter(|(_, bin)| is_complete(bin))
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, bin)| bin).collect()
}

fn is_complete(bin: &Path) -> bool {
    NEEDED.iter().all(|name| bin.join(name).is_file())
}

/// What `postgres --version` says; that much it does even for root.
fn major_version(bin: &Path) -> Option<u32> {
    let output = Command::new(bin.join("postgres")).arg("--version").stdin(Stdio::null()).output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// The major version in, for example, `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn parse_version(output: &str) -> Option<u32> {
    leading_number(output.split_once("(PostgreSQL)")?.1.trim_start())
}

fn leading_number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_every_kind_of_release_are_read() {
        assert_eq!(parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta2\n"), Some(18));
        assert_eq!(parse_version("postgres (PostgreSQL) 9.6.24\n"), Some(9));
        assert_eq!(parse_version("something else"), None);
    }

    #[test]
    fn the_newest_complete_version_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for (version, names) in [("9.6", NEEDED.to_vec()), ("17", NEEDED.to_vec()), ("18", vec!["initdb"])] {
            let bin = root.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            for name in names {
                fs::write(bin.join(name), "").unwrap();
            }
        }
        let found = versions(root.path(), "", "bin");
        assert_eq!(found, [root.path().join("17/bin"), root.path().join("9.6/bin")]);
    }
}
