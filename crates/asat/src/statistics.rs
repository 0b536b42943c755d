//! What was evaluated, and what followed.

use std::fmt;
use std::time::Duration;

/// A snapshot, made by [`statistics`](crate::statistics()).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Threads that teams may have now, and the most that they could.
    pub threads: usize,
    /// See `threads`.
    pub most: usize,
    /// Evaluations that found evidence, good or bad.
    pub evaluations: u64,
    /// Those of them that were bad, the doubtful ones among them.
    pub bad: u64,
    /// Those of the bad ones that were doubtful: too short to count alone.
    pub doubtful: u64,
    /// Evaluations without evidence: the team hardly ran, the kernel did not say, a test could not
    /// be held or would have cost too much, or mask or quota had changed.
    pub blind: u64,
    /// Threads that were taken away.
    pub dropped: u64,
    /// Threads that were added.
    pub added: u64,
    /// Tests with one thread more, and those of them that were bad.
    pub dips: u64,
    /// See `dips`.
    pub bad_dips: u64,
    /// All tests that kept the team busy.
    pub tests: u64,
    /// Time that they took.
    pub tested: Duration,
    /// The longest passage of a test.
    pub longest: Duration,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, most, evaluations, bad, doubtful, blind, dropped, added, .. } = self;
        let Self { dips, bad_dips, tests, tested, longest, .. } = self;
        write!(
            f,
            "threads {threads} of {most}; evaluations {evaluations} ({bad} bad, {doubtful} of \
             these doubtful; {blind} without evidence beside them); dropped {dropped}, added \
             {added}, dips {dips} ({bad_dips} bad); tests {tests} ({tested:.3?}, longest passage \
             {longest:.3?})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_like_a_sentence() {
        let some = Statistics { threads: 2, most: 4, bad: 3, evaluations: 9, ..Default::default() };
        assert_eq!(
            some.to_string(),
            "threads 2 of 4; evaluations 9 (3 bad, 0 of these doubtful; 0 without evidence beside \
             them); dropped 0, added 0, dips 0 (0 bad); tests 0 (0.000ns, longest passage 0.000ns)"
        );
    }
}
