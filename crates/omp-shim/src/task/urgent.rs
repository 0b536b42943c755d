//! Ready tasks with a priority: one list for the team, the most urgent last. Only programs that set
//! `OMP_MAX_TASK_PRIORITY` have any; the others pay one load of a word that no thread writes.

use super::Explicit;
use platform::lock::Mutex;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

/// See the module head.
#[derive(Default)]
pub(super) struct Urgent {
    /// Tasks in the list.
    count: AtomicUsize,
    /// In order of priority; among equals the oldest last.
    list: Mutex<Vec<UrgentTask>>,
}

/// A ready task.
struct UrgentTask {
    priority: u32,
    task: NonNull<Explicit>,
}

// SAFETY: - a task is built to be run by any member; standing in one list, it is handed to exactly
// one of them.
unsafe impl Send for UrgentTask {}

impl Urgent {
    pub(super) fn is_empty(&self) -> bool {
        // ORDERING: Relaxed - a hint; a thread that is about to sleep looks again after its fence
        // (`WaitPoint`).
        self.count.load(Relaxed) == 0
    }

    pub(super) fn push(&self, task: NonNull<Explicit>, priority: u32) {
        let mut list = self.lock();
        let place = list.partition_point(|other| other.priority < priority);
        list.insert(place, UrgentTask { priority, task });
        // ORDERING: Relaxed - see `is_empty`; changed under the lock only.
        self.count.store(list.len(), Relaxed);
    }

    /// Takes the most urgent task that is `wanted`.
    pub(super) fn take(
        &self,
        wanted: impl Fn(NonNull<Explicit>) -> bool,
    ) -> Option<NonNull<Explicit>> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.lock();
        let place = list.iter().rposition(|ready| wanted(ready.task))?;
        let ready = list.remove(place);
        // ORDERING: Relaxed - as above.
        self.count.store(list.len(), Relaxed);
        Some(ready.task)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<UrgentTask>> {
        // Nothing panics while it is held.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
