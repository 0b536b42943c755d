//! What ThreadSanitizer is told of stacks: on which one a thread is. Nothing in other builds.
//!
//! The sanitizer keeps a list of each thread's open calls, of 65,536 places, and does not look
//! whether it is full. A nano-thread that is suspended has returned from none of its calls. Untold,
//! the sanitizer keeps those of all nano-threads that are suspended on a thread in that thread's
//! list: two thousand of them overran it, and what lay after it in memory. So each stack is a
//! *fiber* of the sanitizer's, which has a list of its own.
//!
//! # Protocol
//! A change of fibers and the change of stacks are two steps. Calls that are entered between them
//! on one side are left on the other one: numbers that only the compiler knows, and that differ by
//! direction. So each stack has a second fiber, for the way: a thread that goes to the stack goes
//! to `way` (W1), changes stacks, goes on to `own` (W2), and comes back through `way` (W3, W4).
//! What one passage enters in the list of `way` the next one of the same stack leaves. W1 and W4
//! are in one function, and so are W2 and W3 of a stack's main function, and W3 and W2 of a
//! suspension: all other lists are as they were. The function that a coroutine begins with never
//! returns, and stays in the list of `way`: after `MOST_ENDS` of them the stack is not used again.
//!
//! The functions here are part of their callers: a call of their own would be entered in one list
//! and left in another.

pub(crate) use told::TsanFibers;

#[cfg(tsan)]
mod told {
    use std::ffi::c_void;

    /// Coroutines that a stack is used for: far fewer than a list has places.
    const MOST_ENDS: u32 = 4096;

    /// Two fibers of the sanitizer's, for one stack.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct TsanFibers {
        own: *mut c_void,
        way: *mut c_void,
        /// Coroutines that have ended on the stack.
        ends: u32,
    }

    /// The fiber that the thread came from.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Origin(*mut c_void);

    // The sanitizer's interface (`sanitizer/tsan_interface.h`). With the flags 0 a change of fibers
    // orders what is before it before what is after it, as one kernel thread does.
    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: u32) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
    }

    impl TsanFibers {
        /// Of a new stack.
        pub(crate) fn new() -> Self {
            // SAFETY: - any thread may call it.
            let fiber = || unsafe { __tsan_create_fiber(0) };
            Self { own: fiber(), way: fiber(), ends: 0 }
        }

        /// A coroutine on the stack has ended. False: it was the last one.
        pub(crate) fn may_go_on(&mut self) -> bool {
            self.ends += 1;
            self.ends < MOST_ENDS
        }

        /// The stack is gone.
        ///
        /// # Safety
        /// - Nothing is on the stack, or will be.
        pub(crate) unsafe fn destroy(self) {
            for fiber in [self.own, self.way] {
                // SAFETY: - made by `new`, and not current on any thread (caller's contract).
                unsafe { __tsan_destroy_fiber(fiber) };
            }
        }

        /// W1: the caller is about to go to the stack.
        ///
        /// # Safety
        /// - It goes there, and calls `back` in the same function when it has come back.
        #[inline(always)]
        pub(crate) unsafe fn go(self) -> Origin {
            // SAFETY: - `way` is live, and current nowhere: the stack is used by one thread at a
            // time (caller's contract).
            unsafe {
                let origin = __tsan_get_current_fiber();
                __tsan_switch_to_fiber(self.way, 0);
                Origin(origin)
            }
        }

        /// W2: the caller has come to the stack.
        ///
        /// # Safety
        /// - It has, by `go`.
        #[inline(always)]
        pub(crate) unsafe fn arrive(self) {
            // SAFETY: - live, and current nowhere (caller's contract).
            unsafe { __tsan_switch_to_fiber(self.own, 0) };
        }

        /// W3: the caller is about to leave the stack.
        ///
        /// # Safety
        /// - It is on it, and leaves it.
        #[inline(always)]
        pub(crate) unsafe fn leave(self) {
            // SAFETY: - as in `arrive`.
            unsafe { __tsan_switch_to_fiber(self.way, 0) };
        }

        /// W4: the caller has come back from the stack.
        ///
        /// # Safety
        /// - It has, and `origin` is what `go` returned.
        #[inline(always)]
        pub(crate) unsafe fn back(self, origin: Origin) {
            // SAFETY: - that of the calling thread's own stack, or of one that it is on (caller's
            // contract).
            unsafe { __tsan_switch_to_fiber(origin.0, 0) };
        }
    }
}

#[cfg(not(tsan))]
mod told {
    /// Nothing has to be told.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct TsanFibers;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Origin;

    impl TsanFibers {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn may_go_on(&mut self) -> bool {
            true
        }

        /// # Safety
        /// - As for the sanitizer; so are the others.
        pub(crate) unsafe fn destroy(self) {}

        /// # Safety
        /// - As above.
        #[inline(always)]
        pub(crate) unsafe fn go(self) -> Origin {
            Origin
        }

        /// # Safety
        /// - As above.
        #[inline(always)]
        pub(crate) unsafe fn arrive(self) {}

        /// # Safety
        /// - As above.
        #[inline(always)]
        pub(crate) unsafe fn leave(self) {}

        /// # Safety
        /// - As above.
        #[inline(always)]
        pub(crate) unsafe fn back(self, _: Origin) {}
    }
}
