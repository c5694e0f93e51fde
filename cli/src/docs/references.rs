//! What the documentation points at is there: headings that links name, those that alerts link to, and metrics.

use std::collections::BTreeSet;
use std::path::Path;

use super::{pages, root};

/// Alerts link to these parts of docs/operations.md.
const SYMPTOMS: [&str; 12] = [
    "Nothing is sent",
    "It is slow",
    "Many dead letters",
    "A provider is down",
    "The database is full",
    "Senders are gone",
    "An old snapshot",
    "It was sent twice",
    "One user did not get it",
    "Stop a broadcast now",
    "Upgrade",
    "Roll back",
];

#[test]
fn every_symptom_that_an_alert_links_to_has_a_part_in_the_runbook() {
    let text = std::fs::read_to_string(root().join("docs/operations.md")).expect("the runbook");
    let headings: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let missing: Vec<_> = SYMPTOMS.iter().filter(|symptom| !headings.contains(**symptom)).collect();
    assert!(missing.is_empty(), "docs/operations.md has no part {missing:?}");
}

#[test]
fn every_link_to_a_heading_finds_it() {
    let mut lost = vec![];
    for (page, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, anchor)) = link.split_once('#').filter(|_| !link.contains("://")) else {
                continue;
            };
            let target = match file {
                "" => root().join(&page),
                file => root().join(&page).parent().unwrap_or(Path::new("")).join(file),
            };
            let there = std::fs::read_to_string(&target).unwrap_or_default();
            if !anchors(&there).contains(anchor) {
                lost.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(lost.is_empty(), "no heading is where these links lead: {lost:#?}");
}

#[test]
fn every_metric_in_the_docs_is_one_that_a_service_writes() {
    let mut written = String::new();
    for part in ["intake-svc/src", "sender-svc/src", "ops/src"] {
        read_sources(&root().join(part), &mut written);
    }
    let outside = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let mut unknown = BTreeSet::new();
    for (page, text) in pages() {
        let words = text.split(outside).map(base);
        let named =
            words.filter(|word| word.starts_with("bongsu_intake_") || word.starts_with("bongsu_sender_"));
        let strange = named.filter(|name| !written.contains(&format!("\"{name}\"")));
        unknown.extend(strange.map(|name| format!("{page}: {name}")));
    }
    assert!(unknown.is_empty(), "no service writes these metrics: {unknown:#?}");
}

/// A histogram is read under three names.
fn base(name: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.into_iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

fn read_sources(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).expect("a crate of ours") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            read_sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// As GitHub makes them of headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings =
        page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings
        .map(|heading| heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-"))
        .collect()
}
