//! What the manager can be told, and what it offers to policies.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use policies::{MAX_WEIGHT, MIN_WEIGHT, Needs, Policy, Registry, UnknownPolicy};

/// Quanta in ns: a decision and its publishing take some 10 us, and a person waits for the longest.
pub fn quantum() -> RangeInclusive<u64> {
    1_000_000..=10_000_000_000
}

/// Graces in ns: zero squeezes at once.
pub fn grace() -> RangeInclusive<u64> {
    0..=10_000_000_000
}

/// The longest label of a program, in bytes.
pub const MAX_LABEL: usize = 64;

/// The share of a program relative to others, in thousandths: as exact as it has to be, and the
/// same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// The weight in thousandths; `None` when policies take no such weight.
    pub fn of(thousandths: u32) -> Option<Self> {
        let weight = Self(thousandths);
        (MIN_WEIGHT..=MAX_WEIGHT).contains(&weight.number()).then_some(weight)
    }

    /// As a message carries it.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// As policies see it.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// The weight that this text means.
pub fn weight(text: &str) -> Option<Weight> {
    let thousandths = (text.parse::<f64>().ok()? * 1000.0).round();
    // In range a cast is exact; out of it, and for what is no number, it saturates and is refused.
    Weight::of(thousandths as u32)
}

/// The policies of this process; set once, by [`crate::run`].
static POLICIES: OnceLock<Registry> = OnceLock::new();

/// The policies that come with the manager, all of them: programs report their speed, and a grant
/// may bind nothing. To add one's own to, for [`crate::run()`].
pub fn builtin() -> Registry {
    Registry::with_builtin_for(Needs::EVERYTHING)
}

/// The policies that this manager can run.
pub fn policies() -> &'static Registry {
    POLICIES.get_or_init(builtin)
}

/// Sets the policies of this process, before they are first asked for. Later it changes nothing.
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
