//! Numbers of threads: small ones, by which a thread finds what is its own. That of a thread that
//! has ended is given again.
//!
//! # fork()
//! A child has the number of the thread that forked it. Those of its parent's other threads are
//! never given there: what belongs to them is as they left it (D13). So the count goes on in the
//! child, while the list, whose lock another thread may hold when the process forks, is the
//! engine's, and begins anew.

use platform::lock::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

/// Numbers given so far, in this process and in those that it was forked from.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Of threads that have ended.
    unused: Mutex<BinaryHeap<Reverse<usize>>>,
}

impl Numbers {
    fn unused(&self) -> MutexGuard<'_, BinaryHeap<Reverse<usize>>> {
        // Nothing that runs under this lock can panic halfway.
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The least number that no live thread has. What its last owner did is visible to the caller.
    pub(crate) fn take(&self) -> usize {
        let unused = self.unused().pop();
        // ORDERING: Relaxed - only uniqueness counts.
        unused.map_or_else(|| NEXT.fetch_add(1, Relaxed), |Reverse(number)| number)
    }

    /// Gives the number of a thread that ends back.
    pub(crate) fn give_back(&self, number: usize) {
        self.unused().push(Reverse(number));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::program::program;

    #[test]
    fn numbers_differ_and_the_least_unused_one_is_given_first() {
        let numbers = Numbers::default();
        let taken = [(); 3].map(|()| numbers.take());
        assert!(taken[0] < taken[1] && taken[1] < taken[2]);
        numbers.give_back(taken[2]);
        numbers.give_back(taken[0]);
        assert_eq!([numbers.take(), numbers.take()], [taken[0], taken[2]]);
        assert!(numbers.take() > taken[2]);
    }

    #[test]
    fn a_child_that_was_forked_while_a_thread_took_a_number_takes_one() {
        let busy = program().numbers().unused();
        // SAFETY: - the child uses what this test is about, and ends, by the alarm if it hangs.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: - takes no pointers.
            unsafe { libc::alarm(20) };
            // The count goes on from where other tests' threads left it, and none of theirs is
            // given again.
            let next = NEXT.load(Relaxed);
            let own = program().numbers().take();
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(i32::from(own != next)) };
        }
        drop(busy);
        let mut status = 0;
        // SAFETY: - `status` outlives the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "256: a wrong value; {}: it hung", libc::SIGALRM);
    }
}
