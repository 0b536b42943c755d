//! Which members of a team look for work: a member that makes some wakes one of them, and pays
//! nothing when all are busy.
//!
//! # Protocol
//! Idle member:
//! - I1 sets its bit, and looks again;
//! - I2 counts itself as a sleeper and runs the heavy fence (`WaitPoint`);
//! - I3 looks at all queues, and at its bit: if another member cleared it, it begins again at I1;
//! - I4 sleeps;
//! - I5 takes its bit when it goes on, for any reason; if the bit is gone, it looks for work once
//!   more, and wakes a member for what it sees (K2 to K4).
//!
//! Member that makes work:
//! - K1 pushes it;
//! - K2 light fence;
//! - K3 reads the bits;
//! - K4 takes the first member, near ones first, whose bit is set and whose wait point has a
//!   sleeper, by clearing its bit, and wakes it.
//!
//! # Races
//! *Lost wake.* A pushes, B goes to sleep. By the fence pair K2/I2 either B sees the push at I3, or
//! A sees B's bit (I1 is before I2) *and* its count of sleepers.
//!
//! *One sleeper for two pushes.* A woken member counts as a sleeper until it runs. If A pushed
//! twice meanwhile and could take B for both, C would sleep on beside the second task. K4 clears
//! B's bit, so the second push takes C.
//!
//! *Taken for a sleeper.* B finds A's first task at I3, with its bit set. A pushes a second one and
//! takes B, which does not sleep, while C does. B finds its bit gone at I5 and sees the second task
//! (K4/I5): it wakes C, unless another member took the task.
//!
//! *Bit cleared while falling asleep.* A takes B. B finds that what A pushed is gone, and wants to
//! sleep again without its bit. I3 looks at the bit after the fence: B sets it, and goes round once
//! more, so that I1 is before I2 again.
//!
//! # Orderings
//! Bits: Relaxed, ordered by the fences; but K4 Release with I5 Acquire, so that a member that was
//! taken sees the work for which it was taken.

use engine::wait_point::{Look, WaitPoint};
use platform::membarrier;
use platform::sync::CachePadded;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// See the module head.
#[derive(Debug)]
pub(crate) struct Idle {
    words: Box<[CachePadded<AtomicU64>]>,
}

const BITS: usize = u64::BITS as usize;

impl Idle {
    /// A team of `size` busy members.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            words: (0..size.div_ceil(BITS)).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
        }
    }

    /// What member `index`'s look at its wait point comes to, when it found nothing: it may sleep
    /// only if its bit was set before the fence that precedes the look.
    pub(crate) fn look(&self, index: usize) -> Look {
        if self.contains(index) {
            return Look::Pending;
        }
        // ORDERING: Relaxed (I1) - ordered by the heavy fence before the next look that may lead to
        // sleep.
        self.words[index / BITS].fetch_or(1 << (index % BITS), Relaxed);
        Look::Progress
    }

    /// Takes member `index` out: it goes on (I5), or another member wakes it (K4). False when it
    /// was out already.
    pub(crate) fn take(&self, index: usize) -> bool {
        let (word, bit) = (&self.words[index / BITS], 1 << (index % BITS));
        // ORDERING: Acquire (I5) - pairs with K4: a member that finds its bit gone sees the work
        // that it was taken for. Release (K4) - pairs with I5.
        word.load(Acquire) & bit != 0 && word.fetch_and(!bit, AcqRel) & bit != 0
    }

    /// Wakes the first of `candidates` that sleeps at its `point`. After work was pushed (K1). Cost
    /// when all are busy: two loads for 64 members.
    #[inline]
    pub(crate) fn wake_one<'p>(
        &self,
        candidates: impl Iterator<Item = usize>,
        point: impl Fn(usize) -> &'p WaitPoint,
    ) {
        // ORDERING: light fence (K2) - pairs with I2.
        membarrier::light();
        // ORDERING: Relaxed (K3) - ordered after the push by the light fence.
        if self.words.iter().any(|word| word.load(Relaxed) != 0) {
            self.wake_first(candidates, point);
        }
    }

    #[cold]
    fn wake_first<'p>(
        &self,
        mut candidates: impl Iterator<Item = usize>,
        point: impl Fn(usize) -> &'p WaitPoint,
    ) {
        // K4.
        let is_ours = |&member: &usize| {
            self.contains(member) && point(member).has_sleepers() && self.take(member)
        };
        if let Some(member) = candidates.find(is_ours) {
            point(member).wake_sleepers();
        }
    }

    fn contains(&self, index: usize) -> bool {
        // ORDERING: Relaxed (K3, I3) - ordered by the fences.
        self.words[index / BITS].load(Relaxed) & (1 << (index % BITS)) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_belong_to_members_in_teams_of_any_size() {
        for size in [1, 63, 64, 65, 130] {
            let idle = Idle::new(size);
            for member in 0..size {
                assert_eq!(idle.look(member), Look::Progress, "looks once more with its bit set");
                assert_eq!(idle.look(member), Look::Pending);
                assert!((0..size).all(|other| idle.contains(other) == (other == member)));
                assert!(idle.take(member));
                assert!(!idle.take(member), "none is taken twice");
            }
        }
    }
}
