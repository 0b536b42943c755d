//! In which order classes are served, and what they have of their minima then.
//!
//! Both stand here once: [`Classes`](super::Classes) divides by them, and a manager that plans for
//! classes (its queue of jobs) must come to the same.

use std::cmp::Reverse;

use super::Class;
use crate::share;

/// A class at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// The number of its name; `None`: the programs of no class.
    pub number: Option<u64>,
    /// What it may have.
    pub class: &'a Class,
    /// It has programs.
    pub inhabited: bool,
    /// What they can use together.
    pub wants: u32,
}

impl Demand<'_> {
    /// The least is served first: by priority, then by weight, then by number. Never by name: a
    /// policy does not know names.
    pub(super) fn order(&self) -> impl Ord + use<> {
        (Reverse(self.class.priority), Reverse(share::fixed(self.class.weight)), self.number)
    }
}

/// Of each class, in the order in which they are given here, what it has before any class has more
/// than its minimum: a processor for the masters of each that has programs (where masters always
/// run), then minima in their order, as far as processors go. A reserve is a minimum also of what
/// its programs do not want.
///
/// `None`: masters always run, and there are more classes with programs than processors. O(n log
/// n).
#[must_use]
pub fn minima(processors: u32, master_always: bool, demands: &[Demand<'_>]) -> Option<Vec<u32>> {
    let master = |it: &Demand<'_>| u32::from(master_always && it.inhabited);
    let masters: u64 = demands.iter().map(|it| u64::from(master(it))).sum();
    let mut left = processors.checked_sub(u32::try_from(masters).ok()?)?;
    let mut served: Vec<usize> = (0..demands.len()).collect();
    served.sort_by_key(|&at| demands[at].order());
    let mut floors = vec![0; demands.len()];
    for at in served {
        let it = &demands[at];
        let kept = if it.class.reserve { it.class.min } else { it.class.min.min(it.wants) };
        let more = kept.saturating_sub(master(it)).min(left);
        left -= more;
        floors[at] = master(it) + more;
    }
    Some(floors)
}
