//! What makes a thread that thread for the code that it runs: its thread pointer (behind which stand its thread-locals, `errno` and
//! what `pthread_self` says), its stack, and the modes of its floating-point arithmetic. All of this is in registers that a
//! program may write. So one kernel thread can run a function in the *guise* of another one that lends it, for the price of a
//! call, where a change of kernel threads costs one to three microseconds. What runs so has a stack of its own, a part of the
//! lender's, and may be left amid and gone on with: by the same kernel thread, another one, or the lender's own.
//!
//! # What the kernel does not take part in
//! For the kernel it is still the thread that it was: its number (`gettid`), its processors, signal mask, alternate stack and clocks.
//! What the C library keeps of the kernel's number in the thread's memory is the guise's, so that mutexes that know their owner
//! work. Two things do not:
//! - a mutex with priority inheritance that others wait for is given back by a call in which the kernel compares the numbers, and
//!   which fails;
//! - restartable sequences (`rseq`) are restarted by the area of the kernel's thread. [`Guise::is_foreign`] tells that a thread uses
//!   them: there nobody may take its guise.
//!
//! # Where there is none
//! [`is_possible`] says no, once for the process: on other processors than x86-64; where the kernel does not let programs write
//! the thread pointer (before 5.9); where the C library does not say where the area of `rseq` is (glibc before 2.35, others, and
//! under valgrind); in a process with a shadow stack; and beside the sanitizers, which keep books of threads and stacks.

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
pub use x86_64::{Guise, ROOM, Signals, is_possible};

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
pub use elsewhere::{Guise, ROOM, Signals, is_possible};

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
mod x86_64;

/// Where no thread can.
#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
mod elsewhere;

#[cfg(target_arch = "x86_64")]
#[cfg(all(test, not(loom)))]
mod tests;
