//! The team's tasks that are ready: a deque for each member, one queue for tasks that no member
//! owns, and a list of those with a priority, which go first.
//!
//! A member pushes and pops at one end of its deque (the youngest first: what it needs is in its
//! cache), others steal at the other (the oldest first: the largest piece of work).

use super::Explicit;
use super::counts::TaskCounts;
use super::pool::{FreeList, Store};
use super::urgent::Urgent;
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use platform::lock::Once;
use platform::sync::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// A task that stands in one queue.
#[derive(Clone, Copy)]
struct QueuedTask(NonNull<Explicit>);

// SAFETY: - a task is built to be run by any member; standing in one queue, it is handed to exactly
// one of them.
unsafe impl Send for QueuedTask {}

struct Deque {
    own: Worker<QueuedTask>,
    others: Stealer<QueuedTask>,
}

/// Incomplete tasks of a team before their creators run the next ones themselves: so many, and so
/// many for each member.
const FULL: u64 = 128;
const FULL_EACH: u64 = 64;
/// Tasks that a member of a full team runs itself before it looks at the others' counts again.
const RUNS: i32 = 8;
/// Tasks that are taken from another member's queue in one go, at most, and half of what is there:
/// a thief pays for the lines once.
const BATCH: usize = 8;

/// Tasks that are no descendants, which a waiting member moves out of its way in others' deques, at
/// most, for each wait.
const UNRELATED: u32 = 4;

/// Some region of this process has had a task.
static WERE_ANY: AtomicBool = AtomicBool::new(false);

/// True where the program is known to make tasks.
#[inline]
pub(crate) fn were_any() -> bool {
    // ORDERING: Relaxed - a hint, see `count_created`.
    WERE_ANY.load(Relaxed)
}

/// The deques free their memory by epochs that the process has one collector of. The first thread
/// that steals makes it, and the others wait for that in a way that sets `errno`: so it is made
/// before the first task, where a wait leaves `errno` as it was.
static COLLECTOR: Once<()> = Once::new();

fn make_collector() {
    COLLECTOR.get_or_init(|| {
        let queue = Worker::new_lifo();
        queue.push(());
        let _taken = queue.stealer().steal();
    });
}

/// See the module head.
pub(crate) struct Queues {
    deques: UnsafeCell<Vec<CachePadded<Deque>>>,
    unowned: CachePadded<Injector<QueuedTask>>,
    urgent: Urgent,
    /// One for each deque.
    free_lists: UnsafeCell<Vec<CachePadded<FreeList>>>,
    store: Store,
    counts: TaskCounts,
    /// Threads that are not of the team and complete a task of it just now: see [`Visitor`].
    visitors: AtomicU32,
    /// Incomplete tasks with events.
    detached: AtomicU32,
}

/// A thread that is not of the team, at work on it: the team waits for its end before it is freed.
pub(crate) struct Visitor<'a>(&'a Queues);

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        // ORDERING: Release - the visitor's last touch; pairs with the Acquire in `await_visitors`.
        self.0.visitors.fetch_sub(1, Release);
    }
}

// SAFETY: - the vector changes between regions only (`make_room`).
//         - `own` is used by the member alone that the deque belongs to, free lists likewise;
//           `others` is made to be shared.
unsafe impl Sync for Queues {}

impl Queues {
    /// No deques yet.
    pub(crate) fn new() -> Self {
        Self {
            deques: UnsafeCell::new(Vec::new()),
            unowned: CachePadded::new(Injector::new()),
            urgent: Urgent::default(),
            free_lists: UnsafeCell::new(Vec::new()),
            store: Store::default(),
            counts: TaskCounts::default(),
            visitors: AtomicU32::new(0),
            detached: AtomicU32::new(0),
        }
    }

    /// Makes deques for `members`. Between regions only.
    pub(crate) fn make_room(&self, members: usize) {
        // SAFETY: - between regions: only the primary thread looks here.
        let deques = unsafe { &mut *self.deques.get() };
        // SAFETY: - as above.
        let free_lists = unsafe { &mut *self.free_lists.get() };
        while deques.len() < members {
            let own = Worker::new_lifo();
            let others = own.stealer();
            deques.push(CachePadded::new(Deque { own, others }));
            free_lists.push(CachePadded::default());
        }
        // SAFETY: - as above.
        unsafe { self.counts.make_room(members) };
    }

    fn deque(&self, id: u32) -> &Deque {
        // SAFETY: - the vector does not change during a region.
        unsafe { &(&*self.deques.get())[id as usize] }
    }

    /// True when a member of `size` should run a task rather than queue it. `room` is the member's
    /// own ([`Frame::task_room`](crate::frame::Frame)); only now and then this looks at the others'
    /// counts, whose lines they write.
    #[inline]
    pub(crate) fn is_full(&self, room: &Cell<i32>, size: u32) -> bool {
        let left = room.get();
        room.set(left - left.signum());
        match left {
            0 => self.look_for_room(room, size),
            left => left < 0,
        }
    }

    fn look_for_room(&self, room: &Cell<i32>, size: u32) -> bool {
        let (completed, created) = self.counts.sums(size);
        let size = u64::from(size);
        let free =
            (FULL + FULL_EACH * size).saturating_sub(created.saturating_sub(completed)) / size;
        room.set(if free == 0 { -RUNS } else { i32::try_from(free - 1).unwrap_or(i32::MAX) });
        free == 0
    }

    /// Keeps the team's memory until the visit ends. The caller holds an incomplete task of the
    /// team, so it lives now.
    pub(crate) fn visit(&self) -> Visitor<'_> {
        // ORDERING: Relaxed - before the Release that completes the caller's task; the team's end
        // comes after that Release.
        self.visitors.fetch_add(1, Relaxed);
        Visitor(self)
    }

    /// Waits until no visitor is left: before the team's memory goes.
    pub(crate) fn await_visitors(&self) {
        // ORDERING: Acquire - pairs with the end of a `Visitor`, which is some instructions away,
        // or a wake.
        while self.visitors.load(Acquire) != 0 {
            std::thread::yield_now();
        }
    }

    /// True when a task is incomplete that only an event can complete.
    pub(crate) fn awaits_events(&self) -> bool {
        // ORDERING: Relaxed - the caller created such a task itself, or must not rely on it.
        self.detached.load(Relaxed) != 0
    }

    /// A task with an event is created.
    pub(crate) fn count_detached(&self) {
        // ORDERING: Relaxed - a number on its own.
        self.detached.fetch_add(1, Relaxed);
    }

    /// A task with an event is complete.
    pub(crate) fn count_fulfilled(&self) {
        // ORDERING: Relaxed - a number on its own.
        self.detached.fetch_sub(1, Relaxed);
    }

    /// Queues a task with member `id`, the caller, unless it has a priority.
    pub(crate) fn push(&self, id: u32, task: NonNull<Explicit>) {
        if !self.is_urgent(task) {
            self.deque(id).own.push(QueuedTask(task));
        }
    }

    /// True when the task has a priority: then it is queued among those.
    fn is_urgent(&self, task: NonNull<Explicit>) -> bool {
        // SAFETY: - a task that no member has taken yet is alive.
        let priority = unsafe { task.as_ref() }.priority;
        if priority > 0 {
            self.urgent.push(task, priority);
        }
        priority > 0
    }

    /// True when member `id`, the caller, has no task queued.
    pub(crate) fn has_none(&self, id: u32) -> bool {
        self.deque(id).own.is_empty()
    }

    /// Queues a task of no member: one that an event has released.
    pub(crate) fn push_unowned(&self, task: NonNull<Explicit>) {
        if !self.is_urgent(task) {
            self.unowned.push(QueuedTask(task));
        }
    }

    /// Takes the most urgent task, or one that member `id` has in its own queue.
    #[inline]
    pub(crate) fn take_own(&self, id: u32) -> Option<NonNull<Explicit>> {
        self.urgent.take(|_| true).or_else(|| self.deque(id).own.pop().map(|QueuedTask(task)| task))
    }

    /// Takes any task, for member `id` of `size`. Unless `eager`, a task that stands alone in its
    /// queue is left to its creator for a while: moving one small task costs more than running it.
    pub(crate) fn take(&self, id: u32, size: u32, eager: bool) -> Option<NonNull<Explicit>> {
        if let Some(task) = self.take_own(id) {
            return Some(task);
        }
        let least = if eager { 1 } else { 2 };
        self.steal_unowned().or_else(|| {
            victims(id, size)
                .map(|victim| &self.deque(victim).others)
                .filter(|queue| queue.len() >= least)
                .find_map(|queue| {
                    steal(|| queue.steal_batch_with_limit_and_pop(&self.deque(id).own, BATCH))
                })
        })
    }

    /// True when a task is queued that member `id` of `size` could take.
    pub(crate) fn has_any(&self, id: u32, size: u32) -> bool {
        !self.urgent.is_empty()
            || !self.unowned.is_empty()
            || victims(id, size).any(|victim| !self.deque(victim).others.is_empty())
    }

    /// True when a task is queued where member `id`, the caller, puts back what it must not run.
    pub(crate) fn keeps_any(&self, id: u32) -> bool {
        !self.deque(id).own.is_empty() || !self.unowned.is_empty()
    }

    /// Takes a task that is `wanted`, for member `id` of `size`; see I3 of the task module.
    pub(crate) fn take_if(
        &self,
        id: u32,
        size: u32,
        wanted: impl Fn(NonNull<Explicit>) -> bool,
        unrelated: &mut u32,
    ) -> Option<NonNull<Explicit>> {
        if let Some(task) = self.urgent.take(&wanted) {
            return Some(task);
        }
        let own = &self.deque(id).own;
        if let Some(QueuedTask(task)) = own.pop() {
            if wanted(task) {
                return Some(task);
            }
            // What lies below is older still: no descendants there.
            own.push(QueuedTask(task));
        }
        for _ in 0..self.unowned.len() {
            let Some(task) = self.steal_unowned() else { break };
            if wanted(task) {
                return Some(task);
            }
            self.unowned.push(QueuedTask(task));
        }
        for victim in victims(id, size) {
            if *unrelated >= UNRELATED {
                return None;
            }
            if let Some(task) = steal(|| self.deque(victim).others.steal()) {
                if wanted(task) {
                    return Some(task);
                }
                *unrelated += 1;
                self.unowned.push(QueuedTask(task));
            }
        }
        None
    }

    fn free_list(&self, id: u32) -> &FreeList {
        // SAFETY: - the vector does not change during a region.
        unsafe { &(&*self.free_lists.get())[id as usize] }
    }

    /// Memory for a task that member `id`, the caller, creates.
    pub(crate) fn take_block(&self, id: u32) -> *mut u8 {
        self.free_list(id).take(&self.store)
    }

    /// Takes the memory of a task back that member `id`, the caller, frees.
    ///
    /// # Safety
    /// - It came from `take_block`, of this or another team, and no thread uses it any more.
    pub(crate) unsafe fn give_block(&self, id: u32, block: *mut u8) {
        // SAFETY: - caller's contract.
        unsafe { self.free_list(id).give(block, &self.store) };
    }

    fn steal_unowned(&self) -> Option<NonNull<Explicit>> {
        if self.unowned.is_empty() { None } else { steal(|| self.unowned.steal()) }
    }

    /// Member `id` creates a task.
    pub(crate) fn count_created(&self, id: u32) {
        self.counts.created(id, || {
            make_collector();
            // ORDERING: Relaxed - a hint for later regions.
            WERE_ANY.store(true, Relaxed);
        });
    }

    /// Member `id` (or a thread that is none) completes `count` tasks: the last thing that touches
    /// their region.
    pub(crate) fn count_complete(&self, id: Option<u32>, count: u32) {
        self.counts.complete(id, count);
    }

    /// True when no task was created in this region.
    #[inline]
    pub(crate) fn are_unused(&self) -> bool {
        self.counts.are_unused()
    }

    /// True when every task is complete that was created by what the caller has seen the end of:
    /// its own code, and that of all members which have arrived at its barrier.
    #[inline]
    pub(crate) fn all_complete(&self, size: u32) -> bool {
        self.counts.all_complete(size)
    }

    /// True when a task was created since the last call. Between regions: counts from 0 again.
    pub(crate) fn take_note(&self) -> bool {
        // SAFETY: - between regions: only the primary thread looks here.
        unsafe { self.counts.take_note() }
    }
}

/// The other members, beginning after `id`.
fn victims(id: u32, size: u32) -> impl Iterator<Item = u32> {
    (1..size).map(move |distance| (id + distance) % size)
}

fn steal(attempt: impl Fn() -> Steal<QueuedTask>) -> Option<NonNull<Explicit>> {
    loop {
        match attempt() {
            Steal::Success(QueuedTask(task)) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
