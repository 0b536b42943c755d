//! The process: whether it is still the one in which something began, and what a forked child does
//! before it goes on.
//!
//! This module uses no other of the crate, so that each of them may ask it.
//!
//! # fork()
//! A child is told from its parent by a number, its generation, and what began in a process keeps
//! that number ([`Born`]). The handler that counts is there before the first state of the engine is
//! made ([`watch_forks`]), and before that no region, and nothing else that a child could find
//! unfinished, can have begun. In the child it then calls what modules gave it ([`at_child`]), in
//! the order in which they came: what stands on another one's state came later.

use platform::message::say;
use platform::sync::CachePadded;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

pub mod addresses;
pub mod forked;
pub(crate) mod numbers;
pub mod panics;
pub(crate) mod per_process;

/// The generation of a process that was not forked from one that had an engine.
const FIRST: usize = 2;

/// On a line which no thread writes but in a child that has just begun: all threads that fork
/// regions read it.
static GENERATION: CachePadded<AtomicUsize> = CachePadded::new(AtomicUsize::new(FIRST));

/// Calls that a child makes: those of this crate (five), of one library on it, and of tests.
const ROOM: usize = 16;

/// What a child calls, from the first; null: nothing more.
static CALLS: [AtomicPtr<()>; ROOM] = [const { AtomicPtr::new(ptr::null_mut()) }; ROOM];

/// Numbers that are never given twice.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that no earlier call returned, in this process and those that it was forked from:
/// generations of what is reserved and lent.
pub(crate) fn new_generation() -> u64 {
    // ORDERING: Relaxed - only uniqueness counts.
    NUMBERS.fetch_add(1, Relaxed)
}

/// From here on children of the process are told from it. Called before there is anything that a
/// child must not use, any number of times.
#[cold]
pub(crate) fn watch_forks() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // ORDERING: Acquire - pairs with the Release below.
    if IS_WATCHED.load(Acquire) {
        return;
    }
    // While the process has one thread, if it has: later this costs milliseconds.
    platform::membarrier::prepare();
    platform::clock::Ticks::begin_measuring();
    // Threads that come here at once both have it called, which does no harm.
    if let Err(error) = platform::pthread::at_fork_child(begin_child) {
        say(format_args!("nanos: {error}; a forked child must not use parallel regions"));
    }
    // ORDERING: Release - a thread that sees it finds the handler.
    IS_WATCHED.store(true, Release);
}

/// Has `call` called in each child, by its only thread, when it begins; once, however often that is
/// asked for.
#[cold]
pub(crate) fn at_child(call: fn()) {
    let call = call as *mut ();
    let is_noted = CALLS.iter().any(|place| {
        // ORDERING: AcqRel/Acquire - read by a child, which is a copy of what this thread wrote.
        match place.compare_exchange(ptr::null_mut(), call, AcqRel, Acquire) {
            Ok(_) => true,
            Err(other) => other == call,
        }
    });
    assert!(is_noted, "a call for children more than there is room for");
}

/// In the child of a fork, by its only thread: from here on it is a process of its own.
extern "C" fn begin_child() {
    // ORDERING: Relaxed - the child has one thread; those that it starts see it by their start.
    GENERATION.fetch_add(1, Relaxed);
    for place in &CALLS {
        // ORDERING: Acquire - pairs with the exchange in `at_child`.
        let call = place.load(Acquire);
        if call.is_null() {
            return;
        }
        // SAFETY: - `at_child` put a `fn()` there.
        unsafe { std::mem::transmute::<*mut (), fn()>(call)() };
    }
}

/// True in the child of a fork, whose parent had an engine: there may be locks that no thread is
/// left to give back.
pub fn is_child() -> bool {
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
        Self(GENERATION.load(Relaxed))
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

/// The process that has something which several threads may take, if one has. A forked child finds
/// its parent's there, and takes it for itself.
#[derive(Debug)]
pub struct Owner(AtomicUsize);

impl Owner {
    /// No process has it.
    pub const fn none() -> Self {
        Self(AtomicUsize::new(Born::NOWHERE.0))
    }

    /// Whose it is; [`Born::NOWHERE`], no process's. Cost: one load.
    #[inline]
    pub fn get(&self, ordering: Ordering) -> Born {
        // ORDERING: the caller's, here and below.
        Born(self.0.load(ordering))
    }

    /// True when this process has it. Cost: two loads.
    #[inline]
    pub fn is_here(&self, ordering: Ordering) -> bool {
        !self.get(ordering).is_parents()
    }

    /// Takes it for this process; true when this process did not have it.
    pub fn take(&self, ordering: Ordering) -> bool {
        let own = Born::now();
        self.0.swap(own.0, ordering) != own.0
    }

    /// Takes it for this process if it is still `expected`'s; else says whose it is.
    pub fn take_from(
        &self,
        expected: Born,
        success: Ordering,
        failure: Ordering,
    ) -> Result<(), Born> {
        let taken = self.0.compare_exchange(expected.0, Born::now().0, success, failure);
        taken.map(|_| ()).map_err(Born)
    }

    /// Gives it back.
    pub fn give_back(&self, ordering: Ordering) {
        self.0.store(Born::NOWHERE.0, ordering);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_began_is_the_parents_in_a_child_and_in_the_childs_child() {
        // So that the process has a handler.
        watch_forks();
        let born = Born::now();
        assert!(!born.is_parents() && Born::NOWHERE.is_parents());
        // SAFETY: - the child and its child use what this test is about, and end.
        let status = unsafe {
            ended(|| ended(|| u8::from(born.is_parents()) << 1) | u8::from(born.is_parents()))
        };
        assert_eq!(status, 3, "1: in the child, 2: in its child");
        assert!(!born.is_parents() && !is_child());
    }

    #[test]
    fn what_a_parent_owns_is_free_in_the_child() {
        watch_forks();
        let owner = Owner::none();
        assert!(!owner.is_here(Relaxed));
        assert_eq!(owner.take_from(Born::NOWHERE, Relaxed, Relaxed), Ok(()));
        assert_eq!(owner.take_from(Born::NOWHERE, Relaxed, Relaxed), Err(Born::now()));
        assert!(owner.is_here(Relaxed) && !owner.take(Relaxed), "it had it");
        // SAFETY: - the child uses what this test is about, and ends.
        let status = unsafe {
            ended(|| {
                let is_parents = !owner.is_here(Relaxed);
                u8::from(is_parents && owner.take(Relaxed) && owner.is_here(Relaxed))
            })
        };
        assert_eq!(status, 1);
        owner.give_back(Relaxed);
        assert_eq!(owner.get(Relaxed), Born::NOWHERE);
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
