//! What the manager can be told, and what it offers to policies.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use policies::{Needs, Policy, Registry, UnknownPolicy};

/// Quanta in ns: a decision and its publishing take some 10 us, and a person waits for the longest.
pub fn quantum() -> RangeInclusive<u64> {
    1_000_000..=10_000_000_000
}

/// Graces in ns: zero squeezes at once.
pub fn grace() -> RangeInclusive<u64> {
    0..=10_000_000_000
}

/// The policies of this process; set once, by [`crate::run`].
static POLICIES: OnceLock<Registry> = OnceLock::new();

/// The policies that come with the manager, all of them: programs report their speed, and a grant may bind nothing. To
/// add one's own to, for [`crate::run()`].
pub fn builtin() -> Registry {
    Registry::with_builtin_for(Needs::EVERYTHING)
}

/// The policies that this manager can run.
pub fn policies() -> &'static Registry {
    POLICIES.get_or_init(builtin)
}

/// Sets the policies of this process, before anybody asked for them. Later it changes nothing.
pub(crate) fn set_policies(registry: Registry) {
    let _first = POLICIES.set(registry);
}

/// A new object of a policy.
///
/// # Errors
/// There is none of this name, or it needs what this manager does not offer.
pub fn policy(name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
    policies().create(name)
}
