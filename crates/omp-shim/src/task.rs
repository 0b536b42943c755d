//! Tasks, as plain state: what they are, where the ready ones stand, and what is counted of them.
//! What threads do with them is in [`crate::tasking`].
//!
//! # Life of an explicit task
//! T1 created: counted with its parent, its group and the team. T2 its predecessors are done: it
//!    stands in a queue.
//! T3 its body runs, on one thread from start to end. T4 body and event (if detached) are done:
//! `complete` releases the successors, then counts it off with group, parent and, last, the team.
//! T5 its memory goes when nothing refers to it.
//!
//! # Invariants
//! I1  A task's memory lives until it is complete, all its children have told it that they are, and
//!     their memory is gone: ancestors can be walked.
//! I2  Frames of implicit tasks live until the team's count of tasks is 0, which is the last thing
//!     that a completing task touches.
//! I3  A thread that waits for children or a group runs only descendants of its own task. Two
//!     waits can then never block each other: a thread that waits for task C and blocks task B,
//!     which is no descendant, in its queue got B there (by creating it, or by stealing it at a
//!     barrier) before it began the task whose child C is. So C is younger than B, and in a cycle
//!     of such waits each task would be younger than itself. What an event releases, whichever
//!     thread fulfills it, stands in the queue that no member owns.

mod counts;
pub(crate) mod depend;
mod group;
pub(crate) mod pool;
mod queue;
mod request;
mod tally;
mod urgent;

pub(crate) use depend::{Access, Dependence};
pub(crate) use group::{TaskGroup, new_group};
pub(crate) use queue::{Queues, were_any};
pub(crate) use request::TaskRequest;
pub(crate) use tally::{Ends, Tally};

use crate::body::Body;
use crate::settings::Icvs;
use depend::{Node, Ordered, Table};
use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// Where a task's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A member's frame: an implicit task.
    Frame,
    /// The stack of the thread that creates it: an included task, which no other thread knows.
    Stack,
    /// The heap, because it turned out to have children: see `tasking::memory`.
    Heap,
    /// An [`Explicit`].
    Explicit,
}

/// One reference to a task's memory, in its links.
pub(crate) const REFERENCE: u64 = 1;
/// One child that is not complete, or whose end is not told yet, in its links.
pub(crate) const CHILD: u64 = 1 << 32;

/// What implicit and explicit tasks have in common.
#[repr(C)]
pub(crate) struct Task {
    /// The control variables of its data environment.
    pub(crate) icvs: Cell<Icvs>,
    /// Null for implicit tasks.
    pub(crate) parent: *const Task,
    /// Explicit tasks between this one and its implicit task.
    pub(crate) depth: u32,
    /// Where its memory comes from.
    pub(crate) memory: Memory,
    is_final: bool,
    /// The address by which the task is known, when that is not its own.
    origin: usize,
    /// What an included task became when it got its first child; null until then.
    pub(crate) lasting: Cell<*const Task>,
    /// The innermost group that the task's code is in.
    pub(crate) group: Cell<*const TaskGroup>,
    /// Dependences among its children; null before the first.
    table: Cell<*mut Table<Explicit>>,
    /// Low half: references to the memory. High half: children that are not complete.
    pub(crate) links: AtomicU64,
}

/// An explicit task. Its edges and its argument block follow it in the same allocation.
#[repr(C)]
pub(crate) struct Explicit {
    /// What it has in common with implicit ones.
    pub(crate) task: Task,
    /// Its place in the order of its parent's children. Next to the task's links, which are touched
    /// with it.
    pub(crate) node: Node<Explicit>,
    /// The team that it belongs to: modules above this one know what that is.
    pub(crate) team: *const (),
    /// Its code.
    pub(crate) body: Body,
    /// Its argument block.
    pub(crate) data: *mut c_void,
    /// That of the allocation.
    pub(crate) layout: Layout,
    /// The group that counts it.
    pub(crate) counted_by: *const TaskGroup,
    /// Bits of `event`.
    pub(crate) event: AtomicU8,
    /// It is complete only when its event has come.
    pub(crate) detached: bool,
    /// The compiled code made objects in its argument block, which its body destroys.
    pub(crate) has_objects: bool,
    /// At most `OMP_MAX_TASK_PRIORITY`.
    pub(crate) priority: u32,
}

/// The body has run.
pub(crate) const BODY_DONE: u8 = 1;
/// `omp_fulfill_event` was called.
pub(crate) const FULFILLED: u8 = 2;
/// The task was cancelled before it started, and is complete: its memory stays for a late
/// `omp_fulfill_event`.
pub(crate) const DISCARDED: u8 = 4;

impl Task {
    /// The implicit task of a member.
    #[inline]
    pub(crate) fn implicit(icvs: Icvs, group: *const TaskGroup) -> Self {
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

    /// A child of `parent`, with its control variables and in its group.
    #[inline]
    pub(crate) fn below(parent: &Self, memory: Memory, is_final: bool) -> Self {
        Self {
            icvs: parent.icvs.clone(),
            parent,
            depth: parent.depth + 1,
            memory,
            is_final: is_final || parent.is_final,
            origin: 0,
            lasting: Cell::new(ptr::null()),
            group: parent.group.clone(),
            table: Cell::new(ptr::null_mut()),
            links: AtomicU64::new(REFERENCE),
        }
    }

    /// What goes on as an included task that moves to the heap, below `parent`.
    pub(crate) fn moved(&self, parent: *const Task) -> Self {
        Self {
            icvs: self.icvs.clone(),
            parent,
            depth: self.depth,
            memory: Memory::Heap,
            is_final: self.is_final,
            origin: self.identity(),
            lasting: Cell::new(ptr::null()),
            group: self.group.clone(),
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

    /// True when a child is not complete, or has not told its end.
    pub(crate) fn has_children(&self) -> bool {
        // ORDERING: Acquire - what the children did; pairs with `complete`.
        self.links.load(Acquire) >= CHILD
    }

    /// True when `self` was created by `ancestor` or by one of its descendants.
    pub(crate) fn descends_from(&self, ancestor: &Task) -> bool {
        let mut task = self;
        while task.depth > ancestor.depth {
            // SAFETY: - I1: ancestors of a task that is not complete are alive; depth > 0 has a
            // parent.
            task = unsafe { &*task.parent };
        }
        ptr::eq(task, ancestor)
    }

    /// The innermost group, if any.
    pub(crate) fn group(&self) -> Option<&TaskGroup> {
        // SAFETY: - null or a group that is open around the task's code.
        unsafe { self.group.get().as_ref() }
    }

    /// True when none of its children had dependences.
    #[inline]
    pub(crate) fn has_no_table(&self) -> bool {
        self.table.get().is_null()
    }

    /// The table of dependences among its children.
    #[expect(clippy::mut_from_ref, reason = "only the thread that runs the task touches its table")]
    pub(crate) fn table(&self) -> &mut Table<Explicit> {
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

/// A counted reference to an explicit task's memory.
pub(crate) struct TaskRef(NonNull<Explicit>);

impl TaskRef {
    pub(crate) fn new(task: &Explicit) -> Self {
        // ORDERING: Relaxed - the caller has a reference already.
        task.task.links.fetch_add(REFERENCE, Relaxed);
        Self(NonNull::from(task))
    }

    /// The task, which the reference keeps.
    pub(crate) fn task(&self) -> NonNull<Explicit> {
        self.0
    }
}

impl Deref for TaskRef {
    type Target = Explicit;

    fn deref(&self) -> &Explicit {
        // SAFETY: - the reference keeps the memory.
        unsafe { self.0.as_ref() }
    }
}

impl Ordered for Explicit {
    type Reference = TaskRef;

    fn node(&self) -> &Node<Self> {
        &self.node
    }

    fn refer(&self) -> TaskRef {
        TaskRef::new(self)
    }

    fn refer_to_fresh(&self) -> TaskRef {
        let links = &self.task.links;
        // ORDERING: Relaxed, both - no other thread knows the task; what publishes it publishes
        // this.
        links.store(links.load(Relaxed) + REFERENCE, Relaxed);
        TaskRef(NonNull::from(self))
    }
}
