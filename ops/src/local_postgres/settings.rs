//! What goes to the end of the cluster's postgresql.conf. Of several lines for one setting the last one counts.

use std::fmt::Write as _;
use std::path::Path;

use super::{LocalPostgresError, Options};

/// Ours, for a server that serves one program on this machine for minutes.
const SETTINGS: [(&str, &str); 10] = [
    ("listen_addresses", ""), // no TCP: clusters side by side need no port each
    ("unix_socket_permissions", "0700"),
    ("max_connections", "200"),
    ("shared_buffers", "128MB"),
    ("max_wal_size", "2GB"), // so that no checkpoint falls into a short measurement
    ("synchronous_commit", "on"),
    ("jit", "off"),
    ("autovacuum_naptime", "5s"), // queue tables change faster than once a minute
    ("log_checkpoints", "off"),
    ("logging_collector", "off"), // the log is the one file that the guard knows
];

/// The lines for these options, with the socket in `dir`.
pub(super) fn file(options: &Options, dir: &Path) -> Result<String, LocalPostgresError> {
    let mut file = String::from("\n# Bongsu's private cluster\n");
    for (name, value) in SETTINGS {
        push(&mut file, name, value)?;
    }
    // A list; the quotes keep a comma or a space in the path from splitting it.
    let socket_dir = format!("\"{}\"", dir.display().to_string().replace('"', "\"\""));
    push(&mut file, "unix_socket_directories", &socket_dir)?;
    let fsync = if options.fsync { "on" } else { "off" };
    push(&mut file, "fsync", fsync)?;
    push(&mut file, "full_page_writes", fsync)?; // they protect against torn writes, as fsync does
    for (name, value) in &options.settings {
        push(&mut file, name, value)?;
    }
    Ok(file)
}

fn push(file: &mut String, name: &str, value: &str) -> Result<(), LocalPostgresError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(plain) || value.contains(['\n', '\r', '\0']) {
        return Err(LocalPostgresError::Setting { name: name.to_owned() });
    }
    let value = value.replace('\\', "\\\\").replace('\'', "''");
    let _ = writeln!(file, "{name} = '{value}'"); // writing to a String does not fail
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_caller_come_last_and_quoted() {
        let settings = vec![("search_path".to_owned(), r"o'clock\".to_owned())];
        let file = file(&Options { fsync: false, settings }, Path::new("/tmp/a,b")).expect("a good setting");
        assert!(file.ends_with("search_path = 'o''clock\\\\'\n"), "{file}");
        assert!(file.contains("\nunix_socket_directories = '\"/tmp/a,b\"'\n"), "{file}");
        assert!(file.contains("\nfsync = 'off'\nfull_page_writes = 'off'\n"), "{file}");
    }

    #[test]
    fn settings_that_would_break_the_file_are_refused() {
        for (name, value) in [("", "x"), ("a b", "x"), ("a\nb", "x"), ("jit", "on\nfsync = off")] {
            let settings = vec![(name.to_owned(), value.to_owned())];
            file(&Options { fsync: true, settings }, Path::new("/tmp")).expect_err(name);
        }
    }
}
