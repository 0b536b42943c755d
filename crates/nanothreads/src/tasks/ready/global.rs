//! The ready queue that all members of a team share: work from outside, and work with a priority.
//!
//! # What touches what
//! Everything: any thread. `ranked`: under its lock, which no thread takes while `top` says that
//! there is nothing to take.

use crate::tasks::descriptor::NanoPtr;
use crossbeam_deque::{Injector, Steal};
use platform::lock::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicI64,
    Ordering::{Acquire, Release},
};

/// `top` of an empty queue: below any priority.
const NOTHING: i64 = i64::MIN;

/// See the module head.
pub(crate) struct GlobalQueue {
    plain: Injector<NanoPtr>,
    ranked: Mutex<Ranked>,
    /// The highest priority in `ranked`, or [`NOTHING`].
    top: AtomicI64,
}

#[derive(Default)]
struct Ranked {
    heap: BinaryHeap<(i32, Reverse<u64>, Entry)>,
    /// Keeps equal priorities in order of arrival.
    arrivals: u64,
}

/// Priority and arrival decide; two entries never have both in common.
struct Entry(NanoPtr);

impl PartialEq for Entry {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl GlobalQueue {
    pub(crate) fn new() -> Self {
        Self { plain: Injector::new(), ranked: Mutex::default(), top: AtomicI64::new(NOTHING) }
    }

    /// True when nothing is there. Cost: some loads.
    pub(crate) fn is_empty(&self) -> bool {
        // ORDERING: Acquire - as in `has_above`.
        self.plain.is_empty() && self.top.load(Acquire) == NOTHING
    }

    /// Adds an unstarted one without a priority.
    pub(crate) fn push(&self, nano: NanoPtr) {
        self.plain.push(nano);
    }

    /// Adds an unstarted one with a priority.
    pub(crate) fn push_ranked(&self, nano: NanoPtr, priority: i32) {
        let mut ranked = self.ranked.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = ranked.arrivals;
        ranked.arrivals += 1;
        ranked.heap.push((priority, Reverse(arrival), Entry(nano)));
        self.publish_top(&ranked);
    }

    /// True when one with more than `priority` is there. Cost: one load.
    pub(crate) fn has_above(&self, priority: i32) -> bool {
        // ORDERING: Acquire - pairs with `publish_top`; a hint all the same.
        self.top.load(Acquire) > i64::from(priority)
    }

    /// The one with the highest priority, if that is more than `priority`.
    pub(crate) fn pop_above(&self, priority: i32) -> Option<NanoPtr> {
        if self.has_above(priority) { self.pop_ranked(i64::from(priority)) } else { None }
    }

    /// The one with the highest priority.
    pub(crate) fn pop_any_ranked(&self) -> Option<NanoPtr> {
        // ORDERING: Acquire - as in `has_above`.
        if self.top.load(Acquire) == NOTHING { None } else { self.pop_ranked(NOTHING) }
    }

    /// The oldest one without a priority.
    pub(crate) fn pop(&self) -> Option<NanoPtr> {
        loop {
            match self.plain.steal() {
                Steal::Success(nano) => return Some(nano),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    #[cold]
    fn pop_ranked(&self, above: i64) -> Option<NanoPtr> {
        let mut ranked = self.ranked.lock().unwrap_or_else(PoisonError::into_inner);
        if ranked.heap.peek().is_none_or(|&(priority, ..)| i64::from(priority) <= above) {
            return None;
        }
        let (_, _, Entry(nano)) = ranked.heap.pop()?;
        self.publish_top(&ranked);
        Some(nano)
    }

    fn publish_top(&self, ranked: &Ranked) {
        let top = ranked.heap.peek().map_or(NOTHING, |&(priority, ..)| i64::from(priority));
        // ORDERING: Release - pairs with `has_above`. Written under the lock: the last store is the
        // truth.
        self.top.store(top, Release);
    }
}
