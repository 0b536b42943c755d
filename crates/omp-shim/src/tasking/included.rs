//! Tasks that their creator runs at once, on its stack: undeferred ones, final ones, and those of a
//! team that has enough. They cost no memory and no count, because they are complete before any
//! thread could ask for them.

use super::memory::release;
use crate::frame::Frame;
use crate::task::{Memory, Task, TaskRequest};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Runs a task on the creator's stack: it is complete before a thread could ask for it, so nothing
/// is counted.
pub(super) fn run_included(frame: &Frame, request: &TaskRequest<'_>) {
    let task = Task::below(frame.task(), Memory::Stack, request.is_final);
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
