//! What the scheduler counts and times of itself, for `cpumgr metrics`.

use arena::message::Measures;
use platform::clock::monotonic_ns;

/// A program that had to be squeezed this often does not cooperate.
const OFTEN: u64 = 10;

/// The measures, and what is known of the pass that runs.
#[derive(Debug, Default)]
pub(super) struct Measuring {
    pub(super) so_far: Measures,
    /// When this pass began.
    began: u64,
}

impl Measuring {
    pub(super) fn pass_begins(&mut self, now: u64) {
        self.began = now;
    }

    pub(super) fn pass_ends(&mut self) {
        self.so_far.passes.add(monotonic_ns().saturating_sub(self.began));
    }

    /// So many programs were told of other processors.
    pub(super) fn told(&mut self, programs: usize) {
        if programs > 0 {
            self.so_far.grants.add(monotonic_ns().saturating_sub(self.began));
            self.so_far.changes += programs as u64;
        }
    }

    /// A program had been squeezed `before` times, and was so `after` times now. That it does not
    /// leave in time is logged once.
    pub(super) fn squeezed(&mut self, (before, after): (u64, u64), pid: i32, name: &str) {
        self.so_far.squeezes += after.saturating_sub(before);
        if before < OFTEN && after >= OFTEN {
            self.so_far.uncooperative += 1;
            tracing::warn!(
                pid,
                name,
                squeezes = after,
                "a program does not leave processors within the grace: its threads are bound from \
                 outside, each time; a longer grace (cpumgr set grace) or the drop-in library helps"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_never_leaves_in_time_is_counted_once() {
        let mut measuring = Measuring::default();
        for before in 0..30 {
            measuring.squeezed((before, before + 1), 7, "hog");
        }
        measuring.squeezed((0, 25), 8, "another");
        assert_eq!((measuring.so_far.squeezes, measuring.so_far.uncooperative), (55, 2));
    }

    #[test]
    fn passes_and_grants_are_timed_from_the_waking_on() {
        let mut measuring = Measuring::default();
        measuring.pass_begins(monotonic_ns());
        measuring.told(0);
        measuring.told(2);
        measuring.pass_ends();
        let so_far = &measuring.so_far;
        assert_eq!((so_far.grants.count(), so_far.passes.count(), so_far.changes), (1, 1, 2));
        assert!(so_far.passes.sum_ns >= so_far.grants.sum_ns);
    }
}
