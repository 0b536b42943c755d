//! What `cpumgr policy` shows: the policies with their parameters.

use std::collections::BTreeMap;

use policies::Registry;
use serde::Serialize;

use crate::escape::printable;

/// What `cpumgr policy` shows.
#[derive(Debug, Serialize)]
pub(crate) struct Listing<'a> {
    /// Which one decides.
    in_force: &'a str,
    policies: Vec<Listed>,
}

/// A policy.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    description: String,
    parameters: Vec<ListedParameter>,
}

/// A parameter, as text.
#[derive(Debug, Serialize)]
struct ListedParameter {
    key: String,
    value: String,
    /// What this program knows of it. The manager may be another program, whose policy has more of
    /// them.
    #[serde(flatten)]
    known: Option<Known>,
}

#[derive(Debug, Serialize)]
struct Known {
    description: &'static str,
    allowed: String,
    default: String,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(
        registry: &Registry,
        in_force: &'a str,
        values: &BTreeMap<String, String>,
    ) -> Self {
        let policy = |name: &str| {
            let here = |key: &str| values.get(key).filter(|_| name == in_force).cloned();
            let known = registry.create(name).map(|policy| policy.parameters()).unwrap_or_default();
            let others = values
                .iter()
                .filter(|(key, _)| name == in_force && known.iter().all(|it| it.key != **key));
            let others: Vec<ListedParameter> = others
                .map(|(key, value)| ListedParameter {
                    key: key.clone(),
                    value: value.clone(),
                    known: None,
                })
                .collect();
            let listed = known.into_iter().map(|it| ListedParameter {
                key: it.key.to_owned(),
                value: here(it.key).unwrap_or_else(|| it.default.to_string()),
                known: Some(Known {
                    description: it.description,
                    allowed: it.allowed(),
                    default: it.default.to_string(),
                }),
            });
            let parameters = listed.chain(others).collect();
            let description = registry.description(name).unwrap_or_default().to_owned();
            Listed { name: name.to_owned(), description, parameters }
        };
        Self { in_force, policies: registry.names().into_iter().map(policy).collect() }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Listed { name, description, parameters } in &self.policies {
            let mark = if name == self.in_force { "*" } else { " " };
            text.push_str(&format!("{mark} {name:8} {description}\n"));
            for ListedParameter { key, value, known } in parameters {
                text.push_str(&format!("           {}={}", printable(key), printable(value)));
                if let Some(Known { description, allowed, default }) = known {
                    text.push_str(&format!(
                        "  {description} It is {allowed}; {default} unless changed."
                    ));
                }
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn the_listing_says_what_each_parameter_does_and_may_be() {
        let values = BTreeMap::from([
            ("step".to_owned(), "4".to_owned()),
            ("colour".to_owned(), "red".to_owned()),
        ]);
        let listing = Listing::new(&limits::builtin(), "pdpa", &values);
        let text = listing.text();
        let line = |of: &str| {
            text.lines()
                .find(|line| line.trim_start().starts_with(of))
                .unwrap_or_default()
                .to_owned()
        };
        assert!(
            line("step=4").contains("a whole number from 1 to")
                && line("step=4").contains("; 2 unless changed")
        );
        assert!(line("max-wait=60s").contains("a time from 0s to 86400s"), "{text}");
        assert!(line("backfill=false").contains("true or false"), "{text}");
        assert_eq!(line("colour=red").trim(), "colour=red");
        assert!(
            text.lines().all(|line| line.trim_end() == line && !line.contains("  It is")),
            "{text}"
        );

        let json = serde_json::to_value(&listing).unwrap();
        let pdpa = json["policies"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["name"] == json["in_force"])
            .unwrap();
        let parameter = |key: &str| {
            pdpa["parameters"].as_array().unwrap().iter().find(|it| it["key"] == key).unwrap()
        };
        assert_eq!(
            (&parameter("step")["value"], &parameter("step")["default"]),
            (&"4".into(), &"2".into())
        );
        assert_eq!(parameter("colour")["value"], "red");
        assert!(parameter("colour").get("allowed").is_none());
    }
}
