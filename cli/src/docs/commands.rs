//! Every command line in the documentation is one that we parse, and every option and variable it names is there.

use std::collections::BTreeSet;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser};

use super::mentions::{self, Mention};
use super::{Intake, Sender, pages};
use crate::Cli;
use crate::services::Service;

/// What stands for something, and an example of it.
const PLACEHOLDERS: [(&str, &str); 6] = [
    ("ID", "1"),
    ("BROADCAST", "1"),
    ("DEVICE", "1"),
    ("N", "1"),
    ("SCENARIO", "burst"),
    ("NAME=URL", "push=https://push.example/send"),
];

/// Options in the docs that are other programs'.
const FOREIGN_OPTIONS: [&str; 2] = ["path", "release"]; // cargo's

/// Variables that no command line has: those of tests, of builds and of the examples, and a secret.
const OTHER_VARIABLES: [&str; 5] =
    ["BONGSU_TEST_DATABASE_URL", "BONGSU_UPDATE_DOCS", "BONGSU_KEY", "BONGSU_PROVIDER", "BONGSU_TOKEN"];

#[test]
fn every_command_line_in_the_docs_is_one_that_we_parse() {
    let mut wrong = vec![];
    let mut count = 0;
    for (page, text) in pages() {
        for mention in mentions::of(&text) {
            let (line, whole) = match &mention {
                Mention::Line(line) => (line, true),
                Mention::Inline(line) => (line, false),
            };
            for command in mentions::commands(line) {
                let Some(parsed) = parse(&command) else { continue };
                count += 1;
                let whole = whole && !command.iter().any(|word| word == "…");
                if let Err(error) = parsed
                    && (whole || !left_out(error.kind(), &command))
                {
                    wrong.push(format!("{page}: {}\n    {}", command.join(" "), error.to_string().trim()));
                }
            }
        }
    }
    assert!(count > 50, "only {count} command lines were found: the docs are not read as they should be");
    assert!(wrong.is_empty(), "these command lines do not parse:\n{}", wrong.join("\n"));
}

#[test]
fn every_option_and_variable_in_the_docs_is_there() {
    let (options, variables) = known();
    let mut unknown = BTreeSet::new();
    for (page, text) in pages() {
        for mention in mentions::of(&text) {
            let Mention::Inline(code) = mention else { continue };
            let name = code.strip_prefix("--").and_then(|rest| rest.split([' ', '=']).next());
            if let Some(name) = name
                && !options.contains(name)
                && !FOREIGN_OPTIONS.contains(&name)
            {
                unknown.insert(format!("{page}: --{name}"));
            }
        }
        let letters = |c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let named =
            text.split(letters).filter(|word| word.starts_with("BONGSU_") && word.len() > "BONGSU_".len());
        let strange = named.filter(|word| !variables.contains(*word) && !OTHER_VARIABLES.contains(word));
        unknown.extend(strange.map(|word| format!("{page}: {word}")));
    }
    assert!(unknown.is_empty(), "nothing has these options or variables: {unknown:#?}");
}

/// None where it is not ours. Where the database is, people have in their environment.
fn parse(command: &[String]) -> Option<Result<(), clap::Error>> {
    let as_it_stands = parse_whole(command)?;
    if as_it_stands.as_ref().is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument) {
        let database = "--database-url=postgres://db/bongsu".to_owned();
        let with_database = parse_whole(&[command, &[database]].concat())?;
        return Some(if with_database.is_ok() { with_database } else { as_it_stands });
    }
    Some(as_it_stands)
}

fn parse_whole(command: &[String]) -> Option<Result<(), clap::Error>> {
    let filled = command.iter().filter(|word| *word != "…").map(|word| {
        let example = PLACEHOLDERS.iter().find(|(name, _)| name == word);
        example.map_or_else(|| word.clone(), |(_, example)| (*example).to_owned())
    });
    let words: Vec<String> = filled.collect();
    let hidden = words.get(1).is_some_and(|name| Service::command().find_subcommand(name).is_some());
    match words[0].as_str() {
        "bongsu" if hidden => Some(Service::try_parse_from(&words).map(drop)),
        "bongsu" => Some(Cli::try_parse_from(&words).map(drop)),
        "intake-svc" => Some(Intake::try_parse_from(&words).map(drop)),
        "sender-svc" => Some(Sender::try_parse_from(&words).map(drop)),
        _ => None,
    }
    .map(|parsed| parsed.or_else(|error| if error.use_stderr() { Err(error) } else { Ok(()) }))
}

/// A sentence may name a command without all that it needs, and an option without its value.
fn left_out(kind: ErrorKind, command: &[String]) -> bool {
    use ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument, MissingSubcommand};
    let ends_with_option = command.last().is_some_and(|word| word.starts_with("--"));
    let missing = matches!(
        kind,
        DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument | MissingSubcommand
    );
    missing || (kind == ErrorKind::InvalidValue && ends_with_option)
}

/// The names of all options, and of all variables.
fn known() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut options, mut variables) =
        (BTreeSet::from(["help".to_owned(), "version".to_owned()]), BTreeSet::new());
    let mut rest: Vec<Command> =
        vec![Cli::command(), Service::command(), Intake::command(), Sender::command()];
    while let Some(command) = rest.pop() {
        for option in command.get_arguments() {
            options.extend(option.get_long().map(str::to_owned));
            variables.extend(option.get_env().map(|name| name.to_string_lossy().into_owned()));
        }
        rest.extend(command.get_subcommands().cloned());
    }
    (options, variables)
}
