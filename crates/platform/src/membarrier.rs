//! The fence pair of which only the rare side pays: `membarrier` for sleepers, nothing for wakers.
//!
//! # Protocol
//! A waker writes its condition, calls [`light`], reads the sleeper's word. A sleeper writes its
//! word, calls [`heavy`], reads the condition. At least one of both sees the other's write, as with
//! two sequentially consistent fences (the store-buffering litmus). `light` is a compiler fence,
//! because `heavy` makes the kernel run a full fence on every processor that runs a thread of this
//! process.
//!
//! # When the kernel refuses
//! Without `MEMBARRIER_CMD_PRIVATE_EXPEDITED` (old kernels, seccomp) both sides use a sequentially
//! consistent fence. The choice is made once, before any thread can sleep: by [`prepare`], or by
//! the first call of either side.
//!
//! # At most one in a millisecond
//! `heavy` interrupts every processor that runs one of our threads, busy or not: threads that fall
//! asleep every few microseconds would slow those that work. [`heavy_if_due`] therefore lets each
//! thread have one in [`INTERVAL`]. A sleeper that comes earlier has only its own processor's
//! fence, which does not order the waker's store before the waker's load: a wake may be missed, if
//! the waker makes its condition true in the same few nanoseconds in which the sleeper looks at it.
//! No wake is *lost*, because such a sleeper must not sleep longer than the rest of its interval:
//! it comes back by the clock, looks again, and then its barrier is due. So a wake can be late by
//! [`INTERVAL`] at most, once in some ten thousand sleeps, and only for threads that sleep more
//! than once in it. A sleeper that sleeps longer pays one timer.
//!
//! Registering costs a microsecond in a process of one thread, and 10 to 20 ms in one of several,
//! because the kernel then waits for all processors. A process that already has several threads
//! therefore uses the fences (5 ns a fork). Under loom both are always fences, since loom has no
//! notion of another thread's barrier; and each thread's barriers are due every other time.
//!
//! # A second pair
//! [`compiler_only`] with [`try_heavy`] is for a rare side that can do without what it wants: where
//! the kernel refuses, `try_heavy` says so, and the frequent side has no fence in any process. The
//! first `try_heavy` registers, also in a process of several threads.

use std::time::Duration;

/// Time between two barriers of one thread.
pub const INTERVAL: Duration = Duration::from_millis(1);

#[cfg(not(loom))]
mod kernel {
    use super::INTERVAL;
    use crate::clock::monotonic_ns;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};
    use std::time::Duration;

    thread_local! {
        /// When this thread had its last barrier, in nanoseconds of the monotonic clock; 0: never.
        static LAST: Cell<u64> = const { Cell::new(0) };
    }

    const UNKNOWN: u8 = 0;
    const ASYMMETRIC: u8 = 1;
    const SYMMETRIC: u8 = 2;

    static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

    const CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes two integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
    }

    /// True when this is the process's only thread, as far as can be found out.
    fn is_alone() -> bool {
        crate::file::names("/proc/self/task").is_ok_and(|threads| threads.len() == 1)
    }

    #[cold]
    fn register() -> u8 {
        let asymmetric = is_alone() && membarrier(CMD_REGISTER_PRIVATE_EXPEDITED);
        let mode = if asymmetric { ASYMMETRIC } else { SYMMETRIC };
        // ORDERING: Relaxed - a fact on its own. Threads that race here may find different answers:
        // the first one holds, for both sides must do the same.
        match MODE.compare_exchange(UNKNOWN, mode, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => mode,
            Err(first) => first,
        }
    }

    #[inline]
    fn mode() -> u8 {
        // ORDERING: Relaxed - see `register`.
        match MODE.load(Ordering::Relaxed) {
            UNKNOWN => register(),
            known => known,
        }
    }

    /// Makes the choice now, while the process has one thread.
    pub fn prepare() {
        mode();
    }

    /// The waker's side: between its store of the condition and its load of the sleeper's word.
    /// Cost: one load.
    #[inline]
    pub fn light() {
        if mode() == ASYMMETRIC {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The sleeper's side: between its store of its word and its last look at the condition. Cost:
    /// about 0.4 us, and an interrupt for each processor that runs a thread of the process.
    pub fn heavy() {
        fence(Ordering::SeqCst);
        if mode() == ASYMMETRIC {
            interrupt_siblings();
        }
    }

    /// As [`heavy`], at most once in [`INTERVAL`] for each thread. `None`: it was done. Otherwise
    /// the caller must not sleep longer than the returned time, and then call this again before its
    /// next sleep.
    #[must_use]
    pub fn heavy_if_due() -> Option<Duration> {
        fence(Ordering::SeqCst);
        if mode() != ASYMMETRIC {
            return None;
        }
        let (now, last) = (monotonic_ns(), LAST.get());
        let rest = (last + INTERVAL.as_nanos() as u64).saturating_sub(now);
        if last != 0 && rest > 0 {
            return Some(Duration::from_nanos(rest));
        }
        LAST.set(now);
        interrupt_siblings();
        None
    }

    fn interrupt_siblings() {
        if !membarrier(CMD_PRIVATE_EXPEDITED) {
            // Registered processes are never refused; a seccomp filter installed later may. Wakers
            // that already trust us cannot be told, so sleeping would risk a lost wake: say so and
            // stop.
            crate::message::say(format_args!(
                "nanos: the kernel withdrew membarrier (seccomp filter installed after start?); \
                 cannot sleep safely"
            ));
            std::process::abort();
        }
    }

    /// True when only sleepers pay (the kernel offers private expedited membarriers).
    pub fn is_asymmetric() -> bool {
        mode() == ASYMMETRIC
    }

    /// The frequent side of the second pair: no instruction.
    #[inline]
    pub fn compiler_only() {
        compiler_fence(Ordering::SeqCst);
    }

    /// The rare side of the second pair; false when the kernel refuses, and nothing was ordered.
    /// Cost: as [`heavy`], and 10 to 20 ms once in a process that had several threads at its first
    /// use of the first pair.
    #[must_use]
    pub fn try_heavy() -> bool {
        fence(Ordering::SeqCst);
        // One that is not registered is refused.
        membarrier(CMD_PRIVATE_EXPEDITED)
            || (membarrier(CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(CMD_PRIVATE_EXPEDITED))
    }
}

#[cfg(loom)]
mod kernel {
    use super::INTERVAL;
    use crate::sync::atomic::{Ordering, fence};
    use std::cell::Cell;
    use std::time::Duration;

    loom::thread_local! {
        static CALLS: Cell<u32> = Cell::new(0);
    }

    /// The waker's side.
    #[track_caller]
    pub fn light() {
        fence(Ordering::SeqCst);
    }

    /// The sleeper's side.
    #[track_caller]
    pub fn heavy() {
        fence(Ordering::SeqCst);
    }

    /// The sleeper's side when it is due, at each thread's first call, third, and so on; nothing in
    /// between.
    #[must_use]
    #[track_caller]
    pub fn heavy_if_due() -> Option<Duration> {
        let calls = CALLS.with(|calls| calls.replace(calls.get() + 1));
        if calls.is_multiple_of(2) {
            heavy();
            return None;
        }
        Some(INTERVAL)
    }

    /// The frequent side of the second pair.
    #[track_caller]
    pub fn compiler_only() {
        fence(Ordering::SeqCst);
    }

    /// The rare side of the second pair.
    #[must_use]
    #[track_caller]
    pub fn try_heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    /// Nothing to prepare.
    pub fn prepare() {}

    /// Under loom both sides pay.
    pub fn is_asymmetric() -> bool {
        false
    }
}

pub use kernel::{compiler_only, heavy, heavy_if_due, is_asymmetric, light, prepare, try_heavy};
