//! The team's tasks that are ready: a deque for each member, and one queue for tasks that nobody owns.
//!
//! A member pushes and pops at one end of its deque (the youngest first: what it needs is in its cache), others steal
//! at the other (the oldest first: the largest piece of work).

use super::Explicit;
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use platform::sync::CachePadded;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::{Acquire, Relaxed, Release}};

/// A task that stands in one queue.
#[derive(Clone, Copy)]
struct Ready(NonNull<Explicit>);

// SAFETY: - a task is built to be run by any member; standing in one queue, it is handed to exactly one of them.
unsafe impl Send for Ready {}

struct Deque {
    own: Worker<Ready>,
    others: Stealer<Ready>,
}

/// Tasks that wait in one member's deque before its creator runs the next ones itself.
const FULL: usize = 256;

/// Tasks of strangers that a waiting member moves out of its way in others' deques, for each wait.
const STRANGERS: u32 = 4;

/// See the module head.
pub(crate) struct Queues {
    deques: UnsafeCell<Vec<CachePadded<Deque>>>,
    unowned: CachePadded<Injector<Ready>>,
    /// Tasks that are not complete.
    incomplete: CachePadded<AtomicUsize>,
    /// A task was created since `take_note`.
    noted: AtomicBool,
}

// SAFETY: - the vector changes between regions only (`make_room`).
//         - `own` is used by the member alone that the deque belongs to; `others` is made to be shared.
unsafe impl Sync for Queues {}

impl Queues {
    /// No deques yet.
    pub(crate) fn new() -> Self {
        Self {
            deques: UnsafeCell::new(Vec::new()),
            unowned: CachePadded::new(Injector::new()),
            incomplete: CachePadded::new(AtomicUsize::new(0)),
            noted: AtomicBool::new(false),
        }
    }

    /// Makes deques for `members`. Between regions only.
    pub(crate) fn make_room(&self, members: usize) {
        // SAFETY: - between regions: only the primary thread looks here.
        let deques = unsafe { &mut *self.deques.get() };
        while deques.len() < members {
            let own = Worker::new_lifo();
            let others = own.stealer();
            deques.push(CachePadded::new(Deque { own, others }));
        }
    }

    fn deque(&self, id: u32) -> &Deque {
        // SAFETY: - the vector does not change during a region.
        unsafe { &(&*self.deques.get())[id as usize] }
    }

    /// True when member `id` should run tasks rather than queue more.
    pub(crate) fn is_full(&self, id: u32) -> bool {
        self.deque(id).own.len() >= FULL
    }

    /// Queues a task with member `id`, the caller.
    pub(crate) fn push(&self, id: u32, task: NonNull<Explicit>) {
        self.deque(id).own.push(Ready(task));
    }

    /// Queues a task with the calling member, or with nobody when the caller is not of the team.
    pub(crate) fn push_anywhere(&self, id: Option<u32>, task: NonNull<Explicit>) {
        match id {
            Some(id) => self.push(id, task),
            None => self.unowned.push(Ready(task)),
        }
    }

    /// Takes any task, for member `id` of `size`.
    pub(crate) fn take(&self, id: u32, size: u32) -> Option<NonNull<Explicit>> {
        if let Some(Ready(task)) = self.deque(id).own.pop() {
            return Some(task);
        }
        self.steal_unowned().or_else(|| {
            victims(id, size).find_map(|victim| steal(|| self.deque(victim).others.steal()))
        })
    }

    /// Takes a task that is `wanted`, for member `id` of `size`; see I3 of the task module.
    pub(crate) fn take_if(
        &self,
        id: u32,
        size: u32,
        wanted: impl Fn(NonNull<Explicit>) -> bool,
        strangers: &mut u32,
    ) -> Option<NonNull<Explicit>> {
        let own = &self.deque(id).own;
        if let Some(Ready(task)) = own.pop() {
            if wanted(task) {
                return Some(task);
            }
            // What lies below is older still: no descendants there.
            own.push(Ready(task));
        }
        for _ in 0..self.unowned.len() {
            let Some(task) = self.steal_unowned() else { break };
            if wanted(task) {
                return Some(task);
            }
            self.unowned.push(Ready(task));
        }
        for victim in victims(id, size) {
            if *strangers >= STRANGERS {
                return None;
            }
            if let Some(task) = steal(|| self.deque(victim).others.steal()) {
                if wanted(task) {
                    return Some(task);
                }
                *strangers += 1;
                self.unowned.push(Ready(task));
            }
        }
        None
    }

    fn steal_unowned(&self) -> Option<NonNull<Explicit>> {
        if self.unowned.is_empty() { None } else { steal(|| self.unowned.steal()) }
    }

    /// One more task.
    pub(crate) fn count_created(&self) {
        // ORDERING: Relaxed - the creator itself is counted or at a barrier later; see `all_complete`.
        self.incomplete.fetch_add(1, Relaxed);
        // ORDERING: Relaxed - read after the join.
        if !self.noted.load(Relaxed) {
            self.noted.store(true, Relaxed);
        }
    }

    /// One task less: the last thing that a completing task touches.
    pub(crate) fn count_complete(&self) {
        // ORDERING: Release - pairs with `all_complete`.
        self.incomplete.fetch_sub(1, Release);
    }

    /// True when every task is complete.
    #[inline]
    pub(crate) fn all_complete(&self) -> bool {
        // ORDERING: Acquire - what the tasks did; pairs with `count_complete`.
        self.incomplete.load(Acquire) == 0
    }

    /// True when a task was created since the last call. Between regions.
    pub(crate) fn take_note(&self) -> bool {
        // ORDERING: Relaxed - after the join.
        let noted = self.noted.load(Relaxed);
        if noted {
            self.noted.store(false, Relaxed);
        }
        noted
    }
}

/// The other members, beginning behind `id`.
fn victims(id: u32, size: u32) -> impl Iterator<Item = u32> {
    (1..size).map(move |distance| (id + distance) % size)
}

fn steal(attempt: impl Fn() -> Steal<Ready>) -> Option<NonNull<Explicit>> {
    loop {
        match attempt() {
            Steal::Success(Ready(task)) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
