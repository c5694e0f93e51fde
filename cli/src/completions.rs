//! `bongsu completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::error::Failure;
use crate::{Cli, Context};

/// Print a completion script for a shell
///
/// For bash: bongsu completions bash > ~/.local/share/bash-completion/completions/bongsu
/// For zsh: bongsu completions zsh > ~/.zfunc/_bongsu, with ~/.zfunc in fpath
/// For fish: bongsu completions fish > ~/.config/fish/completions/bongsu.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    shell: Shell,
}

pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    context.output.data(&script(args.shell))
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new(); // clap_complete would panic where stdout is closed
    clap_complete::generate(shell, &mut Cli::command(), "bongsu", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_completes_commands_options_and_values() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for word in ["dead-letters", "guarantee", "at_most_once", "attempts_exhausted", "quarantined"] {
                assert!(script.contains(word), "{shell} does not know {word}");
            }
        }
    }
}
