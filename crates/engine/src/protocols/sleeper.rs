//! Where a worker sleeps, and how one waker wakes many: as a tree.
//!
//! # Protocol
//! Sleeper: W1 raises `asleep`; W2 heavy fence; W3 looks at its condition; W4 futex wait while
//! `asleep` is up (for a short time only where the fence was not due, see
//! [`platform::membarrier`]), and another look; again from W1 until a look finds the condition. W5
//! takes `asleep` down. If W5, or a later W1, finds it down, another thread woke the sleeper: W6,
//! it visits those in `next`.
//!
//! Waker, after the conditions of all: K1 `light` fence; K2 reads each `asleep`; K3 hangs the third
//! and all further sleepers into `next` of the earlier ones, two for each; K4 visits the first two.
//! To *visit* a sleeper: V1 takes its `asleep` down; V2 if that was up: futex wake; V3 if it was
//! down already: visits those in its `next` in its place.
//!
//! Before V1 the waker prepares the sleeper, which may do something else in between (it leaves by
//! itself, or another thread wakes it): where V1 finds it awake, the waker takes that back
//! ([`Preparation`]).
//!
//! The waker makes two system calls, however many sleep; all are awake after log2(n) wakes in a
//! row.
//!
//! # Races
//! *Lost wake.* As in [`wait_point`](crate::protocols::wait_point): the fences make "A misses W1 at
//! K2 *and* B misses the condition at W3" impossible. One word does for both, because one thread
//! sleeps here.
//!
//! *The parent leaves by itself.* A hangs C into B's `next`, because B's `asleep` is up at K2. B
//! sees its condition at W3 and leaves: it finds `asleep` up at W5, so no thread woke it, and it
//! visits none. The visitor of B finds it down (V1), and visits C in its place (V3). Every sleeper
//! is visited by the waker or by a thread that was visited itself, and each visit ends in one of
//! the two, so that no branch is forgotten.
//!
//! *It slept again meanwhile.* Then V1 finds it up and wakes it for nothing: its condition does not
//! hold. It visits its children at once (W6 after W1), not when it is done with sleeping, which may
//! be never.
//!
//! *Two wakers.* A place in `next` is taken by a compare-and-swap from empty and emptied by a swap:
//! a second waker that finds it taken visits the sleeper itself, and each is visited once.
//!
//! # Orderings
//! `asleep`: V1 AcqRel with W1 and W5 AcqRel: a thread that was woken sees the `next` of all that
//! its waker hung. `next` itself: Relaxed, ordered by those. The condition has its own
//! Release/Acquire pair.

use crate::protocols::wait_point::Look;
use platform::futex::PrivateFutex;
use platform::membarrier;
use platform::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Relaxed},
};
use std::ptr;
use std::time::Duration;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// What a waker does before it wakes a sleeper, and takes back where it finds the sleeper awake.
#[derive(Debug)]
pub(crate) struct Preparation<T> {
    /// Before the wake.
    pub before: fn(&T),
    /// After a wake that found the sleeper awake: it may have run in between, and was prepared for
    /// nothing.
    pub in_vain: fn(&T),
}

impl<T> Preparation<T> {
    /// There is nothing to take back. For models.
    #[cfg(test)]
    pub(crate) fn only(before: fn(&T)) -> Self {
        Self { before, in_vain: |_| {} }
    }
}

impl<T> Clone for Preparation<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Preparation<T> {}

/// A place where one thread sleeps; `who` says which. See the module head.
#[derive(Debug)]
pub(crate) struct Sleeper<T: 'static> {
    /// [`ASLEEP`] from before the last look until a waker, or the sleeper, takes it down.
    asleep: PrivateFutex,
    /// The sleepers that it visits when it was woken.
    next: [AtomicPtr<Sleeper<T>>; 2],
    /// What the thread is to those that wake it.
    pub who: T,
}

impl<T> Sleeper<T> {
    /// A place where no thread sleeps yet.
    pub(crate) fn new(who: T) -> Self {
        let nobody = || AtomicPtr::new(ptr::null_mut());
        Self { asleep: PrivateFutex::new(AWAKE), next: [nobody(), nobody()], who }
    }

    /// Sleeps until `look` says `Ready`, looking at least once before each sleep; then wakes those
    /// that its waker left to it, with `prepare`. For the one thread that sleeps here.
    pub(crate) fn sleep_until(&self, look: impl FnMut() -> Look, prepare: Preparation<T>) {
        self.sleep_with_alarm(look, || None, prepare);
    }

    /// The same; `alarm`, asked before each sleep, says after which time to look again at the
    /// latest.
    pub(crate) fn sleep_with_alarm(
        &self,
        mut look: impl FnMut() -> Look,
        alarm: impl Fn() -> Option<Duration>,
        prepare: Preparation<T>,
    ) {
        let mut is_first = true;
        loop {
            // ORDERING: AcqRel (W1) - pairs with V1.
            if self.asleep.word().swap(ASLEEP, AcqRel) == AWAKE && !is_first {
                // Not left until the condition holds: it may have been another's wake that was for
                // nothing.
                self.visit_next(prepare);
            }
            is_first = false;
            // ORDERING: heavy fence (W2) - pairs with K1.
            let limit = membarrier::heavy_if_due();
            match look() {
                Look::Ready => break,
                Look::Progress => continue,
                Look::Pending => {}
            }
            let limit = [limit, alarm()].into_iter().flatten().min();
            let _ = self.asleep.wait(ASLEEP, limit);
            // Most often a waker made the condition true: then there is no need to prepare another
            // sleep.
            if look() == Look::Ready {
                break;
            }
        }
        // ORDERING: AcqRel (W5) - pairs with V1.
        if self.asleep.word().swap(AWAKE, AcqRel) == AWAKE {
            self.visit_next(prepare);
        }
    }

    /// True when the thread may sleep. To be asked after [`membarrier::light`] (K1), after the
    /// store of its condition; without the fence it is a hint.
    #[inline]
    pub(crate) fn may_sleep(&self) -> bool {
        // ORDERING: Relaxed (K2) - ordered after the condition by the fence.
        self.asleep.word().load(Relaxed) == ASLEEP
    }

    /// Wakes the thread and those that hang below it (V1 to V3), with `prepare`.
    fn visit(&self, prepare: Preparation<T>) {
        (prepare.before)(&self.who);
        if !self.wake_if_asleep() {
            (prepare.in_vain)(&self.who);
            self.visit_next(prepare);
        }
    }

    /// V1 and V2; false when the thread was awake: then the caller has to visit the sleepers that
    /// hang below it.
    pub(crate) fn wake_if_asleep(&self) -> bool {
        // ORDERING: AcqRel (V1) - pairs with W1 and W5.
        let was_asleep = self.asleep.word().swap(AWAKE, AcqRel) == ASLEEP;
        if was_asleep {
            self.asleep.wake(1);
        }
        was_asleep
    }

    fn visit_next(&self, prepare: Preparation<T>) {
        for place in &self.next {
            // ORDERING: Relaxed - see the module head.
            let sleeper = place.swap(ptr::null_mut(), Relaxed);
            if !sleeper.is_null() {
                // SAFETY: - `hang` put a `&'static Self` there.
                unsafe { &*sleeper }.visit(prepare);
            }
        }
    }

    /// K3: leaves `sleeper` to this one, which the caller then visits, or leaves to another; false
    /// when both places are taken.
    pub(crate) fn hang(&self, sleeper: &'static Self) -> bool {
        let sleeper = ptr::from_ref(sleeper).cast_mut();
        // ORDERING: Relaxed - see the module head.
        self.next
            .iter()
            .any(|place| place.compare_exchange(ptr::null_mut(), sleeper, Relaxed, Relaxed).is_ok())
    }
}

/// Wakes all of `sleepers`: K3 and K4. Call it after their conditions were made true and
/// [`membarrier::light`], with those that [`Sleeper::may_sleep`]. Each is prepared, by the thread
/// that wakes it, before it wakes.
#[cold]
pub(crate) fn wake<T>(sleepers: &[&'static Sleeper<T>], prepare: Preparation<T>) {
    let (mine, rest) = sleepers.split_at(sleepers.len().min(2));
    let mut orphans = Vec::new();
    for (index, sleeper) in rest.iter().enumerate() {
        if !sleepers[index / 2].hang(sleeper) {
            orphans.push(sleeper);
        }
    }
    for sleeper in mine {
        sleeper.visit(prepare);
    }
    for sleeper in orphans {
        sleeper.visit(prepare);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    fn leak(number: usize) -> &'static Sleeper<AtomicU32> {
        let _ = number;
        Box::leak(Box::new(Sleeper::new(AtomicU32::new(0))))
    }

    fn count(times: &AtomicU32) {
        times.fetch_add(1, SeqCst);
    }

    #[test]
    fn a_worker_that_is_awake_when_it_is_woken_was_prepared_in_vain() {
        let sleeper = leak(0);
        let prepare =
            Preparation { before: count, in_vain: |times| _ = times.fetch_add(10, SeqCst) };
        sleeper.asleep.word().store(ASLEEP, SeqCst);
        sleeper.visit(prepare);
        assert_eq!(sleeper.who.load(SeqCst), 1);
        sleeper.visit(prepare);
        assert_eq!(sleeper.who.load(SeqCst), 12);
    }

    #[test]
    fn many_sleepers_are_all_woken_and_each_is_prepared() {
        let sleepers: Vec<_> = (0..20).map(leak).collect();
        let round = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = sleepers
            .iter()
            .map(|&sleeper| {
                let round = Arc::clone(&round);
                std::thread::spawn(move || {
                    for expected in 1..=50 {
                        sleeper.sleep_until(
                            || Look::from(round.load(SeqCst) >= expected),
                            Preparation::only(count),
                        );
                    }
                })
            })
            .collect();
        // So that at least one is asleep, or about to be, when it is woken.
        while !sleepers.iter().any(|sleeper| sleeper.may_sleep()) {
            std::thread::yield_now();
        }
        for number in 1..=50 {
            round.store(number, SeqCst);
            membarrier::light();
            let asleep: Vec<_> =
                sleepers.iter().copied().filter(|sleeper| sleeper.may_sleep()).collect();
            wake(&asleep, Preparation::only(count));
            std::thread::yield_now();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(sleepers.iter().any(|sleeper| sleeper.who.load(SeqCst) > 0));
    }

    #[test]
    fn a_waker_visits_two_and_leaves_the_others_to_them() {
        let sleepers: Vec<_> = (0..7).map(leak).collect();
        // As if all were about to sleep: no thread is in the kernel, so none passes the wake on.
        sleepers.iter().for_each(|sleeper| sleeper.asleep.word().store(ASLEEP, SeqCst));
        let count = Preparation::only(count);
        wake(&sleepers, count);
        let visited =
            || sleepers.iter().map(|sleeper| sleeper.who.load(SeqCst)).collect::<Vec<_>>();
        assert_eq!(visited(), [1, 1, 0, 0, 0, 0, 0]);
        // The first leaves: it finds that it was woken.
        sleepers[0].sleep_until(|| Look::Ready, count);
        assert_eq!(
            visited(),
            [1, 1, 0, 0, 0, 0, 0],
            "it was taken down before this sleep: not its waker's"
        );
        sleepers[0].visit_next(count);
        assert_eq!(visited(), [1, 1, 1, 1, 0, 0, 0]);
        // The second is visited again though it is awake: its branch is not forgotten.
        sleepers[1].visit(count);
        assert_eq!(visited(), [1, 2, 1, 1, 1, 1, 0]);
        sleepers[2].visit_next(count);
        assert_eq!(visited(), [1, 2, 1, 1, 1, 1, 1]);
    }
}

#[cfg(all(test, loom))]
mod model;
