//! What the manager can be told, and what it offers to policies.

use std::ops::RangeInclusive;

use policies::{Needs, Policy, Registry, UnknownPolicy};

/// Quanta in ns: a decision and its publishing take some 10 us, and a person waits for the longest.
pub fn quantum() -> RangeInclusive<u64> {
    1_000_000..=10_000_000_000
}

/// Graces in ns: zero squeezes at once.
pub fn grace() -> RangeInclusive<u64> {
    0..=10_000_000_000
}

/// The policies that this manager can run: programs report their speed, and everything is bound to processors.
pub fn policies() -> Registry {
    Registry::with_builtin_for(Needs { reports: true, unbound: false })
}

/// A new object of a policy.
///
/// # Errors
/// There is none of this name, or it needs what this manager does not offer.
pub fn policy(name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
    policies().create(name)
}
