//! The memory of tasks: where it comes from (T1) and when it goes (T5).
//!
//! An explicit task is one allocation: the task, places for the edges of its dependences, and its
//! argument block.
//!
//! A task's memory goes when nothing of its links is left: no reference, and no child that is not
//! told to it. The second is not implied by the first: a child that is complete tells its parent a
//! little later (or much later: [`crate::task::Tally`]), and when its own children end meanwhile,
//! on other threads, its memory goes first, and with it its reference to the parent.

use crate::frame::{self, Frame};
use crate::process::message;
use crate::task::depend::{Edge, Node};
use crate::task::{CHILD, Explicit, Memory, REFERENCE, Task, TaskRef, TaskRequest, pool};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{
    AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Makes an explicit task and counts it (T1).
pub(super) fn allocate<'a>(frame: &Frame, request: &TaskRequest<'_>) -> &'a Explicit {
    let parent = lasting_task(frame);
    let (layout, edges, offset) = layout(request).unwrap_or_else(|| {
        message::fatal(&format!(
            "a task's argument block of {} bytes is too large",
            request.block.size()
        ))
    });
    let team = frame.team();
    let memory = if pool::fits(layout) { team.tasks.take_block(frame.id) } else { large(layout) };
    // SAFETY: - `edges` and `offset` lie in the allocation.
    let (edges, block): (*mut Edge<Explicit>, *mut c_void) =
        unsafe { (memory.add(edges).cast(), memory.add(offset).cast()) };
    let task = memory.cast::<Explicit>();
    let fresh = Explicit {
        task: Task::below(parent, Memory::Explicit, request.is_final),
        node: Node::new(
            !request.dependences.is_empty() || request.event.is_some(),
            edges,
            request.dependences.len(),
        ),
        team: ptr::from_ref(team).cast(),
        body: request.body,
        data: block,
        layout,
        counted_by: parent.group.get(),
        event: AtomicU8::new(0),
        detached: request.event.is_some(),
        has_objects: request.copy.is_some(),
        priority: request.priority(),
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
    // SAFETY: - fresh memory after the task, of the request's layout.
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

/// The current task as the parent of a child that may outlive it.
fn lasting_task(frame: &Frame) -> &Task {
    let task = frame.task();
    if task.memory != Memory::Stack {
        return task;
    }
    frame.swap_task(promote(task));
    frame.task()
}

/// Moves an included task to the heap, before it gets its first child; its included ancestors, too.
#[cold]
fn promote(task: &Task) -> *const Task {
    if task.memory != Memory::Stack {
        return task;
    }
    if !task.lasting.get().is_null() {
        return task.lasting.get();
    }
    // SAFETY: - the parent's code waits for this task's.
    let parent = promote(unsafe { &*task.parent });
    let lasting = Box::into_raw(Box::new(task.moved(parent)));
    // SAFETY: - it is alive, as above; this reference keeps it for the descendants' sake (I1).
    // ORDERING: Relaxed - the parent's own thread.
    unsafe { &*parent }.links.fetch_add(REFERENCE, Relaxed);
    task.lasting.set(lasting);
    lasting
}

/// The layout of a task, and where its edges and its block begin. None when it is larger than
/// memory can be.
fn layout(request: &TaskRequest<'_>) -> Option<(Layout, usize, usize)> {
    let edges = Layout::array::<Edge<Explicit>>(request.dependences.len()).ok()?;
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
/// - Made by [`allocate`], and nothing refers to it any more.
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
    match unsafe { frame::innermost().as_ref() } {
        // SAFETY: - a block, and no thread uses it any more.
        Some(frame) => unsafe { frame.team().tasks.give_block(frame.id, memory) },
        // A thread that has nothing to do with OpenMP has fulfilled an event.
        // SAFETY: - as above.
        None => unsafe { pool::free(memory) },
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        // SAFETY: - this reference was counted when it was made.
        unsafe { release(&raw const (*self.task().as_ptr()).task) };
    }
}

/// Gives the reference back that a task was made with; true when its memory is gone, and the caller
/// owns the reference to its parent.
///
/// # Safety
/// - The task is complete but for the counts of its parent, group and team.
#[inline]
pub(super) unsafe fn end(task: &Explicit) -> bool {
    // ORDERING: Acquire - what all others did with it, which are gone: most tasks have no children
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
    // ORDERING: AcqRel - the thread that frees it sees what all others did with it; `has_children`
    // sees what the child did.
    let links = this.links.fetch_sub(share, AcqRel);
    let is_last = links == share;
    if is_last {
        match memory {
            // It has no memory of its own, nor a reference to its parent.
            Memory::Frame | Memory::Stack => return (false, Before { links, parent }),
            // SAFETY: - made by `promote` with `Box`, and nothing refers to it any more.
            Memory::Heap => drop(unsafe { Box::from_raw(task.cast_mut()) }),
            // SAFETY: - explicit tasks start with their `Task` (repr(C)), and nothing refers to
            // this one any more.
            Memory::Explicit => unsafe { free(task.cast::<Explicit>().cast_mut()) },
        }
    }
    (is_last, Before { links, parent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Kind, Schedule};
    use crate::settings::{Bind, Dynamic, Icvs};
    use std::sync::atomic::AtomicU64;

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
            dynamic: Dynamic::Off,
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
