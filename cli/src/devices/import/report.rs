//! What became of the rows.

use std::fmt::Write as _;

use bongsu_proto::v1;
use serde::Serialize;

use super::batches::Batches;
use crate::table::{Align, Table, number};

/// Rows that are reported one by one; the others are only counted. The server reports as many.
pub const MAX_PROBLEMS: usize = 1_000;

#[derive(Debug, Serialize)]
pub struct Report {
    /// Rows of the file.
    rows: u64,
    /// Rows that could not be read, and were not sent.
    malformed: u64,
    #[serde(flatten)]
    taken: Option<Taken>,
    dry_run: bool,
    problems: Vec<Problem>,
}

/// What the server did with the rows it got.
#[derive(Debug, Serialize)]
struct Taken {
    created: i64,
    refreshed: i64,
    superseded: i64,
    rejected: i64,
    retired: i64,
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line of the file the row begins in, from 1.
    line: Option<u64>,
    field: String,
    description: String,
}

impl Problem {
    pub fn new(line: u64, field: &str, description: String) -> Self {
        Self { line: Some(line), field: field.to_owned(), description }
    }
}

impl Report {
    pub fn of_import(answer: &v1::ImportDevicesResponse, batches: &Batches) -> Self {
        let rejected = answer.errors.iter().map(|error| Problem {
            line: u64::try_from(error.row).ok().and_then(|row| batches.lines.line(row)),
            field: error.field.clone(),
            description: error.description.clone(),
        });
        let mut problems: Vec<Problem> = batches.problems.iter().cloned().chain(rejected).collect();
        problems.sort_by_key(|problem| problem.line);
        let taken = Taken {
            created: answer.created,
            refreshed: answer.refreshed,
            superseded: answer.superseded,
            rejected: answer.rejected,
            retired: answer.retired,
        };
        Self { taken: Some(taken), problems, dry_run: false, ..Self::of_dry_run(batches) }
    }

    pub fn of_dry_run(batches: &Batches) -> Self {
        Self {
            rows: batches.readable + batches.malformed,
            malformed: batches.malformed,
            taken: None,
            dry_run: true,
            problems: batches.problems.clone(),
        }
    }

    /// Rows that were not taken.
    pub fn refused(&self) -> u64 {
        let rejected = self.taken.as_ref().map_or(0, |taken| taken.rejected);
        self.malformed + u64::try_from(rejected).unwrap_or_default()
    }

    /// For people: the rows that were not taken, and a line with the counts.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.problems.is_empty() {
            let mut table =
                Table::new(&[("LINE", Align::Right), ("FIELD", Align::Left), ("PROBLEM", Align::Left)]);
            let row = |problem: &Problem| {
                let line = problem.line.map(|line| line.to_string()).unwrap_or_default();
                vec![line, problem.field.clone(), problem.description.clone()]
            };
            text = table.page(self.problems.iter().map(row).collect());
            let more = self.refused().saturating_sub(self.problems.len() as u64);
            if more > 0 {
                let _ = writeln!(text, "… and {} more", number(more as i64));
            }
            text.push('\n');
        }
        let _ = write!(text, "rows: {}", number(self.rows as i64));
        if let Some(taken) = &self.taken {
            let counts = [
                ("created", taken.created),
                ("refreshed", taken.refreshed),
                ("superseded", taken.superseded),
                ("rejected", taken.rejected),
            ];
            counts.iter().for_each(|(name, count)| {
                let _ = write!(text, ", {name}: {}", number(*count));
            });
        }
        let _ = write!(text, ", malformed: {}", number(self.malformed as i64));
        if let Some(retired) = self.taken.as_ref().map(|taken| taken.retired).filter(|retired| *retired > 0) {
            let _ = write!(text, "; older devices retired: {}", number(retired));
        }
        text.push_str(if self.dry_run { " (dry run: nothing was sent)\n" } else { "\n" });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_rows_are_reported_with_the_line_of_the_file() {
        let mut batches = Batches { readable: 3, malformed: 1, ..Default::default() };
        [2, 3, 5].into_iter().for_each(|line| batches.lines.push(line));
        batches.problems.push(Problem::new(4, "consent", "is `maybe`".into()));
        let error = v1::ImportError { row: 2, field: "token".into(), description: "is empty".into() };
        let answer = v1::ImportDevicesResponse {
            rows: 3,
            created: 2,
            rejected: 1,
            errors: vec![error],
            ..Default::default()
        };
        let report = Report::of_import(&answer, &batches);
        assert_eq!(report.refused(), 2);
        let expected = "\
LINE  FIELD    PROBLEM
   4  consent  is `maybe`
   5  token    is empty

rows: 4, created: 2, refreshed: 0, superseded: 0, rejected: 1, malformed: 1
";
        assert_eq!(report.text(), expected);
        let json = serde_json::to_value(&report).expect("json");
        assert_eq!((json["created"].as_i64(), json["problems"][1]["line"].as_u64()), (Some(2), Some(5)));
    }
}
