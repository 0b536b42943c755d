//! Divide and conquer by `join`, with steps in some leaves.

use crate::random::{Random, mix};
use crate::step::{Budget, Step, work};
use nanothreads::join;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Recursion {
    leaves: usize,
    /// A range of at most this many leaves is not divided.
    grain: usize,
    seed: u64,
    /// A leaf that runs a step.
    inner: Option<(usize, Box<Step>)>,
}

impl Recursion {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let leaves = if random.once_in(4) { 1 + random.below(5000) } else { 1 + random.below(100) };
        let inner = random
            .once_in(2)
            .then(|| (random.below(leaves), Box::new(Step::random(random, budget.inside(4)))));
        Self { leaves, grain: 1 + random.below(8), seed: random.next(), inner }
    }

    pub(crate) fn inner(&self) -> Option<&Step> {
        self.inner.as_ref().map(|(_, step)| &**step)
    }

    /// The value of a range: `leaf` gives that of a leaf, `both` those of two halves.
    fn value(&self, range: Range<usize>, leaf: &dyn Fn(usize) -> u64) -> u64 {
        if range.len() <= self.grain {
            return range.fold(0, |sum, i| mix(sum ^ leaf(i)));
        }
        let middle = range.start + range.len() / 2;
        Self::both(self.value(range.start..middle, leaf), self.value(middle..range.end, leaf))
    }

    fn both(left: u64, right: u64) -> u64 {
        mix(left ^ right.rotate_left(9))
    }

    pub(crate) fn expected(&self) -> u64 {
        let inner = self.inner.as_ref().map(|(at, step)| (*at, step.expected()));
        let of = |i| inner.filter(|(at, _)| *at == i).map_or(0, |(_, value)| value);
        self.value(0..self.leaves, &|i| mix(self.seed ^ i as u64).wrapping_add(of(i)))
    }

    pub(crate) fn run(&self) -> u64 {
        self.run_range(0..self.leaves)
    }

    fn run_range(&self, range: Range<usize>) -> u64 {
        if range.len() <= self.grain {
            let of = |i| {
                self.inner.as_ref().filter(|(at, _)| *at == i).map_or(0, |(_, step)| step.run())
            };
            return self.value(range, &|i| work(self.seed ^ i as u64).wrapping_add(of(i)));
        }
        let middle = range.start + range.len() / 2;
        let (left, right) =
            join(|| self.run_range(range.start..middle), || self.run_range(middle..range.end));
        Self::both(left, right)
    }
}
