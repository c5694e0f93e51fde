//! Tests of the documentation: what it says of our command lines is true, and what is made from them is fresh.

use std::path::{Path, PathBuf};

use clap::Parser;

mod commands;
mod configuration;
mod mentions;
mod references;

/// `intake-svc` and `sender-svc` as their binaries parse them.
#[derive(Parser)]
#[command(name = "intake-svc")]
struct Intake {
    #[command(flatten)]
    cli: intake_svc::Cli,
}

#[derive(Parser)]
#[command(name = "sender-svc")]
struct Sender {
    #[command(flatten)]
    cli: sender_svc::Cli,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What people read, with where it is.
fn pages() -> Vec<(String, String)> {
    let markdown = |directory: &str| {
        let entries = std::fs::read_dir(root().join(directory)).expect("a directory of the repository");
        let paths = entries.map(|entry| entry.expect("readable").path());
        let mut pages: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
        pages.sort();
        pages
    };
    let directories = [
        "",
        "docs",
        "migrations",
        "examples/check",
        "examples/live",
        "examples/python",
        "examples/typescript",
    ];
    let paths = directories.into_iter().flat_map(markdown);
    paths
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a page is UTF-8");
            let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            (name, text)
        })
        .collect()
}
