//! `bongsu completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::error::Failure;
use crate::{Cli, Context};

/// Print a completion script for a shell
///
/// For bash: bongsu completions bash > ~/.local/share/bash-completion/completions/bongsu
#[derive(Debug, clap::Args)]
pub struct Args {
    shell: Shell,
}

pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut script = Vec::new(); // clap_complete would panic where stdout is closed
    clap_complete::generate(args.shell, &mut Cli::command(), "bongsu", &mut script);
    context.output.data(&String::from_utf8_lossy(&script))
}
