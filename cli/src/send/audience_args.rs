//! Whom a broadcast is for, as arguments.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bongsu_proto::v1;
use bongsu_proto::v1::audience::Kind;

use crate::words::parse_id;

/// The most users one broadcast may name.
const MAX_USERS: usize = 100_000;
/// The longest line of a file of users we read, in bytes: the longest user id, and some room.
const MAX_LINE_BYTES: u64 = 1_024;

#[derive(Debug, clap::Args)]
#[group(id = "whom", multiple = false)]
pub struct AudienceArgs {
    /// Everyone who has a device with consent
    #[arg(long, help_heading = "Audience (one of)")]
    to_everyone: bool,

    /// Devices subscribed to this topic; repeat for several
    #[arg(long = "topic", value_name = "TOPIC", help_heading = "Audience (one of)")]
    topics: Vec<String>,

    /// All devices of this user; repeat for several
    #[arg(long = "user", value_name = "ID", help_heading = "Audience (one of)")]
    users: Vec<String>,

    /// All devices of the users in this file, one id a line; - for stdin
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Audience (one of)")]
    users_file: Option<PathBuf>,

    /// Exactly this device; repeat for several
    #[arg(long = "device", value_name = "ID", value_parser = parse_id, help_heading = "Audience (one of)")]
    devices: Vec<i64>,
}

impl AudienceArgs {
    pub fn reads_stdin(&self) -> bool {
        self.users_file.as_deref() == Some(Path::new("-"))
    }

    /// None where the command line names nobody.
    pub fn into_audience(self) -> anyhow::Result<Option<v1::Audience>> {
        let kind = if self.to_everyone {
            Kind::Everyone(v1::EveryoneAudience {})
        } else if !self.topics.is_empty() {
            Kind::Topics(v1::TopicAudience { topics: self.topics })
        } else if !self.devices.is_empty() {
            Kind::Devices(v1::DeviceAudience { device_ids: self.devices })
        } else if let Some(path) = self.users_file {
            Kind::Users(v1::UserAudience { user_ids: read_users_file(&path)? })
        } else if !self.users.is_empty() {
            Kind::Users(v1::UserAudience { user_ids: self.users })
        } else {
            return Ok(None);
        };
        Ok(Some(v1::Audience { kind: Some(kind) }))
    }
}

fn read_users_file(path: &Path) -> anyhow::Result<Vec<String>> {
    let (name, users) = if path.as_os_str() == "-" {
        ("stdin".to_owned(), read_users(std::io::stdin().lock()))
    } else {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{name} could not be opened"))?;
        (name, read_users(BufReader::new(file)))
    };
    let users = users.with_context(|| format!("{name} is no list of users"))?;
    if users.is_empty() {
        bail!("{name} names no users: write one user id a line");
    }
    Ok(users)
}

/// One id a line, without the white space around it; empty lines are passed over.
fn read_users(mut input: impl BufRead) -> anyhow::Result<Vec<String>> {
    let mut users = Vec::new();
    for number in 1_u64.. {
        let mut line = Vec::new();
        let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if read as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
            bail!("line {number} is longer than any user id: write one user id of at most 256 bytes a line");
        }
        let user = std::str::from_utf8(&line).with_context(|| format!("line {number} is not UTF-8"))?.trim();
        if user.is_empty() {
            continue;
        }
        if users.len() == MAX_USERS {
            bail!(
                "more than {MAX_USERS} users: send to them in parts, or subscribe their devices to a topic"
            );
        }
        users.push(user.to_owned());
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_a_line_each() {
        assert_eq!(read_users(&b"  u1\r\n\n\xea\xb0\x80\nlast"[..]).expect("a list"), ["u1", "가", "last"]);
        assert!(read_users(&b""[..]).expect("an empty list").is_empty());
    }

    #[test]
    fn a_file_that_is_no_list_of_users_is_refused_with_the_line() {
        let long = [b"ok\n".to_vec(), vec![b'x'; 2_000]].concat();
        assert!(read_users(&long[..]).expect_err("too long").to_string().starts_with("line 2 is longer"));
        assert!(
            read_users(&b"a\n\xff\n"[..])
                .expect_err("not text")
                .to_string()
                .starts_with("line 2 is not UTF-8")
        );
        let many = "u\n".repeat(MAX_USERS + 1);
        assert!(
            read_users(many.as_bytes()).expect_err("too many").to_string().starts_with("more than 100000")
        );
    }
}
