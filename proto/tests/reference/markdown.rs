//! From the lines of a comment to Markdown.

use std::collections::BTreeSet;

/// Paragraphs as they are; lines that are indented (the tables of errors) as a block that keeps its columns.
pub fn paragraphs(lines: &[&str], names: &BTreeSet<String>) -> String {
    let mut out = String::new();
    let mut in_block = false;
    for line in lines {
        let indented = line.starts_with("  ");
        if indented != in_block && !line.is_empty() {
            out.push_str(if indented { "```text\n" } else { "```\n\n" });
            in_block = indented;
        }
        match line {
            _ if in_block && !line.is_empty() => out.push_str(line.strip_prefix("  ").unwrap_or(line)),
            _ => out.push_str(&text(line, names)),
        }
        out.push('\n');
    }
    if in_block {
        out.push_str("```\n");
    }
    out
}

/// The comment as one line, for the cell of a table.
pub fn cell(lines: &[&str], names: &BTreeSet<String>) -> String {
    let joined = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    text(&joined.join(" "), names).replace('|', "\\|")
}

/// Outside of backticks: what Markdown would take for markup is written so that it does not, and names link to their section.
fn text(line: &str, names: &BTreeSet<String>) -> String {
    let parts = line.split('`').enumerate();
    let written = parts.map(|(i, part)| if i % 2 == 1 { part.to_owned() } else { linked(part, names) });
    written.collect::<Vec<_>>().join("`")
}

fn linked(plain: &str, names: &BTreeSet<String>) -> String {
    let escaped = plain.replace('<', "&lt;").replace('*', "\\*");
    let mut out = String::new();
    let mut word = String::new();
    for letter in escaped.chars().chain(['\0']) {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            word.push(letter);
            continue;
        }
        if names.contains(&word) {
            out.push_str(&format!("[{word}](#{})", word.to_lowercase()));
        } else {
            out.push_str(&word);
        }
        word.clear();
        if letter != '\0' {
            out.push(letter);
        }
    }
    out
}
