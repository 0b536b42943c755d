//! What a construct asks for when it makes a task.

use super::Dependence;
use crate::body::Body;
use crate::settings::settings;
use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// What to create.
pub(crate) struct TaskRequest<'a> {
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

impl TaskRequest<'_> {
    /// Makes a task's own argument block.
    ///
    /// # Safety
    /// - `block` is fresh memory of the layout `self.block`, and `self.data` is what the compiled
    ///   code passed.
    pub(crate) unsafe fn fill(&self, block: *mut c_void) {
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

    /// What the `priority` clause comes to.
    #[inline]
    pub(crate) fn priority(&self) -> u32 {
        match u32::try_from(self.priority) {
            Ok(0) | Err(_) => 0,
            Ok(priority) => priority.min(settings().environment.max_task_priority),
        }
    }
}
