//! The policies that can be had by name.

use std::collections::BTreeMap;
use std::fmt;

use crate::dss::Dss;
use crate::dss_ts::DssTs;
use crate::equip::Equip;
use crate::policy::Policy;

/// The name of the policy that a manager uses unless told otherwise.
pub const DEFAULT_POLICY: &str = DssTs::NAME;

type Constructor = Box<dyn Fn() -> Box<dyn Policy> + Send + Sync>;

struct Entry {
    description: String,
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
/// assert_eq!(unknown.to_string(), "no policy is called \"eqip\"; there are: dss, dss-ts, equip");
/// # Ok::<(), policies::UnknownPolicy>(())
/// ```
#[derive(Default)]
pub struct Registry {
    entries: BTreeMap<&'static str, Entry>,
}

impl Registry {
    /// A registry that knows no policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry of all policies of this crate.
    #[must_use]
    pub fn with_builtin() -> Self {
        let mut registry = Self::new();
        for (description, constructor) in [
            (Equip::DESCRIPTION, (|| Box::new(Equip::new())) as fn() -> Box<dyn Policy>),
            (Dss::DESCRIPTION, || Box::new(Dss::new())),
            (DssTs::DESCRIPTION, || Box::new(DssTs::new())),
        ] {
            registry
                .register(constructor().name(), description, constructor)
                .expect("the names of this list are valid and differ, see the test `builtin_policies_are_listed`");
        }
        registry
    }

    /// Adds a policy under the name that its objects give themselves. Makes one object to see that.
    ///
    /// # Errors
    /// The name is not of lower-case letters, digits and dashes, is taken, or is not what the object calls itself.
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
        let own = constructor().name();
        if own != name {
            return Err(RegisterError::OtherName { name, own });
        }
        self.entries.insert(name, Entry { description: description.into(), constructor: Box::new(constructor) });
        Ok(())
    }

    /// A new object of the policy called `name`.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn create(&self, name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
        match self.entries.get(name) {
            Some(entry) => Ok((entry.constructor)()),
            None => Err(UnknownPolicy { name: name.to_owned(), known: self.names() }),
        }
    }

    /// The names, in alphabetical order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.entries.keys().copied().collect()
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

/// There is no policy of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called {name:?}; there are: {}", known.join(", "))]
pub struct UnknownPolicy {
    /// The name asked for.
    pub name: String,
    /// The names that exist.
    pub known: Vec<&'static str>,
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
        assert_eq!(registry.names(), ["dss", "dss-ts", "equip"]);
        assert!(registry.names().contains(&DEFAULT_POLICY));
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
        assert_eq!(registry.register("equip", "", equip), Err(RegisterError::Taken { name: "equip" }));
        assert_eq!(registry.register("Equal Shares", "", equip), Err(RegisterError::Name { name: "Equal Shares" }));
        assert_eq!(registry.register("", "", equip), Err(RegisterError::Name { name: "" }));
        let other = RegisterError::OtherName { name: "equal", own: "equip" };
        assert_eq!(registry.register("equal", "", equip), Err(other));
        let mut empty = Registry::new();
        assert_eq!(empty.register("equip", "mine", equip), Ok(()));
        assert_eq!(empty.description("equip"), Some("mine"));
    }
}
