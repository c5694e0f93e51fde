//! Room for connections: each is an open file.

use anyhow::ensure;
use bongsu_ops::open_files;

use crate::table::number;

/// Open files that a process of ours needs beside its connections: the database's, the provider's, and those of its runtime.
const SPARE: u64 = 1_000;

/// Lets this process, and those that it starts from now on, have so many connections.
///
/// # Errors
///
/// When the system does not allow so many; it says what to do.
pub fn allow(connections: u64) -> anyhow::Result<()> {
    let wanted = connections + SPARE;
    let allowed = open_files::raise(wanted);
    ensure!(
        allowed >= wanted,
        "{} connections need {} open files, and this process may have {}: raise its hard limit (`ulimit -Hn`, LimitNOFILE= \
         of systemd, --ulimit nofile= of Docker), or ask for {} connections",
        number(connections.cast_signed()),
        number(wanted.cast_signed()),
        number(allowed.cast_signed()),
        number(allowed.saturating_sub(SPARE).cast_signed())
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_allows_is_had_and_more_is_refused_with_what_would_go() {
        allow(10).expect("as many as any process has");
        let error = allow(1 << 40).expect_err("no system has so many").to_string();
        assert!(error.contains("1,099,511,627,776 connections need"), "{error}");
        assert!(error.contains("hard limit") && error.contains("or ask for"), "{error}");
    }
}
