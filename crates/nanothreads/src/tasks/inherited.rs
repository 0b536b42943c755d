//! What tasks have from the group around them: settings, and where they are found.
//!
//! # Invariants
//! - I1 The settings stand on the frame of the call that runs the group, which waits for all tasks
//!   below it: whatever runs there, or holds a share of a node there, finds them.

use std::borrow::Cow;
use std::ptr;

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) stack_size: usize,
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) priority: i32,
}

/// A pointer to the settings of the group around; null: none were made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited(pub(crate) *const Settings);

// SAFETY: - settings are not written once the group runs.
unsafe impl Send for Inherited {}
// SAFETY: - as above.
unsafe impl Sync for Inherited {}

impl Default for Inherited {
    fn default() -> Self {
        Self::NONE
    }
}

impl Inherited {
    pub(crate) const NONE: Self = Self(ptr::null());

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// The settings.
    ///
    /// # Safety
    /// - I1: the caller runs below the group, or holds a share of a node there, as long as it uses
    ///   the answer.
    pub(crate) unsafe fn get<'a>(self) -> Option<&'a Settings> {
        // SAFETY: - caller's contract.
        unsafe { self.0.as_ref() }
    }
}
