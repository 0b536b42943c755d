//! Children of a fork that go on where only their parent can.
//!
//! A child has one thread, the one that forked. What its parent's other threads hold, wait for or
//! would do is not there: a child that needs it would wait for ever. Where a caller can be told, it
//! is told by a panic; elsewhere the child is ended here, with a message.

use crate::process::{self, Born};
use platform::lock::Once;
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::FromRawFd;

/// What a library on the engine forgets in a child.
static LIBRARY: Once<fn()> = Once::new();

/// Has `forget` called in the forking thread of each child from now on, when the child has its own
/// state. For one library in the process: a second one is not heard.
#[inline]
pub fn on_child(forget: fn()) {
    if LIBRARY.get().is_none() && LIBRARY.set(forget).is_ok() {
        process::at_child(forget);
    }
}

/// What other threads write until a region is joined. In a child that is forked inside the region
/// they do not exist, and may have been in the middle of a write when its copy was made: there it
/// is leaked, neither taken nor dropped.
pub struct UntilJoin<T> {
    value: ManuallyDrop<T>,
    born: Born,
}

impl<T> UntilJoin<T> {
    /// Before the region.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), born: Born::now() }
    }

    /// True in a child that was forked since.
    pub fn is_parents(&self) -> bool {
        self.born.is_parents()
    }

    /// The value, after the join; none in a child.
    pub fn after_join(self) -> Option<T> {
        if self.is_parents() {
            return None;
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: - taken once: `this` is never dropped.
        Some(unsafe { ManuallyDrop::take(&mut this.value) })
    }
}

impl<T> Deref for UntilJoin<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for UntilJoin<T> {
    fn drop(&mut self) {
        if !self.is_parents() {
            // SAFETY: - not taken (`after_join` forgets what it takes from), and not used any more.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Ends the process, the child of a fork, with a report of what it was forked in and of what it
/// cannot have.
#[cold]
pub fn end_child(report: &str) -> ! {
    // SAFETY: - the descriptor is only borrowed: never closed. If it is not open, the write fails.
    let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
    // Past the lock of `std::io::stderr`, which a thread of the parent may have held. A failure
    // cannot be reported anywhere.
    let _ = stderr.write_all(format!("nanos: {report}. The child ends\n").as_bytes());
    std::process::abort();
}

/// In the child of a worker whose part is over: its master is a thread of the parent.
#[cold]
pub fn end_child_of_worker() -> ! {
    end_child(
        "this process was forked in a worker's part of a region, or in work that was offered to a \
         worker, and goes on after it, where its master, a thread of its parent, would be; a \
         forked child must end, or exec, before it leaves the part that it was forked in",
    )
}
