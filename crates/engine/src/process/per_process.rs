//! What each process has of its own: state that is made at first use, and made anew in a forked
//! child.
//!
//! A layer of the engine keeps its state in a static of this kind, and the layers below do not know
//! of it. The state hangs on one pointer, so that to reach it costs one load, and a child starts
//! anew with one store (D13). What the parent had stays leaked there: its locks may be held by
//! threads that do not exist in the child.

use crate::process;
use platform::aside::Aside;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Release},
};

/// State of a process.
pub(crate) trait State: Sized + Sync + 'static {
    /// In a process that has none yet. Of several that threads make at once one is kept.
    fn begin() -> Self;

    /// In a forked child, by its only thread: `self` is the parent's, as the fork left it, and
    /// threads that are not there may hold its locks.
    fn in_child(&self) -> Self;
}

/// See the module head.
pub(crate) struct PerProcess<T> {
    current: AtomicPtr<T>,
    /// Calls [`PerProcess::renew`] of this static, and does what else a child needs.
    at_child: fn(),
}

impl<T: State> PerProcess<T> {
    /// No state yet. `at_child` is called in each child that is forked when there is one.
    pub(crate) const fn new(at_child: fn()) -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()), at_child }
    }

    /// The state of this process. Cost: one load.
    #[inline]
    pub(crate) fn get(&'static self) -> &'static T {
        match self.existing() {
            Some(state) => state,
            None => self.create(),
        }
    }

    /// The same, if there is one.
    #[inline]
    pub(crate) fn existing(&'static self) -> Option<&'static T> {
        // ORDERING: Acquire - pairs with the Release of `create` and `renew`.
        // SAFETY: - these two alone say where the state is, and leak it.
        unsafe { self.current.load(Acquire).as_ref() }
    }

    #[cold]
    fn create(&'static self) -> &'static T {
        let _aside = Aside::begin();
        process::watch_forks();
        process::at_child(self.at_child);
        let fresh = Box::into_raw(Box::new(T::begin()));
        // ORDERING: AcqRel/Acquire - publishes the fresh state, or sees the one that won.
        match self.current.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
            // SAFETY: - just leaked.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: - `fresh` was not published: we are its only owner.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: - what is published is never freed.
                unsafe { &*winner }
            }
        }
    }

    /// In a child, by its only thread: from here on the state is its own. Does nothing where the
    /// parent had none.
    pub(crate) fn renew(&'static self) {
        if let Some(parents) = self.existing() {
            // ORDERING: Release - pairs with the Acquire of `existing`.
            self.current.store(Box::into_raw(Box::new(parents.in_child())), Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many processes came before it.
    struct Generation(usize);

    impl State for Generation {
        fn begin() -> Self {
            Self(0)
        }

        fn in_child(&self) -> Self {
            Self(self.0 + 1)
        }
    }

    static GENERATION: PerProcess<Generation> = PerProcess::new(|| GENERATION.renew());
    static UNUSED: PerProcess<Generation> = PerProcess::new(|| UNUSED.renew());

    #[test]
    fn a_child_has_state_of_its_own_made_of_its_parents() {
        let parents = GENERATION.get();
        // SAFETY: - the child uses what this test is about, and ends, by the alarm if it hangs.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: - takes no pointers.
            unsafe { libc::alarm(20) };
            let is_right = GENERATION.existing().is_some_and(|own| own.0 == 1)
                && parents.0 == 0
                && UNUSED.existing().is_none()
                && UNUSED.get().0 == 0;
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(i32::from(is_right)) };
        }
        let mut status = 0;
        // SAFETY: - `status` outlives the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 1 << 8, "0: a wrong state; {}: it hung", libc::SIGALRM);
        assert!(ptr::eq(parents, GENERATION.get()), "the parent goes on with its own");
    }

    #[test]
    fn threads_that_come_at_once_have_the_same_state() {
        static SHARED: PerProcess<Generation> = PerProcess::new(|| SHARED.renew());
        let addresses = std::thread::scope(|s| {
            let threads: Vec<_> =
                (0..8).map(|_| s.spawn(|| ptr::from_ref(SHARED.get()).addr())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(addresses.iter().all(|&address| address == addresses[0]));
    }
}
