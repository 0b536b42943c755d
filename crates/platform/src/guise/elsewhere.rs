//! Processors whose thread pointer is not exchanged here: no thread takes another's guise.

use std::ffi::c_void;

/// As on x86-64.
pub const ROOM: usize = 0;

/// Never made.
#[derive(Debug, Default)]
pub struct Guise(());

/// Left alone.
#[derive(Clone, Copy, Debug)]
pub struct Signals(());

impl Signals {
    /// Does nothing.
    pub fn block() -> Self {
        Self(())
    }

    /// Does nothing.
    pub fn restore(self) {}
}

/// Never.
pub fn is_possible() -> bool {
    false
}

impl Guise {
    /// # Safety
    /// - [`is_possible`].
    pub unsafe fn read(&mut self) {}

    /// # Safety
    /// - It was read, and run in.
    pub unsafe fn take_over(&self) {}

    /// # Safety
    /// - It was read.
    pub unsafe fn is_foreign(&self) -> bool {
        true
    }

    /// # Safety
    /// - It is not foreign.
    pub unsafe fn begin(_this: *mut Self, _part: unsafe extern "C" fn(*mut c_void), _argument: *mut c_void) {
        unreachable!("nobody's guise is taken where that is not possible");
    }

    /// # Safety
    /// - There is a suspended part.
    pub unsafe fn resume(_this: *mut Self) {
        unreachable!("no part begins");
    }

    /// # Safety
    /// - The caller is in a part.
    pub unsafe fn suspend(_this: *mut Self) {
        unreachable!("no part begins");
    }

    /// Never.
    pub fn holds(&self, _place: *const u8, _size: usize) -> bool {
        false
    }

    /// Never.
    pub fn is_suspended(&self) -> bool {
        false
    }
}
