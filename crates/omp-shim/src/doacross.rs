//! Cross-iteration dependences: `ordered(n)` loops with `depend(source)` and `depend(sink: ...)`.
//!
//! The outer loop is dealt out; an iteration vector stands for (outer iteration, position in the inner loops). One
//! thread runs the inner positions of one outer iteration in order, so one number per outer iteration says how far it
//! is: positions done so far.

use crate::frame::Frame;
use crate::worksharing;
use nanothreads::engine;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// The state of one loop nest.
#[derive(Debug)]
pub(crate) struct Doacross {
    /// Trip counts of the inner loops.
    inner: Box<[u64]>,
    /// For each outer iteration: positions done.
    done: Box<[AtomicU64]>,
}

impl Doacross {
    /// A nest with these trip counts, the outer loop first.
    pub(crate) fn new(counts: &[u64]) -> Self {
        let (outer, inner) = counts.split_first().map_or((0, &[][..]), |(outer, inner)| (*outer, inner));
        Self { inner: inner.into(), done: (0..outer).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Loops in the nest.
    pub(crate) fn depth(&self) -> usize {
        self.inner.len() + 1
    }

    /// The outer iteration's counter, and the value that it has once `vector` is done.
    fn locate(&self, vector: &[u64]) -> Option<(&AtomicU64, u64)> {
        let (outer, inner) = vector.split_first()?;
        let position = inner
            .iter()
            .zip(&self.inner)
            .fold(0_u64, |sum, (index, count)| sum.wrapping_mul(*count).wrapping_add(*index));
        let counter = self.done.get(usize::try_from(*outer).ok()?)?;
        Some((counter, position.wrapping_add(1)))
    }
}

/// Trip counts of the current nest's loops: how many indices a vector has.
pub(crate) fn depth(frame: &Frame) -> usize {
    worksharing::current(frame).and_then(|c| c.shared().doacross.as_ref()).map_or(0, Doacross::depth)
}

/// Iteration `vector` is done as far as others wait for it.
pub(crate) fn post(frame: &Frame, vector: &[u64]) {
    let Some(doacross) = worksharing::current(frame).and_then(|c| c.shared().doacross.as_ref()) else { return };
    if let Some((counter, value)) = doacross.locate(vector) {
        // ORDERING: Release - what the iteration did; pairs with `wait`.
        counter.store(value, Release);
        frame.team().wait.notify_all();
    }
}

/// Waits until iteration `vector` was posted.
pub(crate) fn wait(frame: &Frame, vector: &[u64]) {
    let Some(doacross) = worksharing::current(frame).and_then(|c| c.shared().doacross.as_ref()) else { return };
    if let Some((counter, value)) = doacross.locate(vector) {
        // ORDERING: Acquire - pairs with `post`.
        let is_done = || counter.load(Acquire) >= value;
        if !is_done() {
            let team = frame.team();
            engine::wait(&team.wait, || is_done() || team.cancelled.load(Acquire));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_with_the_order_of_the_iterations() {
        let nest = Doacross::new(&[3, 4, 5]);
        assert_eq!(nest.depth(), 3);
        let mut last = 0;
        for j in 0..4 {
            for k in 0..5 {
                let (counter, value) = nest.locate(&[2, j, k]).expect("inside the nest");
                assert!(std::ptr::eq(counter, &nest.done[2]));
                assert_eq!(value, last + 1);
                last = value;
            }
        }
        assert!(nest.locate(&[3, 0, 0]).is_none());
    }

    #[test]
    fn a_nest_of_one_loop_counts_each_iteration_once() {
        let nest = Doacross::new(&[2]);
        assert_eq!(nest.locate(&[1]).expect("inside the nest").1, 1);
    }
}
