//! Threads that the engine did not create, made by the C library.
//!
//! Not by `std::thread`: in a program of Rust each of its threads takes a lock of the standard
//! library when it starts and when it ends, for the report of stack overflows. A child that is
//! forked at that moment has the lock taken for ever, and its first `std::thread` waits for it. The
//! programs of this test fork at any moment, and their children start threads.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

type Payload = Box<dyn Any + Send>;
type Body<'e> = Box<dyn FnOnce() + Send + 'e>;

/// Threads of one [`scope`].
pub(crate) struct Outside<'e> {
    handles: Mutex<Vec<libc::pthread_t>>,
    panic: Arc<Mutex<Option<Payload>>>,
    /// What the threads borrow, not longer and not shorter.
    borrowed: PhantomData<Cell<&'e ()>>,
}

// SAFETY: - the cell stands for a lifetime only.
unsafe impl Sync for Outside<'_> {}

impl<'e> Outside<'e> {
    /// Starts a thread that runs `body`.
    pub(crate) fn spawn(&self, body: impl FnOnce() + Send + 'e) {
        extern "C" fn run(body: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: - made by `Box::into_raw` below, for this thread alone.
            let body = unsafe { Box::from_raw(body.cast::<Body<'_>>()) };
            body();
            std::ptr::null_mut()
        }
        let panic = Arc::clone(&self.panic);
        let body: Box<Body<'e>> = Box::new(Box::new(move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
                *panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
            }
        }));
        let mut handle = MaybeUninit::uninit();
        // SAFETY: - `handle` is written before it is read; the thread owns its body, whose borrows
        //           last until `scope` has joined the thread.
        let handle = unsafe {
            let error = libc::pthread_create(
                handle.as_mut_ptr(),
                std::ptr::null(),
                run,
                Box::into_raw(body).cast(),
            );
            assert_eq!(error, 0, "pthread_create");
            handle.assume_init()
        };
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    fn join(&self) {
        let handles =
            std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in handles {
            // SAFETY: - the thread was made above and is joined once.
            let error = unsafe { libc::pthread_join(handle, std::ptr::null_mut()) };
            assert_eq!(error, 0, "pthread_join");
        }
    }
}

/// Runs `body`, which may start threads that borrow, and joins them. A panic of `body` or of one of
/// them comes out.
pub(crate) fn scope<'e, R>(body: impl FnOnce(&Outside<'e>) -> R) -> R {
    let outside =
        Outside { handles: Mutex::default(), panic: Arc::default(), borrowed: PhantomData };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&outside)));
    outside.join();
    if let Some(payload) = outside.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(payload);
    }
    outcome.unwrap_or_else(|payload| resume_unwind(payload))
}
