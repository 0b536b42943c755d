//! What a process that is going to be a program says when it waits for its turn.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Submissions after which one starts, at most.
pub const MAX_AFTER: usize = 16;

/// "I am going to be a program, as soon as I may start."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    /// Processors that it is going to ask for.
    pub request: u32,
    /// What it is, for reports.
    pub label: String,
    /// As in [`ToManager::Announce`](super::ToManager::Announce).
    #[serde(default = "yes")]
    pub attach: bool,
    /// It starts when all of these are so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// How long it waits at most; `None`: as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
    /// Its parent is going to say how it ended ([`ToManager::Outcome`](super::ToManager::Outcome)).
    #[serde(default)]
    pub reported: bool,
    /// For how long it runs at most, as its parent sees to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
    /// The processors with which it starts, and which it keeps; `None`: it follows its grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorRange>,
    /// The class of its site in which it is to be; `None`: as the rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What its user calls it, for those rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// A number of processors, or any number between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorRange {
    /// The fewest.
    pub least: u32,
    /// The most.
    pub most: u32,
}

fn yes() -> bool {
    true
}

impl Submit {
    /// Without conditions.
    pub fn plain(request: u32, label: impl Into<String>, attach: bool) -> Self {
        let label = label.into();
        Self {
            request,
            label,
            attach,
            after: Vec::new(),
            within_ns: None,
            reported: false,
            limit_ns: None,
            processors: None,
            class: None,
            purpose: None,
        }
    }
}

/// How another submission has to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// In whatever way.
    Any,
    /// With exit code 0.
    Ok,
    /// With another exit code, by a signal, or without having begun.
    Failed,
}

/// "Not before that one has ended."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// Its number.
    pub id: u64,
    /// How.
    pub how: Condition,
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            Condition::Any => write!(f, "{}", self.id),
            Condition::Ok => write!(f, "ok:{}", self.id),
            Condition::Failed => write!(f, "failed:{}", self.id),
        }
    }
}

impl FromStr for After {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (how, number) = match text.split_once(':') {
            None => (Condition::Any, text),
            Some(("any", number)) => (Condition::Any, number),
            Some(("ok", number)) => (Condition::Ok, number),
            Some(("failed", number)) => (Condition::Failed, number),
            Some((other, _)) => {
                return Err(format!("{other:?} is no way to end; it is ok, failed or any"));
            }
        };
        let id = number.parse().map_err(|_| {
            format!("{number:?} is no number of a submission; `cpumgr queue` shows those that wait")
        })?;
        Ok(Self { id, how })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_read_as_it_is_written() {
        for text in ["7", "ok:7", "failed:12"] {
            assert_eq!(text.parse::<After>().unwrap().to_string(), text);
        }
        assert_eq!("any:7".parse(), Ok(After { id: 7, how: Condition::Any }));
        assert!("well:7".parse::<After>().unwrap_err().contains("ok, failed or any"));
        assert!("ok:x".parse::<After>().unwrap_err().contains("cpumgr queue"));
    }
}
