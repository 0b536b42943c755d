//! The state of the calling thread: where it is found, made, handed on, and given back.

use super::state::Local;
use crate::process::per_process::{PerProcess, State};
use crate::program::program;
use crate::workers::worker::Worker;
use platform::affinity;
use platform::pthread::EndOfThread;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    /// Plain word, no destructor: the hot path is one load.
    static CURRENT: Cell<*const Local> = const { Cell::new(ptr::null()) };
}

/// What gives a program thread's workers back when it ends. After the destructors of
/// thread-locals, for these may fork; should something later fork once more, it gets a fresh state,
/// and this is called again. `None`: the C library has no key left, and the states of threads that
/// end are leaked.
struct End(Option<EndOfThread>);

static END: PerProcess<End> = PerProcess::new(|| {
    END.renew();
    forget_after_fork();
});

impl State for End {
    fn begin() -> Self {
        Self(EndOfThread::new(retire).ok())
    }

    /// The key is the child's as well.
    fn in_child(&self) -> Self {
        Self(self.0)
    }
}

impl Drop for End {
    /// Another thread was first.
    fn drop(&mut self) {
        if let Some(key) = self.0 {
            key.discard();
        }
    }
}

/// # Safety
/// - `local` was leaked by `create` for the calling thread, which ends.
unsafe extern "C" fn retire(local: *mut c_void) {
    // SAFETY: - caller's contract.
    let ending = unsafe { &*local.cast::<Local>() };
    // Still in place while a sizer is told.
    ending.claims_end();
    let is_master = ending.is_in_region();
    CURRENT.set(ptr::null());
    if is_master {
        // It left its own part of a region for good (`pthread_exit`, a cancellation), whose members
        // may be at work. They, and what they look at, are leaked.
        return;
    }
    // SAFETY: - caller's contract; no other code refers to it any more.
    let local = unsafe { Box::from_raw(local.cast::<Local>()) };
    local.retire();
}

/// The calling thread's state. Cost: one thread-local load.
#[inline]
pub fn local() -> &'static Local {
    let local = CURRENT.get();
    if local.is_null() {
        return create();
    }
    // SAFETY: - set by `create` or `adopt` on this thread; freed only at the thread's end.
    unsafe { &*local }
}

/// The worker that the calling thread is. Makes no state for a thread that has none, so
/// that it does not allocate.
#[inline]
pub(crate) fn own_worker() -> Option<&'static Worker> {
    existing()?.worker()
}

/// The calling thread's state, if it has one.
#[inline]
pub(crate) fn existing() -> Option<&'static Local> {
    // SAFETY: - as in `local`.
    unsafe { CURRENT.get().as_ref() }
}

#[cold]
fn create() -> &'static Local {
    let local = Box::into_raw(Box::new(Local::new(false)));
    CURRENT.set(local);
    if let Some(at_end) = END.get().0 {
        // SAFETY: - leaked just now, for this thread; regions end before their thread does.
        // Out of memory: the state is leaked.
        let _ = unsafe { at_end.set(local) };
    }
    // SAFETY: - just leaked; freed only at the thread's end.
    unsafe { &*local }
}

/// Makes the calling thread worker `worker`, for ever.
pub(crate) fn adopt(worker: &'static Worker) -> &'static Local {
    let local: &'static Local = Box::leak(Box::new(Local::new(true)));
    // A child forgets what the state has.
    END.get();
    local.waiter().sitter().is(Some(worker));
    CURRENT.set(local);
    local
}

/// The calling thread, a worker that ends, has no state any more; another one takes it
/// over.
pub(crate) fn let_go() {
    CURRENT.set(ptr::null());
}

/// The calling thread goes on with `local`, which its thread has let go.
pub(crate) fn take_over(local: &'static Local) {
    CURRENT.set(local);
}

/// The forking thread's reservations are the parent's: the child forgets them. What stood in the
/// parent's memory stays allocated, since other threads of the parent may have been writing it.
/// A worker becomes a thread of the program.
fn forget_after_fork() {
    let Some(local) = existing() else { return };
    if local.forget_after_fork() {
        // A refusal means that the processors went offline: the child runs where it can.
        let _ = affinity::set_affinity(None, program().mask());
    }
}

/// As [`Local::ask`] by the calling thread, or nothing where that is what is being done already:
/// what is around questions to the program's sizer.
pub(crate) fn ask(question: &mut dyn FnMut()) {
    local().ask((), question);
}
