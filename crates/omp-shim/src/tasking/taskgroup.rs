//! The taskgroup construct: its group is opened, waited for and closed.

use super::wait::wait_running;
use crate::frame::Frame;
use crate::task::new_group;
use std::ptr;

/// Opens a group around what the current task creates from now on.
pub(crate) fn open_group(frame: &Frame) {
    let task = frame.task();
    task.group.set(Box::into_raw(new_group(task.group.get())));
}

/// Waits for the tasks of the innermost group and closes it.
pub(crate) fn close_group(frame: &Frame) {
    let task = frame.task();
    let Some(group) = task.group() else { return };
    wait_running(frame, || group.is_done());
    task.group.set(group.outer);
    // SAFETY: - made by `open_group` of the same task; no task is counted by it any more.
    drop(unsafe { Box::from_raw(ptr::from_ref(group).cast_mut()) });
}
