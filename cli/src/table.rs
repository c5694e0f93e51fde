//! Tables for people: aligned by what a terminal shows, not by bytes – Korean and Chinese take two columns a character.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Between two columns.
const GAP: &str = "  ";

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table that can be printed in pages: the header comes once, and a column grows when a later page needs it, so that
/// a long list is neither held in memory nor late.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    header_done: bool,
}

#[derive(Debug)]
struct Column {
    title: &'static str,
    align: Align,
    width: usize,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        let column = |&(title, align): &(&'static str, Align)| Column { title, align, width: title.width() };
        Self { columns: columns.iter().map(column).collect(), header_done: false }
    }

    /// The next rows as text, one cell per column. Cells are made printable: a title in a list must not be able to
    /// drive the terminal.
    pub fn page(&mut self, rows: Vec<Vec<String>>) -> String {
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.into_iter().map(|cell| printable(&cell)).collect()).collect();
        for row in &rows {
            for (column, cell) in self.columns.iter_mut().zip(row) {
                column.width = column.width.max(cell.width());
            }
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.header_done, true) {
            let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
            self.push_line(&mut text, &titles);
        }
        for row in &rows {
            self.push_line(&mut text, row);
        }
        text
    }

    fn push_line(&self, text: &mut String, cells: &[String]) {
        let mut line = String::new();
        for (column, cell) in self.columns.iter().zip(cells) {
            let padding = " ".repeat(column.width.saturating_sub(cell.width()));
            let _ = match column.align {
                Align::Left => write!(line, "{cell}{padding}{GAP}"),
                Align::Right => write!(line, "{padding}{cell}{GAP}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Names and values below each other; empty values are left out.
pub fn details(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let padding = " ".repeat(width - name.width());
        let _ = writeln!(text, "{name}{padding}{GAP}{}", printable(value));
    }
    text
}

/// The text with its control characters escaped, and with those that turn the direction of text.
pub fn printable(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// At most `columns` columns of the text, the last of them `…` where something is missing.
pub fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let fits = |c: &char| {
        let width = c.width().unwrap_or_default();
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// A number with its thousands separated.
pub fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[test]
    fn columns_stand_below_each_other_whatever_their_script() {
        let mut table = Table::new(&[("TITLE", Align::Left), ("SENT", Align::Right)]);
        let text = table.page(vec![row(&["공지사항", "1,000"]), row(&["Hello", "7"])]);
        assert_eq!(text, "TITLE      SENT\n공지사항  1,000\nHello         7\n");
    }

    #[test]
    fn a_further_page_has_no_header_and_columns_only_grow() {
        let mut table = Table::new(&[("A", Align::Left), ("B", Align::Left)]);
        assert_eq!(table.page(vec![row(&["aaaa", "b"])]), "A     B\naaaa  b\n");
        assert_eq!(table.page(vec![row(&["a", "b"])]), "a     b\n");
    }

    #[test]
    fn cells_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\nc\\u{202e}d");
    }

    #[test]
    fn shortening_counts_columns_and_never_splits_a_character() {
        assert_eq!(shortened("봉수대", 6), "봉수대");
        assert_eq!(shortened("봉수대", 5), "봉수…");
        assert_eq!(shortened("봉수대", 4), "봉…");
        assert_eq!(shortened("abc", 2), "a…");
    }

    #[test]
    fn details_leave_out_what_is_empty() {
        let text = details(&[("id", "7".into()), ("settled", String::new()), ("title", "안녕".into())]);
        assert_eq!(text, "id       7\ntitle    안녕\n");
    }

    #[test]
    fn numbers_have_separators() {
        let shown: Vec<String> = [0, 999, 1_000, 1_234_567, -1_000].into_iter().map(number).collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "-1,000"]);
    }
}
