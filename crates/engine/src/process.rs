//! The process: where its engine is, and whether it is still the process in which something began.
//!
//! All process-wide state hangs on one pointer, so that a forked child starts anew with one store
//! (D13). What the pointer leads to is not known here: this module uses no other of the crate, so
//! that each of them may ask it.
//!
//! # fork()
//! A child is told from its parent by a number, its generation, and what began in a process keeps
//! that number ([`Born`]). The handler that counts is there from the first engine on, and before
//! that no region, and nothing else that a child could find unfinished, can have begun.

use platform::sync::CachePadded;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// What differs between a process and its child. Both on one line, which no thread writes but in a
/// child that has just begun: all threads that fork regions read it.
struct Process {
    engine: AtomicPtr<()>,
    generation: AtomicUsize,
}

/// The generation of a process that was not forked from one that had an engine.
const FIRST: usize = 2;

static PROCESS: CachePadded<Process> = CachePadded::new(Process {
    engine: AtomicPtr::new(ptr::null_mut()),
    generation: AtomicUsize::new(FIRST),
});

/// Numbers that are never given twice.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that no earlier call returned, in this process and those that it was forked from:
/// generations of what is reserved and lent.
pub(crate) fn new_generation() -> u64 {
    // ORDERING: Relaxed - only uniqueness counts.
    NUMBERS.fetch_add(1, Relaxed)
}

/// The engine of this process; null before the first. Cost: one load.
#[inline]
pub(crate) fn engine() -> *mut () {
    // ORDERING: Acquire - pairs with the Release in `set_engine` and `begin_child`.
    PROCESS.engine.load(Acquire)
}

/// Makes `fresh` the engine of this process.
///
/// # Errors
/// With the engine that is there already.
pub(crate) fn set_engine(fresh: *mut ()) -> Result<(), *mut ()> {
    // ORDERING: AcqRel/Acquire - publishes the fresh engine, or sees the one that won.
    PROCESS.engine.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire).map(drop)
}

/// In the child of a fork, by its only thread: from here on it is a process of its own, with
/// `fresh` as its engine.
pub(crate) fn begin_child(fresh: *mut ()) {
    // ORDERING: Relaxed - the child has one thread; those that it starts see it by their start.
    PROCESS.generation.fetch_add(1, Relaxed);
    // ORDERING: Release - pairs with the Acquire in `engine`.
    PROCESS.engine.store(fresh, Release);
}

/// True in the child of a fork, whose parent had an engine: there may be locks that no thread is
/// left to give back.
pub(crate) fn is_child() -> bool {
    Born::now().0 != FIRST
}

/// The process in which something began. A forked child has a copy of it, and must not go on with
/// what other threads of its parent share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born(usize);

impl Born {
    /// In no process: it is the parent's everywhere.
    pub const NOWHERE: Self = Self(0);

    /// In the process that the caller is in. Cost: one load.
    #[inline]
    pub fn now() -> Self {
        // ORDERING: Relaxed - it changes only while the process has one thread.
        Self(PROCESS.generation.load(Relaxed))
    }

    /// True in a child that was forked since. Cost: one load.
    #[inline]
    pub fn is_parents(self) -> bool {
        self != Self::now()
    }

    /// Its number, which is neither 0 nor 1.
    pub(crate) fn number(self) -> usize {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_began_is_the_parents_in_a_child_and_in_the_childs_child() {
        // So that the process has a handler.
        let _engine = crate::engine_state::engine();
        let born = Born::now();
        assert!(!born.is_parents() && Born::NOWHERE.is_parents());
        // SAFETY: - the child and its child use what this test is about, and end.
        let status = unsafe {
            ended(|| ended(|| u8::from(born.is_parents()) << 1) | u8::from(born.is_parents()))
        };
        assert_eq!(status, 3, "1: in the child, 2: in its child");
        assert!(!born.is_parents() && !is_child());
    }

    /// What a child says of `question` by its exit status; 255 when it was killed.
    ///
    /// # Safety
    /// - `question` may run in a forked child.
    unsafe fn ended(question: impl FnOnce() -> u8) -> u8 {
        // SAFETY: - caller's contract.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: - takes no pointers.
            unsafe { libc::alarm(20) };
            let answer = question();
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(answer.into()) };
        }
        let mut status = 0;
        // SAFETY: - `status` outlives the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as u8 } else { u8::MAX }
    }
}
