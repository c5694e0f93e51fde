//! docs/providers.md as tests read it: what it says of answers must be what the code does.

const TEXT: &str = include_str!("../../../docs/providers.md");

/// The rows of the first table below `## <kind>` that begins with a column `answer`.
pub(crate) fn table(kind: &str) -> Vec<Vec<String>> {
    let heading = format!("## {kind}");
    let section = TEXT.lines().skip_while(|line| line.trim() != heading).skip(1);
    section
        .take_while(|line| !line.starts_with("## "))
        .map(cells)
        .skip_while(|row| row.first().is_none_or(|cell| cell != "answer"))
        // The header and the line below it.
        .skip(2)
        .take_while(|row| !row.is_empty())
        .collect()
}

/// The cells of a line of a table; none where it is something else.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map_or(vec![], |inner| {
        inner.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect()
    })
}
