//! Barriers, single, critical, atomic, cancellation.

use crate::body::{ReturnSlot, entry_of_a_barrier};
use crate::frame;
use crate::lock::SimpleLock;
use crate::sync::{self, ATOMIC, CRITICAL, CancelKind};
use std::ffi::{c_int, c_void};

entry_of_a_barrier! {
    /// `barrier`.
    GOMP_barrier, barrier_of
}

extern "C" fn barrier_of(returns: ReturnSlot) {
    sync::barrier_before(frame::current(), returns);
}

/// `barrier` in a region that may be cancelled; true = it was.
#[unsafe(no_mangle)]
extern "C" fn GOMP_barrier_cancel() -> bool {
    sync::cancellable_barrier(frame::current())
}

/// `single`; true = run it.
#[unsafe(no_mangle)]
extern "C" fn GOMP_single_start() -> bool {
    frame::with_current((), |frame, ()| sync::single(frame))
}

/// `single copyprivate`; null = run it, else what it hands round.
#[unsafe(no_mangle)]
extern "C" fn GOMP_single_copy_start() -> *mut c_void {
    sync::single_copy_start(frame::current())
}

/// The end of `single copyprivate` for the member that ran it.
#[unsafe(no_mangle)]
extern "C" fn GOMP_single_copy_end(data: *mut c_void) {
    sync::single_copy_end(frame::current(), data);
}

/// `critical`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_critical_start() {
    CRITICAL.take();
}

/// The end of `critical`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_critical_end() {
    CRITICAL.free();
}

/// `critical (name)`: the compiler's 8-byte word, zero at first, is the lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_critical_name_start(word: *mut *mut c_void) {
    // SAFETY: the word is a variable of the program, used for this only; a free lock is zero.
    unsafe { &*word.cast::<SimpleLock>() }.take();
}

/// The end of `critical (name)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_critical_name_end(word: *mut *mut c_void) {
    // SAFETY: as above.
    unsafe { &*word.cast::<SimpleLock>() }.free();
}

/// An update that the processor cannot do at once.
#[unsafe(no_mangle)]
extern "C" fn GOMP_atomic_start() {
    ATOMIC.take();
}

/// Its end.
#[unsafe(no_mangle)]
extern "C" fn GOMP_atomic_end() {
    ATOMIC.free();
}

/// The construct that the bits name: 1 parallel, 2 loop, 4 sections, 8 taskgroup.
fn construct(bits: c_int) -> CancelKind {
    if bits & 6 != 0 {
        CancelKind::Worksharing
    } else if bits & 8 != 0 {
        CancelKind::Taskgroup
    } else {
        CancelKind::Parallel
    }
}

/// `cancel` (when `really`) or a cancellation point; true = go to the construct's end.
#[unsafe(no_mangle)]
extern "C" fn GOMP_cancel(which: c_int, really: bool) -> bool {
    let frame = frame::current();
    if really {
        sync::cancel(frame, construct(which))
    } else {
        sync::is_cancelled(frame, construct(which))
    }
}

/// `cancellation point`; true = go to the construct's end.
#[unsafe(no_mangle)]
extern "C" fn GOMP_cancellation_point(which: c_int) -> bool {
    sync::is_cancelled(frame::current(), construct(which))
}
