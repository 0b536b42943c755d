//! Classes of programs, and the rules that put programs into them.
//!
//! # Rules
//! - K1 `[classes.NAME]` says what a class may have; later sources win key by key.
//!   `[[class-rules]]` put programs into classes: the first that fits, and those of later sources
//!   come first.
//! - K2 Users and groups are looked up when the files are read, and are numbers from then on: the
//!   scheduler asks no directory service.
//! - K3 A rule names a class of its own file or of one before it.

use std::collections::BTreeMap;

use nix::unistd::Group;
use policies::Class;
use policies::classes::Rule;
use serde::Deserialize;

use super::lines::{Step, line_of};
use super::rules::{number, weight};
use crate::limits::Weight;

/// A name that stands for "as the rules say".
pub(crate) const BY_RULES: &str = "auto";
/// The longest name of a class, in bytes.
const MAX_NAME: usize = 64;
/// The most classes and rules that a configuration has.
const MOST: usize = 1000;

/// What one source says of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    default,
    expecting = "a table, as [classes.night] with min, max, weight, priority, reserve, open"
)]
pub struct ClassRule {
    /// Processors that its programs have before others get more than theirs.
    pub min: Option<u32>,
    /// The most processors of its programs together.
    pub max: Option<u32>,
    /// Its share relative to other classes of its priority.
    #[serde(deserialize_with = "weight")]
    pub weight: Option<Weight>,
    /// Classes of a higher priority come first.
    pub priority: Option<i32>,
    /// The minimum is kept free while its programs do not want it.
    pub reserve: Option<bool>,
    /// Each user may choose it for programs of its own.
    pub open: Option<bool>,
}

impl ClassRule {
    /// This with a later source on top of it.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            min: later.min.or(self.min),
            max: later.max.or(self.max),
            weight: later.weight.or(self.weight),
            priority: later.priority.or(self.priority),
            reserve: later.reserve.or(self.reserve),
            open: later.open.or(self.open),
        }
    }

    /// As policies have it.
    pub(super) fn class(&self) -> Class {
        let usual = Class::default();
        Class {
            min: self.min.unwrap_or(usual.min),
            max: self.max.unwrap_or(usual.max),
            weight: self.weight.map_or(usual.weight, Weight::number),
            priority: self.priority.unwrap_or(usual.priority),
            reserve: self.reserve.unwrap_or(usual.reserve),
        }
    }
}

impl super::Config {
    /// What `file` says of classes makes sense with this, which holds it and all before it. The
    /// line in its `text`, and what is wrong.
    pub(super) fn check_classes(&self, file: &Self, text: &str) -> Result<(), (usize, String)> {
        let of_rule = |at: usize, key: &str| {
            line_of(text, &[Step::Key("class-rules"), Step::Nth(at), Step::Key(key)])
        };
        for name in file.classes.keys() {
            let class = self.classes.get(name).map(ClassRule::class).unwrap_or_default();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let named = match name.as_str() {
                BY_RULES => {
                    Err(format!("{BY_RULES} stands for what the rules say; name it otherwise"))
                }
                name if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_name) => {
                    Err(format!(
                        "{name:?} is no name of a class: 1 to {MAX_NAME} letters, digits, -, _, ."
                    ))
                }
                _ => Ok(()),
            };
            named.and_then(|()| class.check()).map_err(|what| {
                let line = line_of(text, &[Step::Key("classes"), Step::Key(name)]);
                (line, format!("classes.{name}: {what}"))
            })?;
        }
        for (at, rule) in file.class_rules.iter().enumerate() {
            let fault = match rule.class.as_str() {
                class if self.classes.contains_key(class) => continue,
                "" => "it names no class; write class = \"NAME\"".to_owned(),
                class => format!("no class is called {class:?}"),
            };
            let what = format!("class-rules: rule {}: {fault}; {}", at + 1, self.known_classes());
            return Err((of_rule(at, "class"), what));
        }
        let rules = policies::classes::Rules(file.class_rules.clone());
        rules
            .check(self.classes.keys().map(String::as_str))
            .map_err(|fault| (of_rule(fault.number - 1, ""), format!("class-rules: {fault}")))?;
        for (at, rule) in file.class_rules.iter().enumerate() {
            for (key, text) in [("user", &rule.user), ("group", &rule.group)] {
                let is_pattern = |text: &String| text != "*" && text.contains(['*', '?']);
                if text.as_ref().is_some_and(is_pattern) {
                    let what = format!("class-rules: {key} is a name or a number, or \"*\"");
                    return Err((of_rule(at, key), what));
                }
            }
        }
        if self.classes.len() > MOST || self.class_rules.len() > MOST {
            return Err((1, format!("more than {MOST} classes, or rules of classes")));
        }
        Ok(())
    }

    /// Which classes there are, in words.
    fn known_classes(&self) -> String {
        let known: Vec<&str> = self.classes.keys().map(String::as_str).collect();
        match known.as_slice() {
            [] => "there are none ([classes.NAME])".to_owned(),
            known => format!("there are: {}", known.join(", ")),
        }
    }
}

/// All of them together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClassTable {
    /// What classes may have.
    pub(crate) classes: BTreeMap<String, Class>,
    /// Those that each user may choose.
    open: Vec<String>,
    /// Users and groups by number.
    rules: Vec<Rule>,
}

impl ClassTable {
    /// Looks users and groups up. A rule of one that is not there is left out, and the log says so.
    pub(super) fn of(config: &super::Config) -> Self {
        let resolve = |rule: &Rule| {
            let user = found(rule.user.as_deref(), number);
            let group = found(rule.group.as_deref(), group_number);
            if user.is_none() || group.is_none() {
                tracing::warn!(?rule, "there is no such user or group: the rule is left out");
            }
            Some(Rule { user: user?, group: group?, ..rule.clone() })
        };
        Self {
            classes: config.classes.iter().map(|(name, it)| (name.clone(), it.class())).collect(),
            open: config
                .classes
                .iter()
                .filter(|(_, it)| it.open == Some(true))
                .map(|(name, _)| name.clone())
                .collect(),
            rules: config.class_rules.iter().filter_map(resolve).collect(),
        }
    }

    /// The class of a program by the rules.
    pub(crate) fn of_program(&self, subject: &policies::classes::Subject) -> Option<&str> {
        self.rules.iter().find(|rule| rule.fits(subject)).map(|rule| rule.class.as_str())
    }

    /// The user of such a program may choose this class for it: it is open, or one of its rules
    /// fits.
    pub(crate) fn allows(&self, class: &str, subject: &policies::classes::Subject) -> bool {
        let fits = |rule: &Rule| rule.class == class && rule.fits(subject);
        self.open.iter().any(|it| it == class) || self.rules.iter().any(fits)
    }

    /// A rule looks at groups, or at control groups.
    pub(crate) fn looks_at(&self) -> (bool, bool) {
        let any = |of: fn(&Rule) -> bool| self.rules.iter().any(of);
        (any(|rule| rule.group.is_some()), any(|rule| rule.cgroup.is_some()))
    }
}

/// A name as a number; `None`: there is none of this name.
fn found(name: Option<&str>, number: impl FnOnce(&str) -> Option<u32>) -> Option<Option<String>> {
    match name {
        None => Some(None),
        Some("*") => Some(Some("*".to_owned())),
        Some(name) => number(name).map(|number| Some(number.to_string())),
    }
}

fn group_number(name: &str) -> Option<u32> {
    let named = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
    named.or_else(|| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use policies::classes::Subject;

    use super::super::{Config, Rules};

    #[test]
    fn later_rules_come_first_and_a_user_is_a_number_to_them() {
        let of = |text: &str| Config::parse(text).unwrap();
        let first =
            of("[classes.night]\nmax = 2\n[[class-rules]]\nclass = \"night\"\nuser = \"root\"");
        let later = of("[classes.night]\nmin = 1\nopen = true\n[classes.day]\npriority = 2\n\
                        [[class-rules]]\nclass = \"day\"\nname = \"ed*\"\n\
                        [[class-rules]]\nclass = \"day\"\ngroup = \"no-such-group-here\"");
        let rules = Rules::of(&first.then(later));
        let table = rules.class_table();
        assert_eq!((table.classes["night"].min, table.classes["night"].max), (1, 2));
        let subject = |name: &str, user: &str| Subject {
            name: name.into(),
            user: user.into(),
            ..Subject::default()
        };
        assert_eq!(table.of_program(&subject("editor", "0")), Some("day"));
        assert_eq!(table.of_program(&subject("solver", "0")), Some("night"));
        assert_eq!(table.of_program(&subject("solver", "7")), None);
        assert!(table.allows("night", &subject("solver", "7")), "it is open");
        assert!(!table.allows("day", &subject("solver", "7")));
        assert!(table.allows("day", &subject("ed", "7")), "a rule fits");
    }

    #[test]
    fn a_mistake_has_its_line() {
        for (text, line, word) in [
            ("#\n[classes.night]\nmin = 3\nmax = 2", 2, "at least the minimum"),
            ("[classes.auto]\nmin = 3", 1, "otherwise"),
            ("\n[classes.\"a b\"]\nmin = 3", 2, "no name"),
            ("\n[classes.\"\"]\nmin = 3", 2, "1 to 64 letters"),
            ("[classes]\nday.min = 1\nnight = { min = 3, max = 2 }", 3, "at least the minimum"),
            (
                "[classes.a]\n\n[[class-rules]]\nclass = \"a\"\nname = \
                 \"*\"\n[[class-rules]]\nclass = \"b\"",
                7,
                "there are: a",
            ),
            ("\n[[class-rules]]\nname = \"*\"", 2, "it names no class; write class = \"NAME\""),
            ("\n[[class-rules]]\nname = \"*\"", 2, "there are none"),
            (
                "[classes.a]\n[[class-rules]]\n# [[class-rules]]\nclass = \"a\"\nuser = \
                 \"x\"\n [[ class-rules ]]\nclass = \"a\"",
                6,
                "says nothing",
            ),
            ("[classes.a]\n[[class-rules]]\nclass = \"a\"", 2, "says nothing"),
            ("[classes.a]\n[[class-rules]]\nclass = \"a\"\nuser = \"b*\"", 4, "a name or a number"),
        ] {
            let config = Config::parse(text).unwrap();
            let (found, what) = config.check_classes(&config, text).unwrap_err();
            assert!(found == line && what.contains(word), "{text}: {found}: {what}");
        }
        for (text, line, word) in [
            ("[classes.night]\nweight = 0", 2, "0.001"),
            ("[classes.night]\ncolour = 0", 2, "colour"),
            ("[[class-rules]]\nclass = \"a\"\ncolour = 0", 3, "colour"),
        ] {
            let (found, what) = Config::parse(text).unwrap_err();
            assert!(found == line && what.contains(word), "{text}: {found}: {what}");
        }
    }
}
