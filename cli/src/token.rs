//! `bongsu token new`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use bongsu_ops::access::{MIN_TOKEN_BYTES, token_sha256};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use serde_json::json;

use crate::Context;
use crate::error::Failure;

/// How a token begins, so that people and secret scanners know one when they see it.
const PREFIX: &str = "bongsu_";

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    New(Args),
}

/// Make a token for a client of the services
///
/// The token goes into a new file that only you can read, for --token-file. What is printed is its hash, as it stands in the
/// access file of the services: nobody can make the token from it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write the token; a file that exists is left alone
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    let Command::New(Args { file }) = command;
    let mut random = [0; MIN_TOKEN_BYTES];
    OsRng.try_fill_bytes(&mut random).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!("{PREFIX}{hex}");
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut file| writeln!(file, "{token}"));
    written.map_err(|error| Failure::Refused {
        message: format!("the token was not written to {}: {error}", file.display()),
    })?;
    let hash = token_sha256(&token);
    context.output.either(&json!({ "token_sha256": hash }), || format!("token_sha256 = \"{hash}\"\n"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_token_is_written_once_and_for_its_owner_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let line = ["bongsu", "token", "new", &file.display().to_string()].map(str::to_owned);
        let cli = crate::Cli::parse_from(line);
        let context = Context { servers: cli.servers, output: crate::output::Output { json: true } };
        let command = Command::New(Args { file: file.clone() });
        run(&command, &context).expect("made");
        let token = std::fs::read_to_string(&file).expect("written");
        assert!(
            token.starts_with(PREFIX) && token.trim().len() >= 2 * MIN_TOKEN_BYTES,
            "it is random enough"
        );
        assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        run(&command, &context).expect_err("it is there already");
        assert_eq!(std::fs::read_to_string(&file).expect("still there"), token);
    }
}
