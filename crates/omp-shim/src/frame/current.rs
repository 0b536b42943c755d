//! The calling thread's frame.

use super::{Frame, root, word};

/// `enter` with the calling thread's frame, as with [`current`], at the end of a function of few
/// instructions: a thread's first call goes another way, so that all others save no registers and
/// move no stack pointer.
#[inline(always)]
pub(crate) fn with_current<A, R>(argument: A, enter: fn(&Frame, A) -> R) -> R {
    // SAFETY: - the word points to the innermost frame that is entered and not left, which is alive
    // until this call ends.
    match unsafe { word::get().as_ref() } {
        Some(frame) => enter(frame, argument),
        None => with_new(argument, enter),
    }
}

#[cold]
#[inline(never)]
fn with_new<A, R>(argument: A, enter: fn(&Frame, A) -> R) -> R {
    enter(root::create(), argument)
}

/// The calling thread's frame; a thread that never came here gets an initial one. Cost: two loads.
#[inline]
pub(crate) fn current<'a>() -> &'a Frame {
    let frame = word::get();
    if frame.is_null() {
        return root::create();
    }
    // SAFETY: - the word points to the innermost frame that is entered and not left, which is
    // alive.
    //         - the lifetime is bounded by the callers: entry points, which end before the frame
    //           is left.
    unsafe { &*frame }
}
