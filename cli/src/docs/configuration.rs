//! docs/configuration.md, made from the command lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Args, Command, CommandFactory, Parser};

use super::root;
use crate::Cli;

/// Set, it makes the test write the page instead of comparing it.
const UPDATE: &str = "BONGSU_UPDATE_DOCS";

const PREFACE: &str = "\
# Configuration

Every setting of the services is an option and an environment variable; the option wins. They are read once, at the start, and
checked together: a service whose configuration cannot keep the promises refuses to start and says why. Providers have a file of
their own: [providers.md](providers.md). What a secret is in, the database's URL, belongs in the environment.
A switch is `true` or `false` there.

This page is made from the command lines: `BONGSU_UPDATE_DOCS=1 cargo test -p bongsu --lib docs::configuration`.
";

const INTAKE: &str = "
## intake-svc

The same for `bongsu intake`. `intake-svc healthcheck` asks the one on this host whether it is ready.
";

const SENDER: &str = "
## sender-svc

The same for `bongsu sender`. `sender-svc healthcheck` asks the one on this host whether it is ready. All senders should have the
same settings.
";

const OPERATOR: &str = "
## bongsu

What the operator's tool takes from the environment; every command's `--help` has its other options.
";

#[derive(Parser)]
struct Intake {
    #[command(flatten)]
    config: intake_svc::Config,
}

#[derive(Parser)]
struct Sender {
    #[command(flatten)]
    config: sender_svc::Config,
}

#[test]
fn the_page_of_settings_says_what_the_command_lines_say() {
    let made = page();
    let path = root().join("docs/configuration.md");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, made).expect("docs/ can be written");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = made.lines().zip(there.lines().chain(std::iter::repeat(""))).find(|(new, old)| new != old);
    assert!(
        made == there,
        "docs/configuration.md is stale, first at {stale:?}: renew it with `{UPDATE}=1 cargo test -p bongsu --lib \
         docs::configuration`"
    );
}

#[test]
fn a_range_is_what_the_service_itself_names_when_it_refuses_to_start() {
    assert_eq!(range("--fan-out-workers", intake_problems), "0 to 64");
    assert_eq!(range("--retry-factor", sender_problems), "1 to 100");
    assert_eq!(range("--log", intake_problems), "");
}

fn page() -> String {
    let mut out = PREFACE.to_owned();
    out.push_str(INTAKE);
    service::<intake_svc::Config>(intake_problems, &mut out);
    out.push_str(SENDER);
    service::<sender_svc::Config>(sender_problems, &mut out);
    out.push_str(OPERATOR);
    out.push_str("\n| setting | variable | default | of | meaning |\n| --- | --- | --- | --- | --- |\n");
    let mut settings = BTreeMap::new();
    variables_of(&Cli::command(), "all commands", &mut settings);
    for ([name, variable, default, meaning], commands) in settings {
        let commands = commands.into_iter().collect::<Vec<_>>().join(", ");
        writeln!(out, "| `{name}` | {variable} | {default} | {commands} | {meaning} |")
            .expect("a string takes it");
    }
    out
}

fn service<C: Args>(problems: fn(&str) -> String, out: &mut String) {
    out.push_str("\n| setting | variable | default | range | meaning |\n| --- | --- | --- | --- | --- |\n");
    for setting in C::augment_args(Command::new("service")).get_arguments() {
        let name = name(setting);
        let range = range(&name, problems);
        writeln!(
            out,
            "| `{name}` | {} | {} | {range} | {} |",
            variable(setting),
            default(setting),
            meaning(setting)
        )
        .expect("a string takes it");
    }
}

/// Of a command and all below it, what comes from the environment, too: what there is to say of it, and whose it is.
fn variables_of(command: &Command, path: &str, settings: &mut BTreeMap<[String; 4], BTreeSet<String>>) {
    for setting in command.get_arguments().filter(|setting| setting.get_env().is_some()) {
        let row = [name(setting), variable(setting), default(setting), meaning(setting)];
        settings.entry(row).or_default().insert(path.to_owned());
    }
    for below in command.get_subcommands() {
        let name = format!("`{}`", below.get_name());
        variables_of(below, &name, settings);
    }
}

fn name(setting: &Arg) -> String {
    format!("--{}", setting.get_long().expect("settings have names"))
}

fn variable(setting: &Arg) -> String {
    setting.get_env().map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()))
}

fn default(setting: &Arg) -> String {
    let values = setting.get_default_values();
    match setting.get_action() {
        ArgAction::SetTrue => "off".to_owned(),
        _ if values.is_empty() => "none".to_owned(),
        _ => {
            format!("`{}`", values.iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(","))
        }
    }
}

fn meaning(setting: &Arg) -> String {
    let help = setting.get_long_help().or(setting.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let values: Vec<_> =
        setting.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect();
    let switch = matches!(setting.get_action(), ArgAction::SetTrue);
    let choice =
        if values.is_empty() || switch { String::new() } else { format!("; one of {}", values.join(", ")) };
    format!("{help}{choice}").replace('|', "\\|").replace('<', "&lt;")
}

/// What the service says to a value beyond all reason; nothing where it takes that, or where it is no number.
fn range(name: &str, problems: fn(&str) -> String) -> String {
    let said = problems(&format!("{name}=4294967295"));
    let line = said.lines().find(|line| line.trim().starts_with(&format!("{name} (")));
    line.and_then(|line| line.rsplit_once(": give it "))
        .map_or_else(String::new, |(_, range)| range.to_owned())
}

fn intake_problems(argument: &str) -> String {
    let parsed = Intake::try_parse_from(["x", "--database-url=postgres://db/bongsu", argument]);
    let refused = parsed.ok().and_then(|intake| intake.config.validate().err());
    refused.map(|error| error.to_string()).unwrap_or_default()
}

fn sender_problems(argument: &str) -> String {
    let webhook = "--webhook=push=https://push.example/send";
    let parsed = Sender::try_parse_from(["x", "--database-url=postgres://db/bongsu", webhook, argument]);
    let refused = parsed.ok().and_then(|sender| sender.config.validate().err());
    refused.map(|error| error.to_string()).unwrap_or_default()
}
