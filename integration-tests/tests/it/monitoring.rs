//! What is shown, described, drawn and alerted on is what the services say: /metrics, docs/metrics.md, the dashboard and the
//! alert rules speak of the same metrics with the same labels.

use std::collections::BTreeSet;
use std::path::Path;

use bongsu_ops::metric::{Kind, Metric};
use promql_parser::label::Matchers;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use provider_sim::Behaviour;

use crate::world::{Running, World, until};

/// Labels that Prometheus gives, and the one of a histogram's buckets.
const GIVEN: [&str; 3] = ["instance", "job", "le"];
/// Headings of docs/operations.md that alerts point to.
const RUNBOOKS: [&str; 9] = [
    "nothing-is-sent",
    "it-is-slow",
    "many-dead-letters",
    "a-provider-is-down",
    "the-database-is-full",
    "senders-are-gone",
    "an-old-snapshot",
    "redis-is-down-or-the-live-bus",
    "users-cannot-connect",
];

fn metrics() -> Vec<Metric> {
    intake_svc::METRICS.iter().chain(sender_svc::METRICS.into_iter().flatten()).copied().collect()
}

/// The metric of a series: a histogram has three kinds of them.
fn metric_of(series: &str) -> Option<Metric> {
    let all = metrics();
    let exact = all.iter().find(|metric| metric.name == series && metric.kind != Kind::Histogram);
    exact.copied().or_else(|| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end))?;
        all.iter().find(|metric| metric.name == base && metric.kind == Kind::Histogram).copied()
    })
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn scrape(service: &Running) -> String {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    http.get(format!("http://{}/metrics", service.admin)).send().await.unwrap().text().await.unwrap()
}

/// Name and labels of a line of the Prometheus format.
fn series(line: &str) -> (&str, BTreeSet<&str>) {
    let Some((name, rest)) = line.split_once('{') else {
        return (line.split(' ').next().unwrap(), BTreeSet::new());
    };
    let labels = rest.rsplit_once('}').unwrap().0;
    // Values of ours have no quotes or commas in them.
    (name, labels.split(',').map(|pair| pair.split_once('=').unwrap().0).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_series_that_is_shown_is_described_with_its_labels_and_the_database_is_among_them() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(30).await;
    world.import(["expired-1", "rejected-1"]).await;
    let id = world.broadcast("k").await.id;
    world.finish(id).await;
    let sender = world.take_sender();
    until("the heartbeat is seen", async || scrape(&sender).await.contains("bongsu_senders_live 1")).await;
    let text = scrape(&sender).await + &scrape(&world.intake).await;
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && line.starts_with("bongsu_")) {
        let (name, labels) = series(line);
        let metric = metric_of(name).unwrap_or_else(|| panic!("{name} is in no table of metrics"));
        let known: BTreeSet<&str> =
            metric.labels.iter().copied().chain(name.ends_with("_bucket").then_some("le")).collect();
        assert_eq!(labels, known, "{line}");
        seen.insert(metric.name);
    }
    for metric in sender_svc::METRICS[1].iter().filter(|metric| metric.name != "bongsu_provider_rate_limit") {
        assert!(seen.contains(metric.name), "{} is not shown: {text}", metric.name);
    }
    for line in [
        "bongsu_database_up 1",
        r#"bongsu_deliveries{provider="push",state="pending"} 0"#,
        r#"bongsu_broadcasts{state="delivering"} 0"#,
        "bongsu_database_partitions_missing 0",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    sender.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_is_told_to_asks_the_database_nothing_for_its_metrics() {
    let mut world = World::new(Behaviour::default()).await;
    world.add_sender(|config| config.database_metrics = false).await;
    let sender = world.take_sender();
    let text = scrape(&sender).await;
    assert!(
        text.contains("bongsu_sender_calls_unrecorded") && !text.contains("bongsu_database_up"),
        "{text}"
    );
    sender.stop().await;
    world.stop().await;
}

#[test]
fn the_documentation_has_a_row_for_each_metric_and_no_other() {
    let text = read("docs/metrics.md");
    let documented: BTreeSet<&str> = text.lines().filter(|line| line.starts_with("| `bongsu_")).collect();
    let rows: Vec<String> = metrics()
        .iter()
        .map(|metric| {
            let (kind, labels) = (metric.kind.word(), metric.labels.join(", "));
            format!("| `{}` | {kind} | {labels} | {} |", metric.name, metric.meaning)
        })
        .collect();
    let described: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    let missing: Vec<_> = described.difference(&documented).collect();
    let surplus: Vec<_> = documented.difference(&described).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:#?}\nsurplus: {surplus:#?}");
}

/// Checks that an expression parses, and speaks of metrics and labels that there are. Returns these labels.
fn check(expr: &str) -> BTreeSet<&'static str> {
    let plain = expr.replace("$__rate_interval", "5m");
    let parsed = parser::parse(&plain).unwrap_or_else(|error| panic!("{expr}: {error}"));
    let mut found = Found::default();
    found.walk(&parsed);
    assert!(!found.selectors.is_empty(), "{expr} speaks of no metric");
    let mut known: BTreeSet<&'static str> = GIVEN.into();
    for selector in &found.selectors {
        let name = selector.name.as_deref().unwrap_or_else(|| panic!("{expr}: a selector without a name"));
        let metric = metric_of(name).unwrap_or_else(|| panic!("{expr}: there is no {name}"));
        for label in label_names(&selector.matchers) {
            assert!(
                metric.labels.contains(&label) || GIVEN.contains(&label),
                "{expr}: {name} has no {label}"
            );
        }
        known.extend(metric.labels);
    }
    for label in &found.grouped_by {
        assert!(known.contains(label.as_str()), "{expr}: nothing in it has {label}");
    }
    known
}

fn label_names(matchers: &Matchers) -> impl Iterator<Item = &str> {
    matchers.matchers.iter().chain(matchers.or_matchers.iter().flatten()).map(|matcher| matcher.name.as_str())
}

/// What an expression speaks of.
#[derive(Default)]
struct Found {
    selectors: Vec<VectorSelector>,
    grouped_by: Vec<String>,
}

impl Found {
    fn walk(&mut self, expr: &Expr) {
        match expr {
            Expr::Aggregate(aggregate) => {
                self.walk(&aggregate.expr);
                aggregate.param.iter().for_each(|param| self.walk(param));
                self.group(aggregate.modifier.as_ref());
            }
            Expr::Unary(unary) => self.walk(&unary.expr),
            Expr::Binary(binary) => {
                self.walk(&binary.lhs);
                self.walk(&binary.rhs);
                self.group(binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref()));
            }
            Expr::Paren(paren) => self.walk(&paren.expr),
            Expr::Subquery(subquery) => self.walk(&subquery.expr),
            Expr::VectorSelector(selector) => self.selectors.push(selector.clone()),
            Expr::MatrixSelector(matrix) => self.selectors.push(matrix.vs.clone()),
            Expr::Call(call) => call.args.args.iter().for_each(|arg| self.walk(arg)),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => {}
            Expr::Extension(_) => panic!("no PromQL of ours: {expr}"),
        }
    }

    fn group(&mut self, modifier: Option<&LabelModifier>) {
        self.grouped_by.extend(modifier.into_iter().flat_map(|modifier| modifier.labels().labels.clone()));
    }
}

#[test]
fn an_expression_with_a_metric_or_a_label_that_does_not_exist_is_found_out() {
    assert!(
        check("sum by (provider) (rate(bongsu_sender_calls_total{answer=\"gone\"}[5m]))").contains("answer")
    );
    check("histogram_quantile(0.9, sum by (le) (rate(bongsu_sender_call_seconds_bucket[1m])))");
    for wrong in [
        "bongsu_sender_calls",
        "bongsu_sender_call_seconds",
        "rate(bongsu_sender_calls_total{token=\"x\"}[5m])",
        "sum by (token) (bongsu_sender_calls_total)",
        "bongsu_senders_live unless on (shard) bongsu_database_up",
        "sum(rate(bongsu_sender_calls_total[5m])",
        "1 + 1",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn alerts_parse_name_what_exists_and_lead_to_a_runbook() {
    let rules: serde_json::Value = serde_norway::from_str(&read("monitoring/alerts.yml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} comes twice");
        let labels = check(rule["expr"].as_str().unwrap());
        let severity = rule["labels"]["severity"].as_str();
        assert!(["critical", "warning", "info"].contains(&severity.unwrap()), "{name}: {severity:?}");
        let summary = rule["annotations"]["summary"].as_str().unwrap();
        for used in summary.split("$labels.").skip(1) {
            let label: String = used.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            assert!(labels.contains(label.as_str()), "{name}: its summary speaks of {label}");
        }
        let runbook = rule["annotations"]["runbook"].as_str().unwrap();
        let heading =
            runbook.strip_prefix("docs/operations.md#").unwrap_or_else(|| panic!("{name}: {runbook}"));
        assert!(RUNBOOKS.contains(&heading), "{name}: {runbook}");
    }
    assert!(names.len() >= 10, "{names:?}");
}

#[test]
fn the_dashboard_parses_and_draws_what_exists() {
    let board: serde_json::Value = serde_json::from_str(&read("monitoring/grafana-dashboard.json")).unwrap();
    let (mut ids, mut drawn) = (BTreeSet::new(), 0);
    for panel in board["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{title}: its id comes twice");
        for target in panel["targets"].as_array().unwrap() {
            let labels = check(target["expr"].as_str().unwrap());
            for used in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
                let label = used.split("}}").next().unwrap();
                assert!(labels.contains(label), "{title}: its legend speaks of {label}");
            }
            drawn += 1;
        }
    }
    assert!(drawn >= 20, "{drawn}");
    let variable = board["templating"]["list"][1]["query"]["query"].as_str().unwrap();
    let (metric, label) =
        variable.strip_prefix("label_values(").unwrap().trim_end_matches(')').split_once(", ").unwrap();
    assert!(metric_of(metric).unwrap().labels.contains(&label), "{variable}");
}

#[test]
fn the_example_of_a_scrape_names_the_rules_and_the_admin_ports() {
    let config: serde_json::Value = serde_norway::from_str(&read("monitoring/prometheus.yml")).unwrap();
    assert_eq!(config["rule_files"][0], "alerts.yml");
    let targets: Vec<&str> = config["scrape_configs"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|job| job["static_configs"][0]["targets"].as_array().unwrap())
        .map(|target| target.as_str().unwrap())
        .collect();
    assert!(
        targets.iter().all(|target| target.ends_with(":7071") || target.ends_with(":7081")),
        "{targets:?}"
    );
}
