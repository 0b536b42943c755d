//! A mutex for tasks: one is inside, the others queue, in the order in which they came.
//!
//! # Invariants
//! I1  At most one is inside. Leaving hands the place over to the first in the queue.
//!
//! # What touches what
//! The state: under its lock, which is one for each address and creator.

use platform::lock::Mutex;
use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

/// See the module head.
#[derive(Debug)]
pub(crate) struct TaskMutex<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    occupied: bool,
    queue: VecDeque<T>,
}

impl<T> Default for TaskMutex<T> {
    fn default() -> Self {
        Self(Mutex::new(State { occupied: false, queue: VecDeque::new() }))
    }
}

impl<T> TaskMutex<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that runs under the lock panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters; false: another one is inside, and `task` belongs to the queue now.
    pub(crate) fn enter(&self, task: T) -> bool {
        let mut state = self.state();
        if state.occupied {
            state.queue.push_back(task);
            return false;
        }
        state.occupied = true;
        true
    }

    /// Leaves; returns the one that is inside after that.
    pub(crate) fn leave(&self) -> Option<T> {
        let mut state = self.state();
        let next = state.queue.pop_front();
        state.occupied = next.is_some();
        next
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_is_inside_and_the_others_follow_in_order() {
        let mutex = TaskMutex::default();
        assert!(mutex.enter(1));
        assert!(!mutex.enter(2) && !mutex.enter(3));
        assert_eq!([mutex.leave(), mutex.leave(), mutex.leave()], [Some(2), Some(3), None]);
        assert!(mutex.enter(4), "empty again");
    }
}
