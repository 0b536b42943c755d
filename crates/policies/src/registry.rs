//! The policies that can be had by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::batch::Batch;
use crate::cluster::Cluster;
use crate::dss::Dss;
use crate::dss_ts::DssTs;
use crate::equip::Equip;
use crate::fair::Fair;
use crate::gang::Gang;
use crate::marginal::Marginal;
use crate::none::NoPolicy;
use crate::pdpa::Pdpa;
use crate::policy::{Needs, Policy};
use crate::rr::RoundRobin;
use crate::sliding::{SswDss, SwDss};
use crate::turnaround::Turnaround;
use crate::vtq::VtqDss;

/// The name of the policy that a manager uses unless told otherwise.
pub const DEFAULT_POLICY: &str = DssTs::NAME;

type Constructor = Arc<dyn Fn() -> Box<dyn Policy> + Send + Sync>;

#[derive(Clone)]
struct Entry {
    description: String,
    needs: Needs,
    constructor: Constructor,
}

/// Policies by name; other crates add their own.
///
/// ```
/// let registry = policies::Registry::with_builtin();
/// let policy = registry.create("equip")?;
/// assert_eq!(policy.name(), "equip");
///
/// let unknown = registry.create("eqip").err().expect("there is no such policy");
/// assert!(unknown.to_string().starts_with("no policy is called \"eqip\"; there are: batch, cluster, dss, "));
///
/// // A manager says what it offers; a policy that needs more cannot be had from it.
/// let refused = registry.create("none").err().expect("nothing special is offered");
/// assert!(refused.to_string().contains("needs allocations that are not bound to processors"));
/// assert!(policies::Registry::with_builtin_for(policies::Needs::EVERYTHING).create("none").is_ok());
/// # Ok::<(), policies::UnknownPolicy>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    /// What the manager offers.
    offered: Needs,
    entries: BTreeMap<&'static str, Entry>,
}

impl Registry {
    /// A registry that knows no policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All policies of this crate that need nothing special of the manager, see [`Policy::needs`].
    #[must_use]
    pub fn with_builtin() -> Self {
        Self::with_builtin_for(Needs::NOTHING)
    }

    /// All policies of this crate that need no more than is offered. The others are known but
    /// cannot be had.
    #[must_use]
    pub fn with_builtin_for(offered: Needs) -> Self {
        let mut registry = Self { offered, entries: BTreeMap::new() };
        for (description, constructor) in [
            (Equip::DESCRIPTION, (|| Box::new(Equip::new())) as fn() -> Box<dyn Policy>),
            (Fair::DESCRIPTION, || Box::new(Fair::new())),
            (Dss::DESCRIPTION, || Box::new(Dss::new())),
            (DssTs::DESCRIPTION, || Box::new(DssTs::new())),
            (Cluster::DESCRIPTION, || Box::new(Cluster::new())),
            (SwDss::DESCRIPTION, || Box::new(SwDss::new())),
            (SswDss::DESCRIPTION, || Box::new(SswDss::new())),
            (VtqDss::DESCRIPTION, || Box::new(VtqDss::new())),
            (Pdpa::DESCRIPTION, || Box::new(Pdpa::new())),
            (Marginal::DESCRIPTION, || Box::new(Marginal::new())),
            (Turnaround::DESCRIPTION, || Box::new(Turnaround::new())),
            (Batch::DESCRIPTION, || Box::new(Batch::new())),
            (RoundRobin::DESCRIPTION, || Box::new(RoundRobin::new())),
            (Gang::DESCRIPTION, || Box::new(Gang::new())),
            (NoPolicy::DESCRIPTION, || Box::new(NoPolicy::new())),
        ] {
            registry
                .register(constructor().name(), description, constructor)
                .expect("the names of this list are valid and differ, see the test `builtin_policies_are_listed`");
        }
        registry
    }

    /// The same policies for a manager that offers this.
    #[must_use]
    pub fn offering(self, offered: Needs) -> Self {
        Self { offered, ..self }
    }

    /// Adds a policy under the name that its objects give themselves. Makes one object to see that.
    ///
    /// # Errors
    /// The name is not of lower-case letters, digits and dashes, is taken, or is not what the
    /// object calls itself.
    pub fn register(
        &mut self,
        name: &'static str,
        description: impl Into<String>,
        constructor: impl Fn() -> Box<dyn Policy> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(valid) {
            return Err(RegisterError::Name { name });
        }
        if self.entries.contains_key(name) {
            return Err(RegisterError::Taken { name });
        }
        let policy = constructor();
        let (own, needs) = (policy.name(), policy.needs());
        if own != name {
            return Err(RegisterError::OtherName { name, own });
        }
        self.entries.insert(
            name,
            Entry { description: description.into(), needs, constructor: Arc::new(constructor) },
        );
        Ok(())
    }

    /// A new object of the policy called `name`.
    ///
    /// # Errors
    /// There is none of this name, or it needs more than the manager offers.
    pub fn create(&self, name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
        let entry = self.entries.get(name);
        let missing = entry.map(|entry| entry.needs.missing(self.offered)).unwrap_or_default();
        match entry {
            Some(entry) if missing.is_empty() => Ok((entry.constructor)()),
            _ => Err(UnknownPolicy { name: name.to_owned(), missing, known: self.names() }),
        }
    }

    /// The names of those that can be had, in alphabetical order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let able =
            self.entries.iter().filter(|(_, entry)| entry.needs.missing(self.offered).is_empty());
        able.map(|(name, _)| *name).collect()
    }

    /// What the policy called `name` does, in a line.
    #[must_use]
    pub fn description(&self, name: &str) -> Option<&str> {
        self.entries.get(name).map(|entry| entry.description.as_str())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.keys()).finish()
    }
}

/// There is no policy of this name, or it cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}; there are: {}", reason(name, missing), known.join(", "))]
pub struct UnknownPolicy {
    /// The name asked for.
    pub name: String,
    /// What the policy of this name needs and the manager does not offer; empty when there is no
    /// such policy.
    pub missing: Vec<&'static str>,
    /// The names that exist.
    pub known: Vec<&'static str>,
}

fn reason(name: &str, missing: &[&str]) -> String {
    if missing.is_empty() {
        format!("no policy is called {name:?}")
    } else {
        format!(
            "the policy {name:?} needs {}, which this manager does not offer",
            missing.join(" and ")
        )
    }
}

/// A policy cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name cannot be typed on a command line.
    #[error("{name:?} cannot name a policy; use lower-case letters, digits and dashes")]
    Name {
        /// The name.
        name: &'static str,
    },
    /// The name belongs to another policy.
    #[error("a policy is called {name:?} already; choose another name")]
    Taken {
        /// The name.
        name: &'static str,
    },
    /// The object gives itself another name, so that what is reported could not be asked for.
    #[error("the policy registered as {name:?} calls itself {own:?}; both must be the same")]
    OtherName {
        /// The name given.
        name: &'static str,
        /// The name of the object.
        own: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_policies_are_listed() {
        let registry = Registry::with_builtin();
        let usual = [
            "batch", "cluster", "dss", "dss-ts", "equip", "fair", "gang", "rr", "ssw-dss",
            "sw-dss", "vtq-dss",
        ];
        assert_eq!(registry.names(), usual);
        assert!(registry.names().contains(&DEFAULT_POLICY));
        let registry = Registry::with_builtin_for(Needs::EVERYTHING);
        let special = registry.names().into_iter().filter(|name| !usual.contains(name));
        assert_eq!(special.collect::<Vec<_>>(), ["marginal", "none", "pdpa", "turnaround"]);
        for name in registry.names() {
            assert_eq!(registry.create(name).expect("it is listed").name(), name);
            assert!(registry.description(name).is_some_and(|text| !text.is_empty()));
        }
        assert_eq!(registry.description("nonesuch"), None);
    }

    #[test]
    fn names_that_cannot_be_used_are_refused() {
        let mut registry = Registry::with_builtin();
        let equip = || Box::new(Equip::new()) as Box<dyn Policy>;
        assert_eq!(
            registry.register("equip", "", equip),
            Err(RegisterError::Taken { name: "equip" })
        );
        assert_eq!(
            registry.register("Equal Shares", "", equip),
            Err(RegisterError::Name { name: "Equal Shares" })
        );
        assert_eq!(registry.register("", "", equip), Err(RegisterError::Name { name: "" }));
        let other = RegisterError::OtherName { name: "equal", own: "equip" };
        assert_eq!(registry.register("equal", "", equip), Err(other));
        let mut empty = Registry::new();
        assert_eq!(empty.register("equip", "mine", equip), Ok(()));
        assert_eq!(empty.description("equip"), Some("mine"));
    }
}
