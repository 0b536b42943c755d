//! What a thread does before it asks for something.

use std::fmt;
use std::time::Duration;

use platform::clock::monotonic_ns;

/// A processor whose thread slept is asleep itself, and cold: a thread that asks then pays for its
/// processor's waking, too. A program asks at a region, during its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Sleeps,
    Computes,
}

impl Before {
    pub(crate) const ALL: [Self; 2] = [Self::Computes, Self::Sleeps];

    /// Does that for this time.
    pub(crate) fn pass(self, time: Duration) {
        match self {
            Self::Sleeps => std::thread::sleep(time),
            Self::Computes => {
                let end = monotonic_ns()
                    .saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                while monotonic_ns() < end {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sleeps => "slept",
            Self::Computes => "computed",
        })
    }
}

impl From<&str> for Before {
    fn from(word: &str) -> Self {
        let known = Self::ALL.into_iter().find(|it| it.to_string() == word);
        known.unwrap_or_else(|| panic!("{word:?} is nothing that a thread does before"))
    }
}
