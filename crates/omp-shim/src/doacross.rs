//! Cross-iteration dependences: `ordered(n)` loops with `depend(source)` and `depend(sink: ...)`.
//!
//! The outer loop is dealt out; an iteration vector stands for (outer iteration, position in the inner loops). One
//! thread runs the inner positions of one outer iteration in order, so one number per outer iteration says how far it
//! is: positions done so far.
//!
//! # Lines
//! Who waits for an iteration looks at its counter again and again, and is most often about to post one of the next. Were they
//! in one line, it would be in both caches when either writes; so counters that are written one after the other are in
//! different lines, each of which goes from who writes to who waits and back.

use crate::frame::Frame;
use crate::worksharing;
use nanothreads::engine;
use platform::sync::CachePadded;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// The state of one loop nest.
#[derive(Debug)]
pub(crate) struct Doacross {
    /// Trip counts of the inner loops.
    inner: Box<[u64]>,
    /// Outer iterations.
    outer: u64,
    /// For each outer iteration: positions done. Iteration j has place j / [`COLUMNS`] of column j % [`COLUMNS`].
    done: Box<[CachePadded<[AtomicU64; BLOCK]>]>,
}

/// Iterations that follow each other so closely have counters in different lines.
const COLUMNS: u64 = 8;
/// Counters of a cache line (of two, where those come in pairs).
const BLOCK: usize = 16;

impl Doacross {
    /// A nest with these trip counts, the outer loop first.
    pub(crate) fn new(counts: &[u64]) -> Self {
        let (outer, inner) = counts.split_first().map_or((0, &[][..]), |(outer, inner)| (*outer, inner));
        let blocks = outer.div_ceil(COLUMNS).div_ceil(BLOCK as u64) * COLUMNS;
        Self { inner: inner.into(), outer, done: (0..blocks).map(|_| CachePadded::default()).collect() }
    }

    /// The outer iteration's counter, and the value that it has once the vector with index `at(k)` for loop k is done.
    #[inline]
    fn locate(&self, at: impl Fn(usize) -> u64) -> Option<(&AtomicU64, u64)> {
        let (iteration, columns) = (at(0), COLUMNS as usize);
        if iteration >= self.outer {
            return None;
        }
        let (place, column) = (usize::try_from(iteration / COLUMNS).ok()?, iteration as usize % columns);
        let counter = &self.done.get(place / BLOCK * columns + column)?[place % BLOCK];
        Some((counter, if self.inner.is_empty() { 1 } else { self.position(at).wrapping_add(1) }))
    }

    /// Positions of the inner loops before the vector with index `at(k)` for loop k.
    #[inline(never)]
    fn position(&self, at: impl Fn(usize) -> u64) -> u64 {
        (1..).zip(&self.inner).fold(0, |sum, (k, count)| sum.wrapping_mul(*count).wrapping_add(at(k)))
    }
}

/// The current nest.
#[inline]
fn current(frame: &Frame) -> Option<&Doacross> {
    worksharing::current(frame)?.shared().doacross.as_ref()
}

/// The iteration with index `at(k)` for loop k, which is asked for the loops of the current nest, is done as far as others wait
/// for it.
#[inline]
pub(crate) fn post(frame: &Frame, at: impl Fn(usize) -> u64) {
    if let Some((counter, value)) = current(frame).and_then(|doacross| doacross.locate(at)) {
        // ORDERING: Release - what the iteration did; pairs with `is_done`.
        counter.store(value, Release);
        frame.team().wait.notify_all();
    }
}

/// Waits until the iteration with index `at(k)` for loop k was posted.
#[inline]
pub(crate) fn wait(frame: &Frame, at: impl Fn(usize) -> u64) {
    if let Some((counter, value)) = current(frame).and_then(|doacross| doacross.locate(at))
        && !is_done(counter, value)
    {
        wait_for(frame, counter, value);
    }
}

#[inline]
fn is_done(counter: &AtomicU64, value: u64) -> bool {
    // ORDERING: Acquire - pairs with `post`.
    counter.load(Acquire) >= value
}

#[inline(never)]
fn wait_for(frame: &Frame, counter: &AtomicU64, value: u64) {
    let team = frame.team();
    // ORDERING: Acquire - pairs with `sync::cancel`.
    engine::wait(&team.wait, || is_done(counter, value) || team.cancelled.load(Acquire));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_with_the_order_of_the_iterations() {
        let nest = Doacross::new(&[3, 4, 5]);
        let mut last = 0;
        for j in 0..4 {
            for k in 0..5 {
                let (counter, value) = nest.locate(|level| [2, j, k][level]).expect("inside the nest");
                assert!(std::ptr::eq(counter, nest.locate(|level| [2, 0, 0][level]).expect("inside the nest").0));
                assert_eq!(value, last + 1);
                last = value;
            }
        }
        assert!(nest.locate(|level| [3, 0, 0][level]).is_none());
    }

    #[test]
    fn each_outer_iteration_has_its_own_counter_far_from_the_next_ones() {
        const ITERATIONS: u64 = 1000;
        let nest = Doacross::new(&[ITERATIONS]);
        let address = |j| std::ptr::from_ref(nest.locate(|_| j).expect("inside the nest").0).addr();
        let all: std::collections::BTreeSet<_> = (0..ITERATIONS).map(address).collect();
        assert_eq!(all.len() as u64, ITERATIONS);
        for j in 0..ITERATIONS - COLUMNS {
            assert!((1..COLUMNS).all(|ahead| address(j) / 128 != address(j + ahead) / 128), "{j}");
        }
        assert!(nest.locate(|_| ITERATIONS).is_none());
    }

    #[test]
    fn a_nest_of_one_loop_counts_each_iteration_once() {
        let nest = Doacross::new(&[2]);
        assert_eq!(nest.locate(|_| 1).expect("inside the nest").1, 1);
    }
}
