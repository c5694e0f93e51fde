//! Logs, metrics and the process-wide TLS provider: what `main` switches on before anything else.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use crate::trace::TraceArgs;
use anyhow::{Context as _, anyhow, bail};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Upper bounds in seconds of the buckets of every histogram whose name ends in `_seconds`: from a statement in
/// Postgres to a provider call that runs into its time-out.
const SECONDS_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Libraries that have messages in their hands, headers and bodies included: what they say at `debug` and `trace` is theirs to
/// change with any release, so they say it only where the filter names them.
const CARRIERS: [&str; 8] = ["h2", "hyper", "hyper_util", "reqwest", "rustls", "sqlx", "tonic", "tower"];

/// How a process logs. Flatten it into the service's own arguments.
#[derive(clap::Args, Clone, Debug)]
pub struct TelemetryArgs {
    /// How log lines look: `text` for people, `json` (one object per line) for machines
    #[arg(long, value_enum, env = "BONGSU_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// What is logged: a level, or levels by target, such as `info,sender_svc=debug`. Libraries that carry messages say no more
    /// than at info unless they are named: `debug,h2=debug`
    #[arg(long = "log", env = "BONGSU_LOG", default_value = "info,sqlx=warn", value_name = "FILTER")]
    pub log: String,

    #[command(flatten)]
    pub trace: TraceArgs,
}

/// How log lines look.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// Starts logging to stderr (stdout is for data) and has panics logged too. `service` names the process in its first
/// line. Colour only on a terminal and without `NO_COLOR`.
///
/// # Errors
///
/// When the filter does not parse, and when logging was started in this process before.
pub fn init(args: &TelemetryArgs, service: &'static str) -> anyhow::Result<()> {
    let filter = parse_filter(&args.log)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => builder.with_ansi(colour_wanted()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow!("logging could not be started: {error}"))?;
    log_panics();
    tracing::info!(service, version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "starting");
    Ok(())
}

/// Installs the process-wide metrics recorder, which [`crate::admin::serve`] exposes. Call it as often as you like:
/// every call returns a handle to the same recorder.
///
/// # Errors
///
/// When the process has another recorder already.
pub fn install_metrics() -> anyhow::Result<PrometheusHandle> {
    static INSTALLED: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(|error| error.to_string())
    });
    installed.clone().map_err(|error| anyhow!("the metrics recorder could not be installed: {error}"))
}

/// Makes ring the TLS provider of this process, unless it has one: reqwest panics without. Call it as often as you
/// like.
pub fn install_crypto() {
    // The only error is that a provider is installed already, which is all we ask for.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Parses `--log`, more strictly than `EnvFilter`, to which `inof` is a target of that name and silence for the rest.
fn parse_filter(filter: &str) -> anyhow::Result<EnvFilter> {
    let advice = "give --log (BONGSU_LOG) a level (error, warn, info, debug, trace, off) or levels by target, \
                  such as info,sender_svc=debug";
    let directives: Vec<&str> = filter.split(',').map(str::trim).collect();
    for directive in &directives {
        let bare_word = !directive.contains(['=', '[']);
        if bare_word && (directive.is_empty() || directive.parse::<LevelFilter>().is_err()) {
            bail!("`{directive}` in the log filter `{filter}` is no level; {advice}");
        }
    }
    let directives: Vec<_> = directives.iter().map(ToString::to_string).chain(quiet(&directives)).collect();
    EnvFilter::try_new(directives.join(","))
        .with_context(|| format!("the log filter `{filter}` does not parse; {advice}"))
}

/// What keeps carriers quiet that are not named, where the level for everybody would have them talk.
fn quiet(directives: &[&str]) -> Vec<String> {
    let for_all = directives.iter().filter_map(|directive| directive.parse::<LevelFilter>().ok()).max();
    if for_all.is_none_or(|level| level <= LevelFilter::INFO) {
        return vec![];
    }
    let named = |carrier: &str| {
        directives.iter().any(|directive| directive.split(['=', '[', ':']).next() == Some(carrier))
    };
    CARRIERS.iter().filter(|carrier| !named(carrier)).map(|carrier| format!("{carrier}=info")).collect()
}

/// See <https://no-color.org>: set and not empty means no colour.
fn colour_wanted() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !no_color
}

/// Sends panics through the log, where they are found and filtered like everything else; with logging filtered away,
/// they are still printed by the hook that was there before.
fn log_panics() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if tracing::enabled!(tracing::Level::ERROR) {
            log_panic(panic);
        } else {
            previous(panic);
        }
    }));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("(no message)");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let backtrace = Backtrace::capture(); // empty unless RUST_BACKTRACE asks for it
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(%location, %thread, %backtrace, "panicked: {message}");
    } else {
        tracing::error!(%location, %thread, "panicked: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused_instead_of_silencing_the_log() {
        for filter in ["inof", "info,sender_svc=debgu", "info,sqlx", "", "info,"] {
            let error = parse_filter(filter).expect_err(filter).to_string();
            assert!(error.contains("--log (BONGSU_LOG)"), "{error}");
        }
        for filter in ["info", "WARN", "off", "info,sender_svc=debug", "info, sqlx=warn", "[span]=trace"] {
            parse_filter(filter).expect(filter);
        }
    }

    #[test]
    fn libraries_that_carry_messages_talk_only_when_named() {
        assert!(quiet(&["info", "sqlx=warn"]).is_empty() && quiet(&["error"]).is_empty());
        assert_eq!(quiet(&["trace"]).len(), CARRIERS.len());
        let some = quiet(&["debug", "h2=trace", "sqlx::query=debug"]);
        assert!(
            some.contains(&"hyper=info".to_owned())
                && !some.iter().any(|d| d.starts_with("h2") || d.starts_with("sqlx"))
        );
        let filter = parse_filter("trace,h2=debug").expect("a good filter").to_string();
        assert!(filter.contains("hyper=info") && filter.contains("h2=debug"), "{filter}");
    }

    #[test]
    fn metrics_and_crypto_can_be_installed_twice() {
        let first = install_metrics().expect("first");
        let second = install_metrics().expect("second");
        metrics::histogram!("ops_test_seconds").record(0.004);
        assert_eq!(first.render(), second.render());
        assert!(first.render().contains(r#"ops_test_seconds_bucket{le="0.005"} 1"#), "{}", first.render());
        install_crypto();
        install_crypto();
    }
}
