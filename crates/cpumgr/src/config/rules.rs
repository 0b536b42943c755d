//! What a configuration says of single users and programs, weights and limits, and of the group
//! that administers.
//!
//! # Rules
//! - R1 A user's table is named by its name or its number, a program's by the name that the kernel
//!   has for it when it arrives. A program may take any name: what the table gives it, it takes
//!   from other programs of its user, since users share first.
//! - R2 What was set for a process (`set weight`, `run --weight`) stands above what a table says of
//!   its name.

use std::collections::BTreeMap;

use nix::unistd::{Group, User};
use serde::{Deserialize, Deserializer};

use super::Written;
use super::classes::ClassTable;
use crate::cli;
use crate::limits::Weight;

/// The group whose members may change what concerns all users, unless another one is set.
pub(crate) const ADMIN_GROUP: &str = "cpumgr";

/// Of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    default,
    expecting = "a table, as [users.ann] with weight"
)]
pub struct UserRule {
    /// Its share relative to other users.
    #[serde(deserialize_with = "weight")]
    pub weight: Option<Weight>,
    /// How many programs it may have at once.
    pub programs: Option<u32>,
    /// The most processors that its programs have together.
    #[serde(deserialize_with = "processors")]
    pub processors: Option<u32>,
}

/// Of programs of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    default,
    expecting = "a table, as [programs.make] with weight"
)]
pub struct ProgramRule {
    /// Its share relative to other programs of its user.
    #[serde(deserialize_with = "weight")]
    pub weight: Option<Weight>,
    /// The most that it is given.
    #[serde(deserialize_with = "processors")]
    pub processors: Option<u32>,
}

impl UserRule {
    /// This with a later source on top of it.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            weight: later.weight.or(self.weight),
            programs: later.programs.or(self.programs),
            processors: later.processors.or(self.processors),
        }
    }
}

impl ProgramRule {
    /// This with a later source on top of it.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            weight: later.weight.or(self.weight),
            processors: later.processors.or(self.processors),
        }
    }
}

/// All of them, users by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    users: BTreeMap<u32, UserRule>,
    programs: BTreeMap<String, ProgramRule>,
    classes: ClassTable,
    admins: Option<u32>,
}

impl Rules {
    /// Looks the users up. A name that no user has is left out, and the log says so. No group
    /// administers.
    pub fn of(config: &super::Config) -> Self {
        let mut users = BTreeMap::new();
        for (name, rule) in &config.users {
            match number(name) {
                Some(user) => drop(users.insert(user, rule.clone())),
                None => tracing::warn!(user = name, "there is no such user: its table is left out"),
            }
        }
        Self {
            users,
            programs: config.programs.clone(),
            classes: ClassTable::of(config),
            admins: None,
        }
    }

    /// The same for a manager of all users (`system`), where the members of a group administer,
    /// which is looked up.
    #[must_use]
    pub fn of_manager(config: &super::Config, system: bool) -> Self {
        let name = config.admin_group.as_deref().unwrap_or(ADMIN_GROUP);
        let admins = Some(name).filter(|name| system && !name.is_empty()).and_then(admins);
        Self { admins, ..Self::of(config) }
    }

    /// The group whose members may change what concerns all users.
    pub(crate) fn admins(&self) -> Option<u32> {
        self.admins
    }

    /// The weights of users that have one.
    pub(crate) fn weights(&self) -> BTreeMap<u32, f64> {
        let weight = |(user, rule): (&u32, &UserRule)| Some((*user, rule.weight?.number()));
        self.users.iter().filter_map(weight).collect()
    }

    /// The most processors that users have, where that is said.
    pub(crate) fn caps(&self) -> BTreeMap<u32, u32> {
        let cap = |(user, rule): (&u32, &UserRule)| Some((*user, rule.processors?));
        self.users.iter().filter_map(cap).collect()
    }

    /// How many programs a user may have, where that is said.
    pub(crate) fn programs_of(&self, user: u32) -> Option<usize> {
        Some(self.users.get(&user)?.programs? as usize)
    }

    /// The site's classes.
    pub(crate) fn class_table(&self) -> &ClassTable {
        &self.classes
    }

    /// What is said of a program.
    pub(crate) fn of_program(&self, name: &str) -> Option<&ProgramRule> {
        self.programs.get(name)
    }
}

pub(super) fn number(name: &str) -> Option<u32> {
    let named = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
    named.or_else(|| name.parse().ok())
}

/// The number of the group of administrators; `None`: there is no such group, and the log says so.
fn admins(name: &str) -> Option<u32> {
    match Group::from_name(name) {
        Ok(Some(group)) => Some(group.gid.as_raw()),
        Ok(None) => {
            tracing::info!(
                group = name,
                "there is no such group: only this user and the superuser administer"
            );
            None
        }
        Err(error) => {
            tracing::warn!(group = name, %error, "the group of administrators is not known");
            None
        }
    }
}

/// Of none a program would do nothing.
fn processors<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = u32::deserialize(from)?;
    let possible = Some(number).filter(|number| *number > 0);
    let what = "it is at least 1 processor; leave the key out for any number";
    possible.map(Some).ok_or_else(|| serde::de::Error::custom(what))
}

pub(super) fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Weight>, D::Error> {
    let written = Written::deserialize(from)?.text();
    cli::weight(&written).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn tables_of_users_and_programs_are_read_and_later_ones_win_key_by_key() {
        let of = |text: &str| Config::parse(text).unwrap();
        let first = of(
            "[users.root]\nweight = 2\nprograms = 3\nprocessors = 2\n[programs.lu]\nprocessors = 4",
        );
        let second = of("[users.root]\nweight = 0.5\n[users.no-such-user-here]\nprograms = 1");
        let rules = Rules::of(&first.then(second));
        assert_eq!(rules.weights(), BTreeMap::from([(0, 0.5)]));
        assert_eq!(rules.caps(), BTreeMap::from([(0, 2)]));
        assert_eq!((rules.programs_of(0), rules.programs_of(1)), (Some(3), None));
        assert_eq!(rules.of_program("lu").unwrap().processors, Some(4));
        assert!(rules.of_program("bt").is_none());
        for (text, word) in [
            ("[users.root]\nweight = 0", "0.001"),
            ("[users.root]\ncolour = 1", "colour"),
            ("[users.root]\nprocessors = 0", "at least 1"),
            ("[programs.lu]\nprocessors = -1", "-1"),
            ("[programs.lu]\nprocessors = 0", "at least 1"),
        ] {
            let (line, what) = Config::parse(text).unwrap_err();
            assert!(line == 2 && what.contains(word), "{text}: {line}: {what}");
        }
    }
}
