//! Futex words: private to the process, or shared with other processes. Two types, because a wait
//! on one kind and a wake on the other never meet in the kernel.

use crate::sync::atomic::AtomicU32;
use std::time::Duration;

/// How a wait ended. Every outcome but `TimedOut` asks the caller to look at its condition again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FutexWait {
    /// A wake, or a spurious return.
    Woken,
    /// The word did not hold the expected value: the caller did not sleep.
    Changed,
    /// The time was over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Wakes as many waiters as there are.
pub const ALL: u32 = i32::MAX as u32;

macro_rules! futex_type {
    ($(#[$doc:meta])* $name:ident, $flag:expr) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[cfg_attr(not(loom), repr(transparent))]
        pub struct $name {
            word: AtomicU32,
            #[cfg(loom)]
            queue: kernel::Queue,
        }

        impl $name {
            /// A word that holds `value`.
            #[cfg(not(loom))]
            pub const fn new(value: u32) -> Self {
                Self { word: AtomicU32::new(value) }
            }

            /// A word that holds `value`.
            #[cfg(loom)]
            pub fn new(value: u32) -> Self {
                Self { word: AtomicU32::new(value), queue: kernel::Queue::default() }
            }

            /// The word itself, for loads, stores and exchanges by the protocol that owns it.
            #[inline]
            pub fn word(&self) -> &AtomicU32 {
                &self.word
            }

            /// Sleeps while the word holds `expected`, at most `timeout`.
            #[cfg(not(loom))]
            pub fn wait(&self, expected: u32, timeout: Option<Duration>) -> FutexWait {
                kernel::wait(&self.word, expected, timeout, $flag)
            }

            /// Sleeps while the word holds `expected`. Models have no time: any timeout is over at
            /// once, some turns of others later.
            #[cfg(loom)]
            pub fn wait(&self, expected: u32, timeout: Option<Duration>) -> FutexWait {
                if timeout.is_some() {
                    loom::thread::yield_now();
                    return FutexWait::TimedOut;
                }
                self.queue.wait(&self.word, expected)
            }

            /// Wakes at most `count` sleepers; returns how many there were. Costs a system call
            /// even without sleepers.
            #[cfg(not(loom))]
            pub fn wake(&self, count: u32) -> u32 {
                kernel::wake(&self.word, count, $flag)
            }

            /// Wakes at most `count` sleepers; returns 0, since loom does not tell.
            #[cfg(loom)]
            pub fn wake(&self, count: u32) -> u32 {
                self.queue.wake(count)
            }
        }
    };
}

futex_type!(
    /// A futex word used by threads of one process only.
    PrivateFutex,
    libc::FUTEX_PRIVATE_FLAG
);
futex_type!(
    /// A futex word in memory that several processes map.
    SharedFutex,
    0
);

#[cfg(not(loom))]
mod kernel {
    use super::FutexWait;
    use crate::aside::SavedErrno;
    use crate::errno;
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    pub(super) fn wait(
        word: &AtomicU32,
        expected: u32,
        timeout: Option<Duration>,
        flag: libc::c_int,
    ) -> FutexWait {
        let limit = timeout.map(|t| libc::timespec {
            tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
        });
        let limit_ptr = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        // A program may read `errno` after any construct that waits.
        let _kept = SavedErrno::now();
        // SAFETY: - `word` is a live, aligned 32-bit word for the whole call (borrowed).
        //         - `limit_ptr` is null or points to `limit`, which outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | flag,
                expected,
                limit_ptr,
            )
        };
        if result == 0 {
            return FutexWait::Woken;
        }
        match errno::last() {
            libc::EAGAIN => FutexWait::Changed,
            libc::ETIMEDOUT => FutexWait::TimedOut,
            libc::EINTR => FutexWait::Interrupted,
            // EFAULT, EINVAL: the word is borrowed and the timeout is well formed, so this is a
            // broken kernel.
            other => panic!("futex wait refused with errno {other}"),
        }
    }

    pub(super) fn wake(word: &AtomicU32, count: u32, flag: libc::c_int) -> u32 {
        // SAFETY: - `word` is a live, aligned 32-bit word; a wake does not touch its value.
        let result = unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | flag, count)
        };
        u32::try_from(result).unwrap_or(0)
    }
}

/// The kernel's side in a model: the word is compared and the sleeper queued in one step, as under
/// the kernel's lock. Loom then reports a sleeper that no thread wakes as a deadlock.
#[cfg(loom)]
mod kernel {
    use super::FutexWait;
    use crate::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    #[derive(Debug, Default)]
    pub(super) struct Queue {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Queue {
        pub(super) fn wait(&self, word: &AtomicU32, expected: u32) -> FutexWait {
            let queue = self.lock.lock().expect("no model panics under it");
            if word.load(Ordering::Relaxed) != expected {
                return FutexWait::Changed;
            }
            drop(self.sleepers.wait(queue).expect("no model panics under it"));
            FutexWait::Woken
        }

        pub(super) fn wake(&self, count: u32) -> u32 {
            let _queue = self.lock.lock().expect("no model panics under it");
            match count {
                super::ALL => self.sleepers.notify_all(),
                count => (0..count).for_each(|_| self.sleepers.notify_one()),
            }
            0
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn a_wait_leaves_errno_as_it_was_however_it_ends() {
        let word = PrivateFutex::new(1);
        for (expected, ended) in [(0, FutexWait::Changed), (1, FutexWait::TimedOut)] {
            Errno::EDOM.set();
            assert_eq!(word.wait(expected, Some(Duration::from_millis(1))), ended);
            assert_eq!(Errno::last(), Errno::EDOM);
        }
    }
}
