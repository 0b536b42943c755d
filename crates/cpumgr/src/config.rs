//! What the manager's configuration says: one file, one environment, or all of them together.
//!
//! # Rules
//! - C1 Of several sources the later one wins, key by key: what is built in, the files in the order
//!   of `sources`, what a killed manager was told (`settings`: policy, quantum, grace, level), the
//!   environment, the command line.
//! - C2 The parameters of a policy belong to the policy that they stand with: a later source that
//!   names another policy drops those before it.
//! - C3 An unknown key, and a value that cannot be, are errors with file, line, and what is
//!   allowed. Nothing of such a file is used.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use platform::affinity::CpuSet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::cli::{self, FairShare, IdleExit, Level, Listen, Strangers, Threads};
use crate::guarded::Guarded;
use crate::history::Keep;
use crate::limits;

mod classes;
mod lines;
mod rules;
mod sources;

pub(crate) use classes::BY_RULES;
pub use classes::ClassRule;
pub use rules::{ProgramRule, Rules, UserRule};
pub use sources::Sources;
pub(crate) use sources::misnamed;

use lines::Step;

pub use crate::mistake::ConfigError;

/// The file that comes with the manager: every key with its default.
pub const SHIPPED: &str = include_str!("../cpumgr.toml");

/// What sources say; a key that none of them names is `None`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// How processors are shared out.
    #[serde(deserialize_with = "policy")]
    pub policy: Option<String>,
    /// Values of the policy's parameters, as people write them.
    #[serde(deserialize_with = "parameters")]
    pub parameters: BTreeMap<String, String>,
    /// How often programs that share processors take turns.
    #[serde(deserialize_with = "quantum")]
    pub quantum: Option<Duration>,
    /// The time between asking for a processor and squeezing.
    #[serde(deserialize_with = "grace")]
    pub grace: Option<Duration>,
    /// How many programs may run at once.
    #[serde(deserialize_with = "level")]
    pub mpl: Option<Level>,
    /// In which order the programs of several users wait.
    #[serde(deserialize_with = "fair_share")]
    pub fair_share: Option<FairShare>,
    /// In which order the hardware threads of a core are filled.
    #[serde(deserialize_with = "smt")]
    pub smt: Option<Threads>,
    /// The processors to manage; `Some(None)`: all.
    #[serde(deserialize_with = "cpus")]
    pub cpus: Option<Option<CpuSet>>,
    /// What happens to processors on which others run.
    #[serde(deserialize_with = "strangers")]
    pub strangers: Option<Strangers>,
    /// How long a manager without programs stays.
    #[serde(deserialize_with = "idle_exit")]
    pub idle_exit: Option<IdleExit>,
    /// Where programs that do not obey are fenced in; an empty path: nowhere.
    #[serde(deserialize_with = "path")]
    pub fence: Option<PathBuf>,
    /// Where the trace goes; an empty path: nowhere.
    #[serde(deserialize_with = "path")]
    pub trace: Option<PathBuf>,
    /// Where it listens for browsers and Prometheus.
    #[serde(deserialize_with = "listen")]
    pub listen: Option<Listen>,
    /// Where what programs were granted and used is kept.
    #[serde(deserialize_with = "keep")]
    pub history: Option<Keep>,
    /// The most that its file takes.
    #[serde(deserialize_with = "history_size")]
    pub history_size: Option<u64>,
    /// How long a run is kept.
    #[serde(deserialize_with = "age")]
    pub history_age: Option<Duration>,
    /// The most that each of its two files takes.
    #[serde(deserialize_with = "size")]
    pub trace_size: Option<u64>,
    /// The group whose members may change what concerns all users; an empty name: none.
    #[serde(deserialize_with = "group")]
    pub admin_group: Option<String>,
    /// What single users have, by name or number.
    pub users: BTreeMap<String, UserRule>,
    /// What programs of a name have.
    pub programs: BTreeMap<String, ProgramRule>,
    /// What classes of programs have.
    pub classes: BTreeMap<String, ClassRule>,
    /// Which programs are in which class, the first that fits.
    pub class_rules: Vec<policies::classes::Rule>,
}

impl Config {
    /// What the text of one file says.
    ///
    /// # Errors
    /// The line, what is wrong there, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| lines::number_of(text, span.start));
            // In the words of people, for what is read as it stands.
            let what = error
                .message()
                .replace("expected u32", "expected a whole number from 0 to 4294967295");
            (line, what.replace("expected i32", "expected a whole number of at most ten digits"))
        })?;
        config.configured().map_err(|(parameter, what)| {
            let place = parameter.as_ref().map(|key| [Step::Key("parameters"), Step::Key(key)]);
            let place = place.as_ref().map_or(&[Step::Key("policy")][..], |place| place);
            (lines::line_of(text, place), what)
        })?;
        Ok(config)
    }

    /// The policy with its parameters; the usual one where none is named.
    ///
    /// # Errors
    /// What of it is not to be had.
    pub(crate) fn make_policy(&self) -> Result<Guarded, String> {
        self.configured().map_err(|(_, what)| what)
    }

    /// The parameter that is not one of the policy that stands with it, or of the usual one, and
    /// why; `None`: it is the policy itself.
    fn configured(&self) -> Result<Guarded, (Option<String>, String)> {
        let name = self.policy.as_deref().unwrap_or(policies::DEFAULT_POLICY);
        let mut policy = Guarded::make(|| limits::policy(name)).map_err(|what| (None, what))?;
        for (key, text) in &self.parameters {
            let set = policy.configure_text(key, text);
            set.map_err(|what| (Some(key.clone()), format!("parameters of {name}: {what}")))?;
        }
        Ok(policy)
    }

    /// This with a later source on top of it.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let mut parameters = self.parameters;
        if later.policy.is_some() && later.policy != self.policy {
            parameters.clear();
        }
        parameters.extend(later.parameters);
        Self {
            policy: later.policy.or(self.policy),
            parameters,
            quantum: later.quantum.or(self.quantum),
            grace: later.grace.or(self.grace),
            mpl: later.mpl.or(self.mpl),
            fair_share: later.fair_share.or(self.fair_share),
            smt: later.smt.or(self.smt),
            cpus: later.cpus.or(self.cpus),
            strangers: later.strangers.or(self.strangers),
            idle_exit: later.idle_exit.or(self.idle_exit),
            fence: later.fence.or(self.fence),
            trace: later.trace.or(self.trace),
            listen: later.listen.or(self.listen),
            history: later.history.or(self.history),
            history_size: later.history_size.or(self.history_size),
            history_age: later.history_age.or(self.history_age),
            trace_size: later.trace_size.or(self.trace_size),
            admin_group: later.admin_group.or(self.admin_group),
            users: merged(self.users, later.users, UserRule::then),
            programs: merged(self.programs, later.programs, ProgramRule::then),
            classes: merged(self.classes, later.classes, ClassRule::then),
            class_rules: later.class_rules.into_iter().chain(self.class_rules).collect(),
        }
    }
}

/// Tables by name, those of the later source on top.
fn merged<T: Default>(
    mut first: BTreeMap<String, T>,
    later: BTreeMap<String, T>,
    then: fn(T, T) -> T,
) -> BTreeMap<String, T> {
    for (name, table) in later {
        let below = first.remove(&name).unwrap_or_default();
        first.insert(name, then(below, table));
    }
    first
}

/// A value that people write as text, read by what reads it on the command line.
fn read<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    from: D,
    reader: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    reader(&text).map(Some).map_err(D::Error::custom)
}

fn policy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    read(from, cli::policy)
}

fn quantum<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    cli::quantum(&Written::deserialize(from)?.text()).map(Some).map_err(D::Error::custom)
}

fn grace<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    cli::grace(&Written::deserialize(from)?.text()).map(Some).map_err(D::Error::custom)
}

fn group<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    read(from, |text| Ok::<_, String>(text.to_owned()))
}

fn keep<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Keep>, D::Error> {
    read(from, cli::keep)
}

fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    read(from, cli::age)
}

fn fair_share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FairShare>, D::Error> {
    read(from, cli::fair_share)
}

fn history_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    cli::history_size(&Written::deserialize(from)?.text()).map(Some).map_err(D::Error::custom)
}

fn idle_exit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IdleExit>, D::Error> {
    read(from, cli::idle_exit)
}

fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<CpuSet>>, D::Error> {
    let all_or_some = |text: &str| match text {
        "all" => Ok(None),
        _ => cli::cpus(text)
            .map(Some)
            .map_err(|what| format!("{what}; write a list as 0-3,8, or all")),
    };
    read(from, all_or_some)
}

fn smt<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Threads>, D::Error> {
    read(from, choice)
}

fn strangers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Strangers>, D::Error> {
    read(from, choice)
}

fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    read(from, |text| match text.is_empty() || text.starts_with('/') {
        true => Ok(PathBuf::from(text)),
        false => Err(format!("{text:?} is no absolute path; write one, or \"\" for none")),
    })
}

/// One of the words of an option.
fn choice<T: clap::ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let names = T::value_variants().iter().filter_map(T::to_possible_value);
        let names: Vec<String> = names.map(|it| format!("{:?}", it.get_name())).collect();
        format!("{text:?} is not possible here; it is {}", names.join(" or "))
    })
}

/// Of numbers that may be written with or without quotation marks.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or a text")]
enum Written {
    Whole(i64),
    Broken(f64),
    Truth(bool),
    Text(String),
}

impl Written {
    fn text(&self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Broken(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

fn level<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Level>, D::Error> {
    cli::level(&Written::deserialize(from)?.text()).map(Some).map_err(D::Error::custom)
}

fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Listen>, D::Error> {
    cli::listen(&Written::deserialize(from)?.text()).map(Some).map_err(D::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    cli::size(&Written::deserialize(from)?.text()).map(Some).map_err(D::Error::custom)
}

fn parameters<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let table = BTreeMap::<String, Written>::deserialize(from)?;
    Ok(table.into_iter().map(|(key, value)| (key, value.text())).collect())
}

#[cfg(test)]
mod tests;
