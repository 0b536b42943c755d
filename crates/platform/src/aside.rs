//! What the library does aside, between the program's own calls: it shows neither in `errno` nor as
//! a place where the program's thread may be cancelled.
//!
//! A region or barrier may stand between a program's failing call and its look at `errno`, and the
//! library reads files now and then. A region is no cancellation point in the original, and a
//! thread that is cancelled during such a read would leave the engine in mid-operation.

use std::marker::PhantomData;

use crate::errno;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// The C library's number, with glibc and musl.
const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;

/// Sets the calling thread's `errno` back to what it is now when dropped. For system calls made
/// directly, and what else cannot be cancelled. Costs two loads and a store.
///
/// ```
/// # use nanothreads_platform as platform;
/// use platform::aside::SavedErrno;
/// # nix::errno::Errno::EDOM.set();
/// let kept = SavedErrno::now();
/// assert!(std::fs::read("/no/such/file").is_err());
/// drop(kept);
/// assert_eq!(nix::errno::Errno::last(), nix::errno::Errno::EDOM);
/// ```
#[derive(Debug)]
#[must_use = "what is dropped at once keeps nothing"]
pub struct SavedErrno {
    errno: i32,
    /// It is the thread's.
    _stays: PhantomData<*const ()>,
}

impl SavedErrno {
    /// What it is now.
    pub fn now() -> Self {
        Self { errno: errno::last(), _stays: PhantomData }
    }
}

impl Drop for SavedErrno {
    fn drop(&mut self) {
        errno::set(self.errno);
    }
}

/// The same, and until it is dropped the calling thread is not cancelled: for what opens, reads,
/// writes or closes. A cancellation that comes meanwhile acts at the thread's next point, as one
/// that comes while it computes. Costs two exchanges of a word of its own.
#[derive(Debug)]
#[must_use = "what is dropped at once keeps nothing"]
pub struct Aside {
    cancelled_before: libc::c_int,
    /// Dropped last.
    _kept: SavedErrno,
}

impl Aside {
    /// From now on.
    pub fn begin() -> Self {
        let kept = SavedErrno::now();
        let mut before = 0;
        // SAFETY: - a place for the old state; the number is one of the two that there are.
        let _done = unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self { cancelled_before: before, _kept: kept }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let mut disabled = 0;
        // SAFETY: - the state that this thread had: `SavedErrno` stays on it.
        let _done = unsafe { pthread_setcancelstate(self.cancelled_before, &raw mut disabled) };
    }
}
