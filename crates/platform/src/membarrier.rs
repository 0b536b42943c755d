//! The fence pair of which only the rare side pays: `membarrier` for sleepers, nothing for wakers.
//!
//! # Protocol
//! A waker writes its condition, calls [`light`], reads the sleeper's word. A sleeper writes its word, calls [`heavy`],
//! reads the condition. At least one of both sees the other's write, as with two sequentially consistent fences (the
//! store-buffering litmus). `light` is a compiler fence, because `heavy` makes the kernel run a full fence on every
//! processor that runs a thread of this process.
//!
//! # When the kernel refuses
//! Without `MEMBARRIER_CMD_PRIVATE_EXPEDITED` (old kernels, seccomp) both sides use a sequentially consistent fence.
//! The choice is made once, before anybody can sleep: by [`prepare`], or by the first call of either side.
//!
//! Registering costs a microsecond in a process of one thread, and 10 to 20 ms in one of several, because the kernel then
//! waits for all processors. A process that already has several threads therefore uses the fences (5 ns a fork).
//! Under loom both are always fences, since loom has no notion of another thread's barrier.

#[cfg(not(loom))]
mod kernel {
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

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
        std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.take(2).count() == 1)
    }

    #[cold]
    fn register() -> u8 {
        let asymmetric = is_alone() && membarrier(CMD_REGISTER_PRIVATE_EXPEDITED);
        let mode = if asymmetric { ASYMMETRIC } else { SYMMETRIC };
        // ORDERING: Relaxed - a fact on its own. Threads that race here may find different answers: the first one holds,
        // for both sides must do the same.
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

    /// The waker's side: between its store of the condition and its load of the sleeper's word. Cost: one load.
    #[inline]
    pub fn light() {
        if mode() == ASYMMETRIC {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The sleeper's side: between its store of its word and its last look at the condition. Cost: about 0.4 us.
    pub fn heavy() {
        fence(Ordering::SeqCst);
        if mode() == ASYMMETRIC && !membarrier(CMD_PRIVATE_EXPEDITED) {
            // Registered processes are never refused; a seccomp filter installed later may. Wakers that already
            // trust us cannot be told, so sleeping would risk a lost wake: say so and stop.
            eprintln!(
                "nanos: the kernel withdrew membarrier (seccomp filter installed after start?); cannot sleep safely"
            );
            std::process::abort();
        }
    }

    /// True when only sleepers pay (the kernel offers private expedited membarriers).
    pub fn is_asymmetric() -> bool {
        mode() == ASYMMETRIC
    }
}

#[cfg(loom)]
mod kernel {
    use loom::sync::atomic::{Ordering, fence};

    /// The waker's side.
    pub fn light() {
        fence(Ordering::SeqCst);
    }

    /// The sleeper's side.
    pub fn heavy() {
        fence(Ordering::SeqCst);
    }

    /// Nothing to prepare.
    pub fn prepare() {}

    /// Under loom both sides pay.
    pub fn is_asymmetric() -> bool {
        false
    }
}

pub use kernel::{heavy, is_asymmetric, light, prepare};
