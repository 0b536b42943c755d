//! What the scheduler keeps of runs that go on, for their notes.

use std::collections::BTreeMap;

use super::History;

/// The history, and the runs that go on.
#[derive(Debug)]
pub(crate) struct Accounting {
    pub(crate) history: History,
    /// When all are noted next.
    pub(crate) next: u64,
    pub(crate) runs: BTreeMap<u64, Begun>,
}

/// A run that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) began_ns: u64,
    /// What its process had used before.
    pub(crate) before: u64,
    pub(crate) used: u64,
    pub(crate) queued_ns: u64,
}

impl Accounting {
    /// Without any run.
    pub(crate) fn new(history: History) -> Self {
        Self { history, next: 0, runs: BTreeMap::new() }
    }
}
