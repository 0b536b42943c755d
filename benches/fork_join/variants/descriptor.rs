//! The work descriptor (F1): the function that encapsulates the work, and its argument.

/// What each thread is to call, with the argument and its own number.
pub(crate) type Work = unsafe fn(argument: *const (), id: usize);

/// On a line of its own: it is not where the signal is.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Descriptor {
    work: Option<Work>,
    argument: *const (),
}

// SAFETY: - `Pool::region`'s contract lets the argument be used on all threads.
unsafe impl Send for Descriptor {}
// SAFETY: - as above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// Without `work`: the worker is to end.
    pub(crate) fn new(work: Option<Work>, argument: *const ()) -> Self {
        Self { work, argument }
    }

    pub(crate) fn parts(&self) -> (Option<Work>, *const ()) {
        (self.work, self.argument)
    }
}
