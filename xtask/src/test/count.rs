//! How many checks of a lane passed, failed, were skipped.

use std::ops::AddAssign;

/// What a lane found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// Noted in the file of [`skips`](crate::skips); not among those that passed.
    pub(super) skipped: u64,
}

impl Count {
    /// A lane that is one check.
    pub(super) const ONE: Count = Count { passed: 1, failed: 0, skipped: 0 };

    pub(super) fn passed(passed: u64) -> Count {
        Count { passed, ..Count::default() }
    }

    /// With skips; where `as_passed`, a test that notes one ended as one that passed.
    pub(super) fn with_skips(self, skipped: u64, as_passed: bool) -> Count {
        let passed = if as_passed { self.passed.saturating_sub(skipped) } else { self.passed };
        Count { passed, skipped, ..self }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads "test result: ok. 5 passed; 0 failed; 1 ignored; ...".
pub(super) fn result_line(line: &str) -> Option<Count> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut count = Count::default();
    for part in numbers.split("; ") {
        match part.split_once(' ') {
            Some((number, "passed")) => count.passed = number.parse().ok()?,
            Some((number, "failed")) => count.failed = number.parse().ok()?,
            _ => {}
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_added_up() {
        let found = result_line(
            "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; \
             finished in 0.01s",
        );
        assert_eq!(found, Some(Count { passed: 5, failed: 2, skipped: 0 }));
        assert_eq!(result_line("test some::name ... ok"), None);
        assert_eq!(result_line("test result: ok. many passed; 0 failed"), None);
    }

    #[test]
    fn what_was_skipped_did_not_pass() {
        assert_eq!(
            Count::passed(5).with_skips(2, true).to_string(),
            "3 passed, 0 failed, 2 skipped"
        );
        assert_eq!(
            Count::passed(5).with_skips(2, false).to_string(),
            "5 passed, 0 failed, 2 skipped"
        );
        // A lane that was skipped as a whole.
        assert_eq!(
            Count::default().with_skips(1, true).to_string(),
            "0 passed, 0 failed, 1 skipped"
        );
    }
}
