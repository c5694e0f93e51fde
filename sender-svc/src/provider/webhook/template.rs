//! A body of the operator's own shape: JSON in which a string that is a placeholder stands for a value.
//!
//! It is a tree, not a text: a title with a quotation mark in it cannot become anything but a string.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template(Node);

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Fixed(Value),
    Given(Placeholder),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    Token,
    Title,
    Body,
    Data,
    BroadcastId,
    DeliveryKey,
}

const PLACEHOLDERS: [(&str, Placeholder); 6] = [
    ("{{token}}", Placeholder::Token),
    ("{{title}}", Placeholder::Title),
    ("{{body}}", Placeholder::Body),
    ("{{data}}", Placeholder::Data),
    ("{{broadcast_id}}", Placeholder::BroadcastId),
    ("{{delivery_key}}", Placeholder::DeliveryKey),
];

/// What placeholders stand for in one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    pub token: &'a str,
    pub title: &'a str,
    pub body: &'a str,
    pub data: &'a BTreeMap<String, String>,
    pub broadcast_id: &'a str,
    pub delivery_key: &'a str,
}

impl TryFrom<String> for Template {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(&text).context("body is no JSON")?;
        let mut has_token = false;
        let node = Node::read(value, &mut has_token)?;
        ensure!(has_token, "body has no \"{{{{token}}}}\": nobody would know whom it is for");
        Ok(Self(node))
    }
}

impl Node {
    fn read(value: Value, has_token: &mut bool) -> anyhow::Result<Self> {
        Ok(match value {
            Value::String(text) => match PLACEHOLDERS.iter().find(|(name, _)| *name == text) {
                Some((_, placeholder)) => {
                    *has_token |= *placeholder == Placeholder::Token;
                    Self::Given(*placeholder)
                }
                None => {
                    check_text(&text)?;
                    Self::Fixed(Value::String(text))
                }
            },
            Value::Array(list) => {
                Self::List(list.into_iter().map(|v| Self::read(v, has_token)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let member = |(name, value): (String, Value)| {
                    check_text(&name)?;
                    anyhow::Ok((name, Self::read(value, has_token)?))
                };
                Self::Object(members.into_iter().map(member).collect::<Result<_, _>>()?)
            }
            fixed => Self::Fixed(fixed),
        })
    }
}

fn check_text(text: &str) -> anyhow::Result<()> {
    if text.contains("{{") {
        let names = PLACEHOLDERS.map(|(name, _)| name).join(", ");
        bail!("body has {text:?}: a placeholder is a whole string, and one of {names}");
    }
    Ok(())
}

impl Template {
    /// The body of one call.
    pub fn fill(&self, values: Values<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Filled { node: &self.0, values })
    }
}

struct Filled<'a> {
    node: &'a Node,
    values: Values<'a>,
}

impl Serialize for Filled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.values;
        match self.node {
            Node::Fixed(value) => value.serialize(serializer),
            Node::Given(Placeholder::Token) => serializer.serialize_str(values.token),
            Node::Given(Placeholder::Title) => serializer.serialize_str(values.title),
            Node::Given(Placeholder::Body) => serializer.serialize_str(values.body),
            Node::Given(Placeholder::Data) => values.data.serialize(serializer),
            Node::Given(Placeholder::BroadcastId) => serializer.serialize_str(values.broadcast_id),
            Node::Given(Placeholder::DeliveryKey) => serializer.serialize_str(values.delivery_key),
            Node::List(list) => serializer.collect_seq(list.iter().map(|node| Filled { node, values })),
            Node::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, node) in members {
                    map.serialize_entry(name, &Filled { node, values })?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_become_values_and_no_text_can_break_out_of_its_string() {
        let text = r#"{"message": {"to": ["{{token}}"], "n": 1, "title": "{{title}}", "text": "{{body}}",
                       "extra": "{{data}}", "ids": ["{{broadcast_id}}", "{{delivery_key}}"], "fixed": "{x}"}}"#;
        let template = Template::try_from(text.to_owned()).expect("a template");
        let data = BTreeMap::from([("k".to_owned(), "{{token}}".to_owned())]);
        let (title, body) = (r#"", "to": "mallory"#, "{{delivery_key}} 봉수\n🔥");
        let values =
            Values { token: "t\"1", title, body, data: &data, broadcast_id: "7", delivery_key: "7-9" };
        let filled: Value =
            serde_json::from_slice(&template.fill(values).expect("JSON")).expect("JSON again");
        let expected = json!({ "message": {
            "to": ["t\"1"], "n": 1, "title": title, "text": body, "extra": { "k": "{{token}}" },
            "ids": ["7", "7-9"], "fixed": "{x}"
        }});
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_template_that_cannot_work_is_refused_at_the_start_with_what_is_wrong() {
        for (text, wrong) in [
            ("{", "no JSON"),
            (r#"{"to": "x"}"#, "{{token}}"),
            (r#"{"to": "{{token}}", "a": "{{titel}}"}"#, "{{titel}}"),
            (r#"{"to": "{{token}}", "a": "Dear {{title}}"}"#, "Dear"),
            (r#"{"to": "{{token}}", "{{title}}": 1}"#, "{{title}}"),
        ] {
            let error = Template::try_from(text.to_owned()).expect_err(text);
            assert!(format!("{error:#}").contains(wrong), "{error:#}");
        }
    }
}
