//! Tasks that their creator runs at once, on its stack: undeferred ones, final ones, and those of a
//! team that has enough. They cost no memory and no count, because they are complete before anybody
//! could ask for them.

use super::memory::{Memory, REFERENCE, release};
use super::{Request, Task};
use crate::frame::Frame;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs a task on the creator's stack: it is complete before anybody could ask for it, so nothing
/// is counted.
pub(super) fn run_included(frame: &Frame, request: &Request<'_>) {
    let task = Task::included(frame.task(), request.is_final);
    let before = frame.swap_task(&raw const task);
    // SAFETY: - the compiled code's body with its argument block, once.
    let run = |data| unsafe { (request.body)(data) };
    if request.copy.is_none() && request.bounds.is_none() {
        run(request.data);
    } else {
        with_block(request.block, |block| {
            // SAFETY: - fresh memory of the request's layout.
            unsafe { request.fill(block) };
            run(block);
        });
    }
    resume(frame, before);
    let lasting = task.lasting.get();
    if !lasting.is_null() {
        // SAFETY: - `promote` made it, with one reference for its running code, which has ended.
        unsafe {
            (*lasting).drop_table();
            release(lasting);
        }
    }
}

/// Makes `task` the current one again, in the form that it has now.
pub(super) fn resume(frame: &Frame, task: *const Task) {
    // SAFETY: - the caller's interrupted task: its code goes on after this.
    let lasting = unsafe { &*task }.lasting.get();
    frame.swap_task(if lasting.is_null() { task } else { lasting });
}

/// Gives `body` a block of this layout: on the stack, where it is small.
pub(crate) fn with_block(layout: Layout, body: impl FnOnce(*mut c_void)) {
    let mut small = [MaybeUninit::<u128>::uninit(); 16];
    if layout.size() <= size_of_val(&small) && layout.align() <= align_of::<u128>() {
        return body(small.as_mut_ptr().cast());
    }
    // SAFETY: - the layout is larger than nothing.
    let block = unsafe { alloc(layout) };
    if block.is_null() {
        handle_alloc_error(layout);
    }
    body(block.cast());
    // SAFETY: - allocated above.
    unsafe { dealloc(block, layout) };
}

/// The current task as the parent of a child that may outlive it.
pub(super) fn lasting_task(frame: &Frame) -> &Task {
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
    let lasting = Box::into_raw(Box::new(Task {
        icvs: task.icvs.clone(),
        parent,
        depth: task.depth,
        memory: Memory::Heap,
        is_final: task.is_final,
        origin: task.identity(),
        lasting: Cell::new(ptr::null()),
        group: task.group.clone(),
        table: Cell::new(ptr::null_mut()),
        links: AtomicU64::new(REFERENCE),
    }));
    // SAFETY: - it is alive, as above; this reference keeps it for the descendants' sake (I1).
    // ORDERING: Relaxed - the parent's own thread.
    unsafe { &*parent }.links.fetch_add(REFERENCE, Relaxed);
    task.lasting.set(lasting);
    lasting
}
