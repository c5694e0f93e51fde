//! Reads the tables of docs/providers.md, for the tests that compare them with what is done.

const TEXT: &str = include_str!("../../../docs/providers.md");

/// The rows of the first table after the heading `## <kind>` whose header begins with `answer`, its cells without spaces and
/// backticks around them.
pub(crate) fn table(kind: &str) -> Vec<Vec<String>> {
    let heading = format!("## {kind}");
    let section = TEXT.lines().skip_while(|line| line.trim_end() != heading).skip(1);
    let rows: Vec<_> = section
        .take_while(|line| !line.starts_with("## "))
        .map(cells)
        .skip_while(|cells| cells.first().is_none_or(|cell| cell != "answer"))
        .skip(2)
        .take_while(|cells| !cells.is_empty())
        .collect();
    assert!(!rows.is_empty(), "docs/providers.md has no table of answers under {heading:?}");
    rows
}

/// Of a line that is no row, none.
fn cells(line: &str) -> Vec<String> {
    let row = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    row.map(|row| row.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect())
        .unwrap_or_default()
}
