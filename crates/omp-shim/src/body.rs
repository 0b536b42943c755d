//! The body that a compiler makes of a region or a task: how a region's is called, and how its last
//! barrier is told, where the compiler made that the body's tail.
//!
//! # The last barrier
//! A body that ends with a barrier jumps to it instead of calling it, and the barrier returns to
//! the caller of the body: this library. After such a barrier a member does nothing but end its
//! part of the region, and the join waits for all members anyway. So in a team that takes turns on
//! its processors a member other than 0 arrives there and does not wait
//! ([`Barrier::leave`](engine::barrier::Barrier::leave)), which spares it a turn and the others
//! one.
//!
//! gcc leaves such a barrier after a loop with a `lastprivate` variable that is a construct of its
//! own in the region, as those of Cython are: 7,900 of the 9,500 regions of scikit-learn's
//! HistGradientBoosting end with one (34,800 changes of the processor without this, 19,000 with it,
//! with two threads on one processor).
//!
//! # How it is told
//! [`call`] notes where on the stack the return address of the body stands. The entry points of
//! barriers look where their own stands ([`entry_of_a_barrier`]).
//! The same place means that everything of the body has been popped, so that nothing of it is to
//! come. Whatever the body calls, and calls back from there, stands below that place. Where the
//! processor is not an x86-64 no barrier is the last.
//!
//! # Rules
//! - T1 Member 0 waits: it gathers and closes rounds.
//! - T2 So do all members of regions that may have tasks (those that are not task-free), and of
//!   all regions of a program that has had any; and those that know of a cancelled construct: the
//!   barrier has work then. Only the first region with tasks of a program that has run the same
//!   body without them may find that members have left: the member that made the tasks runs them.
//! - T3 So do all members of teams that have a processor each: there a member that waits may still
//!   help, and the wait costs little.
//! - T4 The arrival is as ever. Members that are not at their tail, because they took another
//!   branch to a barrier of their own, see it and go on, as they do on other runtimes.
//!
//! # Source
//! OpenMP 5.1 section 2.11.8 (the implicit barrier after a worksharing construct) and section 2.6
//! (that at the end of a region).

use std::cell::Cell;
use std::ffi::c_void;

/// What a compiler makes of a region's or a task's body.
pub(crate) type Body = unsafe extern "C" fn(*mut c_void);

/// A place on the stack where a return address stands.
pub(crate) type ReturnSlot = *const c_void;

/// Where the body of a region returns, for the thread that runs it.
#[derive(Debug)]
pub(crate) struct Return(Cell<ReturnSlot>);

impl Return {
    /// Nothing was called yet.
    pub(crate) const fn nowhere() -> Self {
        Self(Cell::new(std::ptr::null()))
    }

    /// True when a call that returns at `place` is the last of the member's part of its region.
    #[inline]
    pub(crate) fn is_at(&self, place: ReturnSlot) -> bool {
        self.0.get() == place
    }
}

/// Calls `body(data)`, and notes where it returns.
///
/// # Safety
/// - `body` may be called with `data`, and does not unwind.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn call(body: Body, data: *mut c_void, returns: &Return) {
    // SAFETY: - caller's contract for the call, which is one of the C ABI: the stack is aligned
    //           where inline assembly may use it, and all that a function may change is said to be
    //           changed.
    //         - the place is written to a cell of this thread.
    unsafe {
        std::arch::asm!(
            "lea rax, [rsp - 8]",
            "mov [rsi], rax",
            "call rdx",
            inout("rdx") body => _,
            inout("rdi") data => _,
            inout("rsi") returns.0.as_ptr() => _,
            clobber_abi("C"),
        );
    }
}

/// Calls `body(data)`.
///
/// # Safety
/// - `body` may be called with `data`, and does not unwind.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) unsafe fn call(body: Body, data: *mut c_void, _: &Return) {
    // SAFETY: - caller's contract.
    unsafe { body(data) };
}

/// Defines an entry point of the C ABI that takes nothing and tells `$inner` where it returns.
macro_rules! entry_of_a_barrier {
    ($(#[$about:meta])* $name:ident, $inner:ident) => {
        $(#[$about])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            std::arch::naked_asm!(
                // An unwinder that starts here finds the caller's frame.
                ".cfi_startproc",
                "mov rdi, rsp",
                "jmp {inner}",
                ".cfi_endproc",
                inner = sym $inner
            )
        }

        $(#[$about])*
        #[cfg(not(target_arch = "x86_64"))]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            // Nothing returns there.
            $inner(std::ptr::dangling());
        }
    };
}

pub(crate) use entry_of_a_barrier;
