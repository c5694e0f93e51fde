//! What was measured: figures of each run, their medians, and both as a table or as one object.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::quantile::median;
use crate::table::{Align, Table, number};

/// Below this every whole number is a float, too.
const MAX_WHOLE: f64 = 9e15;

/// A figure: its name for machines, which ends in the unit, and what people read.
#[derive(Clone, Debug)]
struct Figure {
    name: Cow<'static, str>,
    label: Cow<'static, str>,
    /// None where it could not be measured: a run may be too short to have a steady part.
    value: Option<f64>,
}

/// The figures of one run, in the order of the table.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    pub fn put(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        label: impl Into<Cow<'static, str>>,
        value: impl Into<Option<f64>>,
    ) {
        let value = value.into().filter(|value| value.is_finite());
        self.0.push(Figure { name: name.into(), label: label.into(), value });
    }

    pub fn count(&mut self, name: &'static str, label: &'static str, value: impl TryInto<i64>) {
        self.put(name, label, value.try_into().ok().map(|value: i64| value as f64));
    }

    /// How much slower one variant is than another.
    pub fn put_losses(&mut self, slower: &Variant, other: &Variant) {
        let loss = |name| slower.loss_percent(other, name);
        self.put("steady_loss_percent", "loss of the steady rate, %", loss("steady_per_s"));
        self.put("end_to_end_loss_percent", "loss end to end, %", loss("end_to_end_per_s"));
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|figure| figure.name == name)?.value
    }

    fn to_json(&self) -> Value {
        self.0
            .iter()
            .map(|figure| (figure.name.to_string(), json_number(figure.value)))
            .collect::<Map<_, _>>()
            .into()
    }
}

/// The runs that were made under one condition.
#[derive(Clone, Debug)]
pub struct Variant {
    name: &'static str,
    label: &'static str,
    runs: Vec<Figures>,
}

impl Variant {
    pub fn new(name: &'static str, label: &'static str) -> Self {
        Self { name, label, runs: Vec::new() }
    }

    pub fn add(&mut self, run: Figures) {
        self.runs.push(run);
    }

    fn values(&self, name: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.get(name)).collect()
    }

    pub fn median(&self, name: &str) -> Option<f64> {
        median(&self.values(name))
    }

    /// The median of how many times as much each run has as the run of `other` beside it: machines change their speed.
    pub fn ratio(&self, other: &Self, name: &str) -> Option<f64> {
        let pairs = self.runs.iter().zip(&other.runs);
        let ratios: Option<Vec<f64>> =
            pairs.map(|(ours, theirs)| Some(ours.get(name)? / theirs.get(name)?)).collect();
        median(&ratios?)
    }

    /// In per cent, how much less the median is than that of `other`.
    pub fn loss_percent(&self, other: &Self, name: &str) -> Option<f64> {
        Some((1.0 - self.median(name)? / other.median(name)?) * 100.0)
    }

    fn cell(&self, name: &str) -> String {
        let values = self.values(name);
        let Some(middle) = median(&values) else { return String::new() };
        if values.len() == 1 {
            return shown(middle);
        }
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if least == most {
            shown(middle)
        } else {
            format!("{} ({}–{})", shown(middle), shown(least), shown(most))
        }
    }

    fn to_json(&self) -> Value {
        let names = self.runs.iter().flat_map(|run| run.0.iter().map(|figure| figure.name.to_string()));
        let medians: Map<_, _> = names
            .map(|name| {
                let median = json_number(self.median(&name));
                (name, median)
            })
            .collect();
        json!({ "median": medians, "runs": self.runs.iter().map(Figures::to_json).collect::<Vec<_>>() })
    }
}

/// All that a scenario came to.
#[derive(Clone, Debug)]
pub struct Report {
    scenario: &'static str,
    conditions: Value,
    variants: Vec<Variant>,
    /// Of the variants' medians.
    compared: Figures,
}

impl Report {
    pub fn new(scenario: &'static str, conditions: Value, variants: Vec<Variant>, compared: Figures) -> Self {
        Self { scenario, conditions, variants, compared }
    }

    pub fn text(&self) -> String {
        let columns: Vec<_> = [("", Align::Left)]
            .into_iter()
            .chain(self.variants.iter().map(|variant| (variant.label, Align::Right)))
            .collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut known: Vec<&str> = Vec::new();
        // The last variant is the one in question, and has the most figures.
        for figure in self.variants.iter().rev().flat_map(|variant| &variant.runs).flat_map(|run| &run.0) {
            if known.contains(&figure.name.as_ref()) {
                continue;
            }
            known.push(&figure.name);
            let cells = self.variants.iter().map(|variant| variant.cell(&figure.name));
            rows.push([figure.label.to_string()].into_iter().chain(cells).collect());
        }
        let mut text =
            format!("{}: {}\n\n{}", self.scenario, told(&self.conditions), Table::new(&columns).page(rows));
        for figure in &self.compared.0 {
            text += &format!("\n{}: {}", figure.label, figure.value.map_or("unknown".to_owned(), shown));
        }
        text.push('\n');
        text
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let variants: Map<_, _> =
            self.variants.iter().map(|variant| (variant.name.to_owned(), variant.to_json())).collect();
        json!({
            "scenario": self.scenario,
            "conditions": self.conditions,
            "variants": variants,
            "compared": self.compared.to_json(),
        })
        .serialize(serializer)
    }
}

/// Counts are whole numbers in JSON, too.
fn json_number(value: Option<f64>) -> Value {
    match value {
        Some(whole) if whole.fract() == 0.0 && whole.abs() < MAX_WHOLE => json!(whole as i64),
        other => json!(other),
    }
}

/// `devices 1000, in_flight 512`, without what was not given.
fn told(conditions: &Value) -> String {
    let pairs = conditions.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    pairs.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// With as many digits as mean something.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => number(value.round() as i64),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(rates: &[f64]) -> Variant {
        let mut variant = Variant::new("bongsu", "BONGSU");
        for rate in rates {
            let mut figures = Figures::default();
            figures.put("rate_per_s", "deliveries/s", *rate);
            figures.put("wal_bytes", "WAL bytes", f64::NAN);
            variant.add(figures);
        }
        variant
    }

    #[test]
    fn the_object_has_every_value_and_the_medians() {
        let variants = vec![variant(&[3.0, 1.0, 2.0])];
        let report = Report::new("test", json!({ "devices": 7 }), variants, Figures::default());
        let object = serde_json::to_value(&report).expect("JSON");
        assert_eq!(object["variants"]["bongsu"]["median"], json!({ "rate_per_s": 2, "wal_bytes": null }));
        assert_eq!(object["variants"]["bongsu"]["runs"][0], json!({ "rate_per_s": 3, "wal_bytes": null }));
    }

    #[test]
    fn the_table_has_the_median_and_what_it_varied_between() {
        let variants = vec![variant(&[3_000.0, 1_000.0, 2_000.4]), variant(&[0.125])];
        let text = Report::new("test", json!({ "devices": 7 }), variants, Figures::default()).text();
        assert!(text.starts_with("test: devices 7\n\n"), "{text}");
        assert!(text.contains("deliveries/s  2,000 (1,000–3,000)    0.12\n"), "{text}");
    }

    #[test]
    fn a_loss_is_told_in_per_cent_of_the_other() {
        assert_eq!(variant(&[75.0]).loss_percent(&variant(&[100.0]), "rate_per_s"), Some(25.0));
        assert_eq!(variant(&[]).loss_percent(&variant(&[100.0]), "rate_per_s"), None);
    }
}
