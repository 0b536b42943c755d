//! A value that one thread at a time has, for which none waits. A child of a fork finds it free
//! also where a thread of its parent had it; that may have been in the middle of changing it, so
//! the child has a fresh one.

use engine::process::{Born, Owner};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// See the module head.
#[derive(Debug)]
pub(super) struct Holder<T> {
    value: UnsafeCell<T>,
    /// The process of the thread that has it, if one does.
    owner: Owner,
}

// SAFETY: - the value is touched by the thread that set `owner` alone, each in its turn.
unsafe impl<T: Send> Sync for Holder<T> {}

impl<T> Holder<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), owner: Owner::none() }
    }

    /// Runs `turn` on the value; `None` when another thread, or the caller, has it. What a thread
    /// of a parent had is lost here, and `fresh` makes another one.
    pub(super) fn turn<R>(
        &self,
        fresh: impl FnOnce() -> T,
        turn: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        // ORDERING: Relaxed - a hint, which the exchange checks.
        let owner = self.owner.get(Relaxed);
        // ORDERING: Acquire - pairs with the Release below. Another process is the parent of a
        // fork, whose thread is not here.
        if !owner.is_parents() || self.owner.take_from(owner, Acquire, Relaxed).is_err() {
            return None;
        }
        let value = self.value.get();
        if owner != Born::NOWHERE {
            // SAFETY: - this thread has set `owner`. What was there may be half of one value and
            // half of another, and is neither read nor dropped.
            unsafe { ptr::write(value, fresh()) };
        }
        // SAFETY: - this thread has set `owner`.
        let result = turn(unsafe { &mut *value });
        // ORDERING: Release - the next owner sees the value.
        self.owner.give_back(Release);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_parents_thread_had_is_free_and_fresh_in_the_child() {
        // From here on the engine tells children from their parents.
        assert!(engine::processors() > 0);
        let holder = Holder::new(vec![1]);
        let fresh = || vec![9, 9];
        let mut status = 0;
        holder.turn(fresh, |value| {
            assert_eq!(holder.turn(fresh, |_| {}), None, "it is in use");
            value.push(2);
            // SAFETY: - the child uses what this test is about, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let seen = holder.turn(fresh, |value| value.len()).unwrap_or(0);
                let again = holder.turn(Vec::new, |value| value.len()).unwrap_or(0);
                // SAFETY: - ends the child without the parent's destructors.
                unsafe { libc::_exit((seen * 10 + again) as i32) };
            }
            // SAFETY: - `status` outlives the call; the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        });
        assert_eq!(status, 22 << 8, "in the child");
        assert_eq!(holder.turn(fresh, |value| value.clone()), Some(vec![1, 2]), "in the parent");
    }
}
