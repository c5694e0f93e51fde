//! `bongsu doctor`.

use bongsu_store::{DEFAULT_RETENTION_DAYS, Finding, MOST_RETENTION_DAYS, Severity, Store};

use crate::Context;
use crate::error::Failure;

/// One for an examination, one spare.
const CONNECTIONS: u32 = 2;

/// Examine a live database: does everything add up, is anything left lying, and what is to be done
///
/// Reads only. The exit code is 1 if there is anything to say.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where Postgres is: postgres://user:password@host:5432/database (better given in the environment: a command line
    /// can be read by every user of the host)
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    /// Leave out what counts deliveries, which takes seconds for each million
    #[arg(long)]
    quick: bool,

    /// Days for which deliveries are kept, as intakes are told; 0: for ever, and old partitions are not looked for
    #[arg(long, env = "BONGSU_RETENTION_DAYS", value_name = "DAYS", default_value_t = DEFAULT_RETENTION_DAYS,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_RETENTION_DAYS)))]
    retention_days: u32,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let store = Store::new(&args.database_url, CONNECTIONS, "bongsu doctor").map_err(anyhow::Error::from)?;
    let mut findings =
        if args.quick { vec![] } else { store.broken_invariants().await.map_err(unreadable)? };
    findings.extend(store.conditions(args.retention_days).await.map_err(unreadable)?);
    store.close().await;
    if context.output.json {
        findings.iter().try_for_each(|finding| context.output.object(finding))?;
    } else {
        context.output.data(&text(&findings))?;
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err(anyhow::anyhow!("1 thing needs to be looked at").into()),
        n => Err(anyhow::anyhow!("{n} things need to be looked at").into()),
    }
}

fn unreadable(error: bongsu_store::StoreError) -> anyhow::Error {
    anyhow::Error::new(error).context("the database could not be examined")
}

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "everything adds up, and nothing is left lying\n".to_owned();
    }
    let mut text = String::new();
    let mut remedy = "";
    for finding in findings {
        if !remedy.is_empty() && remedy != finding.remedy {
            text.push_str(&format!("  → {remedy}\n"));
        }
        remedy = finding.remedy;
        let mark = if finding.severity == Severity::Broken { "BROKEN: " } else { "" };
        text.push_str(&format!("{mark}{} {}\n", finding.subject, finding.detail));
    }
    text.push_str(&format!("  → {remedy}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said_once_for_all_findings_of_a_kind() {
        let finding = |subject: &str, remedy| Finding {
            check: "x",
            severity: Severity::Attention,
            subject: subject.to_owned(),
            detail: "is late".to_owned(),
            remedy,
        };
        let found = [finding("a", "do this"), finding("b", "do this"), finding("c", "do that")];
        assert_eq!(text(&found), "a is late\nb is late\n  → do this\nc is late\n  → do that\n");
    }
}
