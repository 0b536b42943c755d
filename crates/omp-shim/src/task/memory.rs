//! The memory of tasks: where it comes from (T1) and when it goes (T5).
//!
//! An explicit task is one allocation: the task, places for the edges of its dependences, and its
//! argument block.
//!
//! A task's memory goes when nothing of its links is left: no reference, and no child that is not
//! told to it. The second is not implied by the first: a child that is complete tells its parent a
//! little later (or much later: [`super::Tally`]), and when its own children end meanwhile, on
//! other threads, its memory goes first, and with it its reference to the parent.

use super::depend::{Edge, Node};
use super::included::lasting_task;
use super::{Explicit, Request, Task, pool, priority};
use crate::frame::Frame;
use crate::tls;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Where a task's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// A member's frame: an implicit task.
    Frame,
    /// The stack of the thread that creates it: an included task, which nobody else has heard of.
    Stack,
    /// The heap, because it turned out to have children: see `included`.
    Heap,
    /// An [`Explicit`].
    Explicit,
}

/// One reference to a task's memory, in its links.
pub(super) const REFERENCE: u64 = 1;
/// One child that is not complete, or whose end is not told yet, in its links.
pub(super) const CHILD: u64 = 1 << 32;

/// Makes an explicit task and counts it (T1).
pub(super) fn allocate<'a>(frame: &Frame, request: &Request<'_>) -> &'a Explicit {
    let parent = lasting_task(frame);
    let (layout, edges, offset) = layout(request).unwrap_or_else(|| {
        crate::message::fatal(&format!(
            "a task's argument block of {} bytes is too large",
            request.block.size()
        ))
    });
    let team = frame.team();
    let memory = if pool::fits(layout) { team.tasks.take_block(frame.id) } else { large(layout) };
    // SAFETY: - `edges` and `offset` lie in the allocation.
    let (edges, block): (*mut Edge, *mut c_void) =
        unsafe { (memory.add(edges).cast(), memory.add(offset).cast()) };
    let task = memory.cast::<Explicit>();
    let fresh = Explicit {
        task: Task {
            icvs: parent.icvs.clone(),
            parent,
            depth: parent.depth + 1,
            memory: Memory::Explicit,
            is_final: request.is_final || parent.is_final,
            origin: 0,
            lasting: Cell::new(ptr::null()),
            group: parent.group.clone(),
            table: Cell::new(ptr::null_mut()),
            links: AtomicU64::new(REFERENCE),
        },
        node: Node::new(
            team,
            !request.dependences.is_empty() || request.event.is_some(),
            edges,
            request.dependences.len(),
        ),
        body: request.body,
        data: block,
        layout,
        counted_by: parent.group.get(),
        event: AtomicU8::new(0),
        detached: request.event.is_some(),
        has_objects: request.copy.is_some(),
        priority: priority(request),
    };
    // SAFETY: - fresh memory of the right layout.
    unsafe { task.write(fresh) };
    if let Some(place) = request.event {
        // SAFETY: - the compiled code passes a place for the handle, and begins the argument block
        // with it.
        unsafe {
            place.write(task.cast());
            if !request.data.is_null() {
                request.data.cast::<*mut c_void>().write(task.cast());
            }
        }
    }
    // SAFETY: - fresh memory behind the task, of the request's layout.
    unsafe { request.fill(block) };
    // ORDERING: Relaxed - queues and tables publish the task; the counts only have to be up before
    // that.
    parent.links.fetch_add(CHILD | REFERENCE, Relaxed);
    if let Some(group) = parent.group() {
        group.count_created();
    }
    team.tasks.count_created(frame.id);
    // SAFETY: - just written; alive until it is complete.
    unsafe { &*task }
}

/// The layout of a task, and where its edges and its block begin. None when it is larger than
/// memory can be.
fn layout(request: &Request<'_>) -> Option<(Layout, usize, usize)> {
    let edges = Layout::array::<Edge>(request.dependences.len()).ok()?;
    let (layout, edges) = Layout::new::<Explicit>().extend(edges).ok()?;
    let (layout, block) = layout.extend(request.block).ok()?;
    Some((layout, edges, block))
}

#[cold]
fn large(layout: Layout) -> *mut u8 {
    // SAFETY: - the layout is not empty.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}

/// Frees an explicit task.
///
/// # Safety
/// - Made by [`allocate`], and nobody refers to it any more.
unsafe fn free(task: *mut Explicit) {
    // SAFETY: - caller's contract.
    let layout = unsafe { (*task).layout };
    // SAFETY: - as above.
    unsafe { ptr::drop_in_place(task) };
    let memory: *mut u8 = task.cast();
    if !pool::fits(layout) {
        // SAFETY: - made by `large` with this layout.
        return unsafe { dealloc(memory, layout) };
    }
    // SAFETY: - null or the frame of the region that the thread works in.
    match unsafe { tls::get().as_ref() } {
        // SAFETY: - a block, and nobody's any more.
        Some(frame) => unsafe { frame.team().tasks.give_block(frame.id, memory) },
        // A thread that has nothing to do with OpenMP has fulfilled an event.
        // SAFETY: - as above.
        None => unsafe { pool::free(memory) },
    }
}

/// A counted reference to an explicit task's memory.
pub(super) struct TaskRef(NonNull<Explicit>);

impl TaskRef {
    pub(super) fn new(task: &Explicit) -> Self {
        // ORDERING: Relaxed - the caller has a reference already.
        task.task.links.fetch_add(REFERENCE, Relaxed);
        Self(NonNull::from(task))
    }

    /// A reference to a task that its creator has shown to nobody yet.
    pub(super) fn to_fresh(task: &Explicit) -> Self {
        let links = &task.task.links;
        // ORDERING: Relaxed, both - nobody else knows the task; what publishes it publishes this.
        links.store(links.load(Relaxed) + REFERENCE, Relaxed);
        Self(NonNull::from(task))
    }

    pub(super) fn get(&self) -> &Explicit {
        // SAFETY: - the reference keeps the memory.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        // SAFETY: - this reference was counted when it was made.
        unsafe { release(&raw const (*self.0.as_ptr()).task) };
    }
}

/// Gives the reference back that a task was made with; true when its memory is gone, and the caller
/// owns the reference to its parent.
///
/// # Safety
/// - The task is complete but for the counts of its parent, group and team.
#[inline]
pub(super) unsafe fn end(task: &Explicit) -> bool {
    // ORDERING: Acquire - what all others did with it, who are gone: most tasks have no children
    // and no successors.
    if task.task.links.load(Acquire) == REFERENCE {
        // SAFETY: - this was the only reference, and it is the caller's.
        unsafe { free(ptr::from_ref(task).cast_mut()) };
        return true;
    }
    // SAFETY: - caller's contract.
    unsafe { let_go(&raw const task.task, REFERENCE) }.0
}

/// Gives one reference back; frees the task, and then its ancestors, when it was the last (T5).
///
/// # Safety
/// - The caller owns one reference to `task`.
pub(super) unsafe fn release(mut task: *const Task) {
    // SAFETY: - the caller's reference, then that of the child that was just freed.
    while let (true, before) = unsafe { let_go(task, REFERENCE) } {
        if before.parent.is_null() {
            return;
        }
        task = before.parent;
    }
}

/// What a task was before it was let go.
pub(super) struct Before {
    pub(super) links: u64,
    pub(super) parent: *const Task,
}

/// Subtracts `share` of a task's links; frees its memory, and says so, when that was the last of
/// them. Then the caller owns the reference to its parent.
///
/// # Safety
/// - The caller owns what it subtracts.
#[inline]
pub(super) unsafe fn let_go(task: *const Task, share: u64) -> (bool, Before) {
    // SAFETY: - what the caller owns keeps it alive.
    let this = unsafe { &*task };
    let (parent, memory) = (this.parent, this.memory);
    // ORDERING: AcqRel - the one who frees sees what all others did with it; `has_children` sees
    // what the child did.
    let links = this.links.fetch_sub(share, AcqRel);
    let is_last = links == share;
    if is_last {
        match memory {
            // It has no memory of its own, nor a reference to its parent.
            Memory::Frame | Memory::Stack => return (false, Before { links, parent }),
            // SAFETY: - made by `promote` with `Box`, and nobody refers to it any more.
            Memory::Heap => drop(unsafe { Box::from_raw(task.cast_mut()) }),
            // SAFETY: - explicit tasks start with their `Task` (repr(C)), and nobody refers to this
            // one any more.
            Memory::Explicit => unsafe { free(task.cast::<Explicit>().cast_mut()) },
        }
    }
    (is_last, Before { links, parent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Bind;
    use crate::icv::Icvs;
    use crate::schedule::{Kind, Schedule};

    /// A task on the heap with one child that is complete, has children of its own, and has not
    /// told its parent.
    fn parent() -> *const Task {
        let icvs = Icvs {
            schedule: Schedule { kind: Kind::Static, chunk: 0, monotonic: false },
            num_threads: 2,
            thread_limit: 2,
            max_active_levels: 1,
            default_device: 0,
            allocator: 1,
            dynamic: false,
            bind: Bind::False,
        };
        let mut parent = Task::implicit(icvs, ptr::null());
        parent.memory = Memory::Heap;
        parent.links = AtomicU64::new(REFERENCE + CHILD + REFERENCE);
        Box::into_raw(Box::new(parent))
    }

    #[test]
    fn a_parent_stays_until_its_child_has_told_it_though_all_references_are_gone() {
        let parent = parent();
        // SAFETY: - its own reference, that of the child, whose last child ends elsewhere, and the
        //           count of the child, in the order in which they are given back.
        unsafe {
            assert!(!let_go(parent, REFERENCE).0);
            assert!(!let_go(parent, REFERENCE).0, "the child still has to tell it");
            assert!(let_go(parent, CHILD).0);
        }
    }

    #[test]
    fn a_parent_goes_with_the_last_reference_when_it_was_told_before() {
        let parent = parent();
        // SAFETY: - as above.
        unsafe {
            let (is_gone, before) = let_go(parent, CHILD);
            assert!(!is_gone && before.links / CHILD == 1);
            assert!(!let_go(parent, REFERENCE).0);
            assert!(let_go(parent, REFERENCE).0);
        }
    }
}
