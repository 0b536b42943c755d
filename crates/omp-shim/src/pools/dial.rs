//! The number of threads that a library is to use: what the program wants, and what it has now.

use engine::process::Owner;
use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The numbers of one library. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dial {
    /// The most that the program wants.
    limit: usize,
    /// What the library was seen or set to have last.
    shown: usize,
    /// What these were before the program set a number.
    before: Option<(usize, usize)>,
}

impl Dial {
    /// The library has `threads`, by the program's wish.
    pub(super) const fn new(threads: usize) -> Self {
        Self { limit: threads, shown: threads, before: None }
    }

    /// The library has `threads` now: another number than the last one is the program's.
    ///
    /// One that the program read before it set its own, and sets again, is meant to put back what
    /// was (threadpoolctl's `with`): with it comes the limit of that time, of which the number may
    /// have been what was left by a grant.
    pub(super) fn see(&mut self, threads: usize) {
        if threads == self.shown {
            return;
        }
        let (limit, before) = match self.before {
            Some((shown, limit)) if shown == threads => (limit, None),
            _ => (threads, Some((self.shown, self.limit))),
        };
        *self = Self { limit, shown: threads, before };
    }

    /// The program has `granted` processors for it: the number that the library is to be set to, if
    /// it has another one.
    pub(super) fn turn(&mut self, granted: usize) -> Option<usize> {
        let aim = self.limit.min(granted).max(1);
        (std::mem::replace(&mut self.shown, aim) != aim).then_some(aim)
    }
}

/// A dial that many threads turn, none of which waits for another. A child of a fork finds it free
/// also where a thread of its parent had it.
#[derive(Debug)]
pub(super) struct SharedDial {
    dial: UnsafeCell<Dial>,
    /// The process of the thread that turns it, if one does.
    owner: Owner,
    /// Copies of the dial's, for hints.
    limit: AtomicUsize,
    shown: AtomicUsize,
}

// SAFETY: - the dial is touched by the thread that set `owner` alone.
unsafe impl Sync for SharedDial {}

impl SharedDial {
    pub(super) const fn new(threads: usize) -> Self {
        Self {
            dial: UnsafeCell::new(Dial::new(threads)),
            owner: Owner::none(),
            limit: AtomicUsize::new(threads),
            shown: AtomicUsize::new(threads),
        }
    }

    /// The most that the program wants, as last seen.
    pub(super) fn limit(&self) -> usize {
        // ORDERING: Relaxed, both - hints; the dial itself is under `owner`.
        self.limit.load(Relaxed)
    }

    /// What the library had when last seen.
    pub(super) fn shown(&self) -> usize {
        self.shown.load(Relaxed)
    }

    /// Whether a thread of this process turns it.
    pub(super) fn is_held(&self) -> bool {
        // ORDERING: Acquire - what that thread did is done when it has none.
        self.owner.is_here(Acquire)
    }

    /// Runs `turn` on the dial; false when another thread is at it, which sees what is new as well.
    pub(super) fn turn(&self, turn: impl FnOnce(&mut Dial)) -> bool {
        // ORDERING: Relaxed - a hint, which the exchange checks.
        let owner = self.owner.get(Relaxed);
        // ORDERING: Acquire - pairs with the Release below. Another process is the parent of a
        // fork, whose thread is not here.
        if !owner.is_parents() || self.owner.take_from(owner, Acquire, Relaxed).is_err() {
            return false;
        }
        // SAFETY: - this thread has set `owner`.
        let dial = unsafe { &mut *self.dial.get() };
        turn(dial);
        // ORDERING: Relaxed - hints.
        self.limit.store(dial.limit, Relaxed);
        self.shown.store(dial.shown, Relaxed);
        // ORDERING: Release - the next owner sees the dial.
        self.owner.give_back(Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_follows_the_grant_up_to_what_the_program_wants() {
        let mut dial = Dial::new(4);
        assert_eq!(dial.turn(8), None);
        assert_eq!(dial.turn(2), Some(2));
        assert_eq!(dial.turn(2), None);
        assert_eq!(dial.turn(0), Some(1), "never none");
        assert_eq!(dial.turn(3), Some(3));
        assert_eq!(dial.turn(9), Some(4));
    }

    #[test]
    fn a_number_that_the_program_sets_is_the_limit() {
        let mut dial = Dial::new(4);
        dial.see(2);
        assert_eq!(dial.turn(4), None);
        assert_eq!(dial.turn(1), Some(1));
        assert_eq!(dial.turn(4), Some(2));
        dial.see(8);
        assert_eq!(dial.turn(6), Some(6));
    }

    #[test]
    fn a_number_that_is_put_back_brings_its_limit_back() {
        let mut dial = Dial::new(4);
        assert_eq!(dial.turn(2), Some(2));
        dial.see(1);
        assert_eq!(dial.turn(4), None, "inside the program's own limit of 1");
        dial.see(2);
        assert_eq!(dial.turn(4), Some(4));
    }

    #[test]
    fn a_dial_that_a_parents_thread_had_is_free_in_the_child() {
        // From here on the engine tells children from their parents.
        assert!(engine::processors() > 0);
        let held = SharedDial::new(4);
        let mut status = 0;
        held.turn(|dial| {
            assert!(held.is_held() && !held.turn(|_| unreachable!("it is in use")));
            assert_eq!(dial.turn(3), Some(3));
            // SAFETY: - the child uses what this test is about, and ends, by the alarm if it hangs.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: - takes no pointers.
                unsafe { libc::alarm(20) };
                let is_free = !held.is_held() && held.turn(|_| {});
                // SAFETY: - ends the child without the parent's destructors.
                unsafe { libc::_exit(i32::from(is_free)) };
            }
            // SAFETY: - `status` outlives the call; the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        });
        assert_eq!(status, 1 << 8, "0: the child found it in use; {}: it hung", libc::SIGALRM);
        assert_eq!((held.limit(), held.shown()), (4, 3));
    }
}
