//! What EXPLAIN says of one execution, and what is wrong with it.

use serde_json::Value;

use super::statements::{On, Statement};

/// Tables that grow with use. The others are read whole in a moment.
const GROWING: [&str; 13] = [
    "delivery",
    "batch",
    "device",
    "device_topic",
    "broadcast",
    "broadcast_audience",
    "broadcast_tally",
    "dead_letter",
    "attempt_failure",
    "device_event",
    "inbox",
    "inbox_user",
    "broadcast_live",
];

/// What a statement is about is at most 1,000 rows, of which there are several times as many in `work.sql` already. Executions before
/// may have left theirs: while a transaction of another test runs, they cannot be cleared away.
const ROWS_OF_A_SCAN: u64 = 2_500;

/// The columns that the condition of a scan must name to be bounded by the work at hand, by the start of the index's name.
/// `batch_leased`, `broadcast_open`, `broadcast_capped` and `broadcast_fan_out` hold only what is being worked on.
const BOUNDS: &[(&str, &[&str])] = &[
    ("delivery_", &["broadcast_id", "shard", "provider_id", "device_id"]),
    ("batch_pkey", &["id", "shard"]),
    ("batch_ready", &["shard", "provider_id", "rank"]),
    ("batch_waiting", &["shard", "provider_id", "next_attempt_at"]),
    ("batch_leased", &["shard"]),
    ("batch_held", &["broadcast_id"]),
    ("batch_capped", &["broadcast_id"]),
    ("batch_broadcast", &["broadcast_id"]),
    ("batch_open", &["broadcast_id"]),
    ("dead_letter_pkey", &["broadcast_id", "shard"]),
    ("attempt_failure_pkey", &["broadcast_id", "shard", "provider_id", "device_id"]),
    ("device_event_pkey", &["shard", "device_id"]),
    ("device_topic_pkey", &["topic", "shard", "provider_id", "device_id"]),
    ("device_topic_device", &["shard", "device_id"]),
    ("device_live_token", &["shard", "provider_id", "token"]),
    ("device_live_installation", &["shard", "provider_id", "installation_id"]),
    ("device_sendable", &["shard", "provider_id", "id"]),
    ("device_user", &["user_id"]),
    ("device_pkey", &["shard", "id"]),
    ("device_quarantine", &["shard", "id"]),
    ("device_retirement", &["shard", "id"]),
    ("device_retired_token", &["token"]),
    ("broadcast_tally_pkey", &["broadcast_id"]),
    ("broadcast_tally_slow_tier", &["provider_id", "slow_tier_from"]),
    ("broadcast_pkey", &["id"]),
    ("broadcast_client", &["client_id"]),
    ("broadcast_key", &["client_id", "idempotency_key"]),
    ("broadcast_audience_pkey", &["broadcast_id", "ordinal"]),
    ("broadcast_open", &[]),
    ("broadcast_capped", &[]),
    // A row for each broadcast with a rate that is kept: read whole while it is a page.
    ("broadcast_pace_pkey", &[]),
    ("broadcast_fan_out", &[]),
    ("broadcast_due", &["scheduled_at"]),
    ("broadcast_live_pkey", &["broadcast_id"]),
    ("inbox_pkey", &["user_no"]),
    ("inbox_unread", &["user_no"]),
    ("inbox_broadcast_id_user_no_key", &["broadcast_id", "user_no"]),
    ("inbox_user_pkey", &["id"]),
    ("inbox_user_user_id_key", &["user_id"]),
    ("provider_", &[]),
    ("sender_", &[]),
];

/// One execution.
#[derive(Debug, Default)]
pub struct Plan {
    /// Rows returned; where none are, those that were written.
    pub rows: u64,
    /// Pages of shared buffers looked at.
    pub buffers: u64,
    pub joins: Vec<String>,
    scans: Vec<Scan>,
    /// How often each LIMIT was run.
    pub limits: Vec<u64>,
}

#[derive(Debug, PartialEq, Eq)]
struct Scan {
    kind: String,
    /// Not said of a bitmap index scan.
    table: Option<String>,
    index: Option<String>,
    condition: String,
    executed: bool,
    /// Rows read, those that a filter removed included.
    rows: u64,
}

impl Plan {
    /// From the answer of `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)`.
    pub fn read(answer: &Value) -> Self {
        let root = &answer[0]["Plan"];
        let mut plan = Self {
            rows: number(written(root).unwrap_or(root), "Actual Rows"),
            buffers: number(root, "Shared Hit Blocks") + number(root, "Shared Read Blocks"),
            ..Self::default()
        };
        plan.visit(root);
        plan
    }

    fn visit(&mut self, node: &Value) {
        let kind = text(node, "Node Type").unwrap_or_default();
        if kind.ends_with("Join") {
            self.joins.push(kind);
        } else if kind == "Limit" {
            self.limits.push(number(node, "Actual Loops"));
        } else if kind.contains("Scan") {
            let scan = Scan {
                kind,
                table: text(node, "Relation Name"),
                index: text(node, "Index Name"),
                condition: text(node, "Index Cond").unwrap_or_default(),
                executed: number(node, "Actual Loops") > 0,
                rows: rows_read(node),
            };
            self.scans.push(scan);
        }
        for child in node["Plans"].as_array().into_iter().flatten() {
            self.visit(child);
        }
    }

    /// Partitions of delivery that were looked into.
    pub fn partitions(&self) -> usize {
        let read = self.scans.iter().filter(|scan| scan.executed);
        let mut read: Vec<_> =
            read.filter_map(|s| s.table.as_ref()).filter(|t| t.starts_with("delivery_")).collect();
        read.sort();
        read.dedup();
        read.len()
    }

    /// Why this is not a plan that reads only what the statement is about, if it is not. Scans count whether they were
    /// executed this time or not.
    pub fn faults(&self, statement: &Statement) -> Vec<String> {
        let mut faults: Vec<_> = self.scans.iter().filter_map(Scan::fault).collect();
        let joins = self.joins.iter().filter(|join| statement.on != On::Pool && *join != "Nested Loop");
        faults.extend(joins.map(|join| format!("a {join}")));
        let limits = self.limits.iter().filter(|n| **n > 1 && !statement.takes_turns());
        faults.extend(limits.map(|n| format!("a LIMIT that runs {n} times")));
        if self.partitions() > 1 {
            faults.push(format!("{} partitions instead of one", self.partitions()));
        }
        faults.sort();
        faults.dedup();
        faults
    }
}

impl Scan {
    fn fault(&self) -> Option<String> {
        self.unbounded().or_else(|| self.excessive())
    }

    fn excessive(&self) -> Option<String> {
        let stored = self.index.as_ref().or(self.table.as_ref())?;
        (self.rows > ROWS_OF_A_SCAN).then(|| format!("{} of {} rows by {stored}", self.kind, self.rows))
    }

    fn unbounded(&self) -> Option<String> {
        let Some(index) = &self.index else {
            let table = self.table.as_deref().unwrap_or_default();
            let table = if table.starts_with("delivery_") { "delivery" } else { table };
            // A bitmap's condition is that of the index scans below it, and rows by their place are what another scan found.
            let bounded = ["Bitmap Heap Scan", "Tid Scan"].contains(&&*self.kind);
            let whole = GROWING.contains(&table) && !bounded;
            return whole.then(|| format!("{} on {table}", self.kind));
        };
        let Some((prefix, columns)) = BOUNDS.iter().find(|(prefix, _)| index.starts_with(prefix)) else {
            return Some(format!("{} of {index}, of which the tests do not know what bounds it", self.kind));
        };
        let compared = compared(&self.condition);
        let missing: Vec<_> = columns.iter().filter(|c| !compared.contains(c)).copied().collect();
        let missing = missing.join(", ");
        (!missing.is_empty()).then(|| format!("{} of {prefix} without {missing} in its condition", self.kind))
    }
}

/// The columns on the left of a condition's comparisons; where rows are compared, all of theirs.
fn compared(condition: &str) -> Vec<&str> {
    let left = |comparison: &'_ str| {
        [" = ", " < ", " > ", " <= ", " >= "].iter().filter_map(|operator| comparison.find(operator)).min()
    };
    condition
        .split(" AND ")
        .filter_map(|comparison| Some(&comparison[..left(comparison)?]))
        .flat_map(|left| left.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect()
}

/// What feeds a statement that writes and returns nothing.
fn written(root: &Value) -> Option<&Value> {
    let silent = text(root, "Node Type")? == "ModifyTable" && number(root, "Actual Rows") == 0;
    let mut below = root["Plans"].as_array()?.iter();
    below.find(|node| silent && text(node, "Parent Relationship").as_deref() == Some("Outer"))
}

fn rows_read(node: &Value) -> u64 {
    let of_each_loop = ["Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"];
    let rows: f64 = of_each_loop.iter().filter_map(|key| node[*key].as_f64()).sum();
    (rows * node["Actual Loops"].as_f64().unwrap_or_default()) as u64
}

fn text(node: &Value, key: &str) -> Option<String> {
    node[key].as_str().map(str::to_owned)
}

fn number(node: &Value, key: &str) -> u64 {
    node[key].as_f64().unwrap_or_default() as u64
}
