//! Tasks: creation, execution, completion, and the waits for them.
//!
//! # Life of an explicit task
//! T1 created: counted with its parent, its group and the team. T2 its predecessors are done: it
//!    stands in a queue.
//! T3 its body runs, on one thread from start to end. T4 body and event (if detached) are done:
//! `complete` releases the successors, then counts it off with group, parent and, last, the team.
//! T5 its memory goes when nobody refers to it.
//!
//! # Invariants
//! I1  A task's memory lives until it is complete, all its children have told it that they are, and
//!     their memory is gone: ancestors can be walked.
//! I2  Frames of implicit tasks live until the team's count of tasks is 0, which is the last thing
//!     that a completing task touches.
//! I3  Whoever waits for children or a group runs only descendants of its own task. Two waits can
//!     then never block each other: a thread that waits for task C and blocks task B, which is no descendant, in its queue got B there (by
//!     creating it, or by stealing it at a barrier) before it began the task whose child C is. So C is younger than B,
//!     and in a cycle of such waits each task would be younger than itself. What an event releases, whoever fulfills it,
//!     stands in the queue that nobody owns.

mod completion;
mod counts;
mod depend;
mod group;
mod help;
mod included;
mod memory;
mod pool;
mod queue;
pub(crate) mod reduction;
pub(crate) mod taskloop;
mod urgent;
mod wait;

pub(crate) use completion::Tally;
pub(crate) use depend::{Access, Dependence};
pub(crate) use group::{Group, close_group, new_group, open_group};
pub(crate) use queue::{Queues, were_any};
pub(crate) use wait::{
    finish_all, run_any, run_own, wait_for_children, wait_for_predecessors, yield_now,
};

use crate::frame::Frame;
use crate::icv::{Icvs, settings};
use crate::team::{Body, Team};
use completion::complete;
use depend::{Node, Table};
use help::help;
pub(crate) use included::with_block;
use included::{resume, run_included};
use memory::{CHILD, Memory, REFERENCE, TaskRef, allocate};
use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// What implicit and explicit tasks have in common.
#[repr(C)]
pub(crate) struct Task {
    /// The control variables of its data environment.
    pub(crate) icvs: Cell<Icvs>,
    parent: *const Task,
    /// Explicit tasks between this one and its implicit task.
    depth: u32,
    memory: Memory,
    is_final: bool,
    /// The address by which the task is known, when that is not its own.
    origin: usize,
    /// What an included task became when it got its first child; null until then.
    lasting: Cell<*const Task>,
    /// The innermost group that the task's code is in.
    group: Cell<*const Group>,
    /// Dependences among its children; null before the first.
    table: Cell<*mut Table>,
    /// Low half: references to the memory. High half: children that are not complete.
    links: AtomicU64,
}

/// An explicit task. Its edges and its argument block stand behind it in the same allocation.
#[repr(C)]
pub(crate) struct Explicit {
    task: Task,
    /// Beside the task's links, which are touched with it.
    node: Node,
    body: Body,
    data: *mut c_void,
    layout: Layout,
    /// The group that counts it.
    counted_by: *const Group,
    /// Bits of `event`.
    event: AtomicU8,
    detached: bool,
    /// The compiled code made objects in its argument block, which its body destroys.
    has_objects: bool,
    /// At most `OMP_MAX_TASK_PRIORITY`.
    priority: u32,
}

/// The body has run.
const BODY_DONE: u8 = 1;
/// `omp_fulfill_event` was called.
const FULFILLED: u8 = 2;
/// The task was cancelled before it started, and is complete: its memory stays for a late
/// `omp_fulfill_event`.
const DISCARDED: u8 = 4;

/// What to create.
pub(crate) struct Request<'a> {
    /// The task's code.
    pub(crate) body: Body,
    /// Its argument block, to be copied.
    pub(crate) data: *mut c_void,
    /// Copies the block; `None` = bytewise.
    pub(crate) copy: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// Size and alignment of the block.
    pub(crate) block: Layout,
    /// The `if` clause.
    pub(crate) deferrable: bool,
    /// The `final` clause.
    pub(crate) is_final: bool,
    /// The `priority` clause, or 0.
    pub(crate) priority: i32,
    /// The `depend` clauses.
    pub(crate) dependences: &'a [Dependence],
    /// Where the event handle goes.
    pub(crate) event: Option<NonNull<*mut c_void>>,
    /// A taskloop's task: its bounds, which its own argument block begins with. The next one gets
    /// the same `data`.
    pub(crate) bounds: Option<[u64; 2]>,
}

impl Request<'_> {
    /// Makes a task's own argument block.
    ///
    /// # Safety
    /// - `block` is fresh memory of the layout `self.block`, and `self.data` is what the compiled
    ///   code passed.
    unsafe fn fill(&self, block: *mut c_void) {
        match self.copy {
            // SAFETY: - the compiled code's own copy constructor for its block.
            Some(copy) => unsafe { copy(block, self.data) },
            // SAFETY: - the compiled code's block has this size; `block` is fresh.
            None => unsafe {
                ptr::copy_nonoverlapping(
                    self.data.cast::<u8>(),
                    block.cast::<u8>(),
                    self.block.size(),
                );
            },
        }
        if let Some(bounds) = self.bounds {
            // SAFETY: - the block of a taskloop begins with two words; the copy constructor does
            // not know them.
            unsafe { block.cast::<[u64; 2]>().write(bounds) };
        }
    }
}

impl Task {
    /// The implicit task of a member.
    #[inline]
    pub(crate) fn implicit(icvs: Icvs, group: *const Group) -> Self {
        Self {
            icvs: Cell::new(icvs),
            parent: ptr::null(),
            depth: 0,
            memory: Memory::Frame,
            is_final: false,
            origin: 0,
            lasting: Cell::new(ptr::null()),
            group: Cell::new(group),
            table: Cell::new(ptr::null_mut()),
            links: AtomicU64::new(REFERENCE),
        }
    }

    /// A task that its creator `parent` runs at once, on its stack.
    fn included(parent: &Self, is_final: bool) -> Self {
        Self {
            icvs: parent.icvs.clone(),
            parent,
            depth: parent.depth + 1,
            memory: Memory::Stack,
            is_final: is_final || parent.is_final,
            origin: 0,
            lasting: Cell::new(ptr::null()),
            group: parent.group.clone(),
            table: Cell::new(ptr::null_mut()),
            links: AtomicU64::new(REFERENCE),
        }
    }

    /// A number that no other task has while this one runs: its address, or the one that it had at
    /// first.
    pub(crate) fn identity(&self) -> usize {
        if self.origin != 0 { self.origin } else { ptr::from_ref(self).addr() }
    }

    /// True in a final task and all below it.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }

    fn has_children(&self) -> bool {
        // ORDERING: Acquire - what the children did; pairs with `complete`.
        self.links.load(Acquire) >= CHILD
    }

    /// True when `self` was created by `ancestor` or by one of its descendants.
    fn descends_from(&self, ancestor: &Task) -> bool {
        let mut task = self;
        while task.depth > ancestor.depth {
            // SAFETY: - I1: ancestors of a task that is not complete are alive; depth > 0 has a
            // parent.
            task = unsafe { &*task.parent };
        }
        ptr::eq(task, ancestor)
    }

    /// The innermost group, if any.
    pub(crate) fn group(&self) -> Option<&Group> {
        // SAFETY: - null or a group that is open around the task's code.
        unsafe { self.group.get().as_ref() }
    }

    /// The table of dependences among its children.
    #[expect(clippy::mut_from_ref, reason = "only the thread that runs the task touches its table")]
    fn table(&self) -> &mut Table {
        if self.table.get().is_null() {
            self.table.set(Box::into_raw(Box::default()));
        }
        // SAFETY: - just made or made before; the thread that runs the task uses it for one
        // creation at a time.
        unsafe { &mut *self.table.get() }
    }

    /// The task creates no more children: forgets their dependences.
    #[inline]
    pub(crate) fn drop_table(&self) {
        if !self.table.get().is_null() {
            self.free_table();
        }
    }

    #[inline(never)]
    fn free_table(&self) {
        // SAFETY: - made by `table`, not used any more.
        drop(unsafe { Box::from_raw(self.table.replace(ptr::null_mut())) });
    }
}

/// Creates a task, and runs it at once where it must not or need not wait.
pub(crate) fn create(frame: &Frame, request: &Request<'_>) {
    let team = frame.team();
    let parent = frame.task();
    if is_cancelled(team, parent.group()) {
        return;
    }
    let included = !request.deferrable || parent.is_final;
    if included && !request.dependences.is_empty() {
        wait_for_predecessors(frame, request.dependences);
    }
    if request.event.is_some() {
        create_detached(frame, request, included);
    } else if included {
        run_included(frame, request);
    } else if frame.size == 1 || team.tasks.is_full(&frame.task_room, frame.size) {
        create_in_full_team(frame, request);
    } else {
        let task = allocate(frame, request);
        submit(frame, task, request.dependences);
    }
}

/// Runs a task at once although it may be deferred, because there are enough. Waits for its
/// predecessors, too, so that a chain does not grow without end; unless one of them may wait for an
/// event that the creator itself will fulfill.
fn create_in_full_team(frame: &Frame, request: &Request<'_>) {
    if !is_ready(frame, request.dependences) {
        if frame.team().tasks.awaits_events() {
            let task = allocate(frame, request);
            return submit(frame, task, request.dependences);
        }
        wait_for_predecessors(frame, request.dependences);
    }
    run_included(frame, request);
}

/// Queues a task, now or (by its last predecessor) later.
fn submit(frame: &Frame, task: &Explicit, dependences: &[Dependence]) {
    let team = frame.team();
    if dependences.is_empty() || depend::register(frame.task().table(), task, dependences) {
        team.tasks.push(frame.id, NonNull::from(task));
        if frame.size > 1 {
            team.call_back(help);
        }
        team.stir();
    }
}

/// Creates a task that is complete only when its event is fulfilled; the creator of an included one
/// waits for that.
fn create_detached(frame: &Frame, request: &Request<'_>, included: bool) {
    frame.team().tasks.count_detached();
    let task = allocate(frame, request);
    if included {
        let kept = TaskRef::new(task);
        execute(frame, task);
        wait::wait_running(frame, || kept.get().node.is_finished());
    } else {
        submit(frame, task, request.dependences);
    }
}

/// True when nothing that is not done comes before a child with these dependences.
fn is_ready(frame: &Frame, dependences: &[Dependence]) -> bool {
    let task = frame.task();
    dependences.is_empty()
        || task.table.get().is_null()
        || depend::is_ready(task.table(), dependences)
}

/// What the task's `priority` clause comes to.
#[inline]
fn priority(request: &Request<'_>) -> u32 {
    match u32::try_from(request.priority) {
        Ok(0) | Err(_) => 0,
        Ok(priority) => priority.min(settings().environment.max_task_priority),
    }
}

/// Runs a task's body (T3) and completes it unless its event is still to come.
fn execute(frame: &Frame, task: &Explicit) {
    if run(frame, task) {
        complete(frame.team(), Some(frame.id), false, task);
    }
}

/// As [`execute`], for who has nothing else to do: what its end means for parent, group and team is
/// told later, together with that of others ([`Tally`]).
fn execute_helping(frame: &Frame, task: &Explicit) {
    frame.tally.tell_before(frame, task);
    if run(frame, task) {
        if task.detached {
            complete(frame.team(), Some(frame.id), false, task);
        } else {
            frame.tally.complete(frame, task);
        }
    }
}

/// Runs a task's body (T3), unless its group is cancelled and there are no objects that only the
/// body destroys; true when the task is to be completed now: no event is to come.
fn run(frame: &Frame, task: &Explicit) -> bool {
    // SAFETY: - the group counts this task, so it is still open.
    if !task.has_objects && is_cancelled(frame.team(), unsafe { task.counted_by.as_ref() }) {
        // ORDERING: AcqRel - as below.
        if task.detached && task.event.fetch_or(DISCARDED, AcqRel) & FULFILLED == 0 {
            std::mem::forget(TaskRef::new(task));
        }
        return true;
    }
    if frame.size > 1 {
        engine::between_pieces();
    }
    let before = frame.swap_task(&raw const task.task);
    // SAFETY: - the compiled code's body with its argument block, once.
    unsafe { (task.body)(task.data) };
    resume(frame, before);
    task.task.drop_table();
    // ORDERING: AcqRel - either this thread or the fulfilling one sees both bits, and completes the
    // task.
    !task.detached || task.event.fetch_or(BODY_DONE, AcqRel) & FULFILLED != 0
}

/// `omp_fulfill_event`: may come from any thread of the process.
///
/// # Safety
/// - `handle` is the event handle of a task whose event was not fulfilled yet.
pub(crate) unsafe fn fulfill(handle: *mut c_void, frame: &Frame) {
    // SAFETY: - caller's contract: the task waits for this call.
    let task = unsafe { &*handle.cast::<Explicit>() };
    // ORDERING: AcqRel - see `execute`.
    if task.event.fetch_or(FULFILLED, AcqRel) & (BODY_DONE | DISCARDED) == BODY_DONE {
        let team = task.node.team();
        let id = ptr::eq(team, frame.team()).then_some(frame.id);
        complete(team, id, true, task);
    }
}

fn is_cancelled(team: &Team, group: Option<&Group>) -> bool {
    // ORDERING: Relaxed - a hint, checked at scheduling points.
    team.cancelled.load(Relaxed) || group.is_some_and(Group::is_cancelled)
}
