//! The signals that the calling thread takes.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use crate::error::{SysError, SysResult};

/// Keeps every signal from the calling thread until it is dropped: threads that are started
/// meanwhile take none, since the program's signals are for the program's threads. Two system
/// calls.
#[derive(Debug)]
#[must_use = "what is dropped at once keeps nothing"]
pub struct Blocked {
    before: libc::sigset_t,
    /// It is the thread's.
    _stays: PhantomData<*const ()>,
}

impl Blocked {
    /// From now on.
    ///
    /// # Errors
    /// None that the kernel documents.
    pub fn begin() -> SysResult<Self> {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: - sigfillset writes a whole set, to a place for one; pthread_sigmask reads it,
        //           and writes another whole set.
        let result = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
        };
        if result != 0 {
            return Err(SysError::new("pthread_sigmask", result));
        }
        // SAFETY: - pthread_sigmask succeeded, and has filled it.
        Ok(Self { before: unsafe { before.assume_init() }, _stays: PhantomData })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: - a set that this thread had, which lives through the call.
        let _done = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{SigSet, Signal};

    #[test]
    fn a_thread_started_meanwhile_takes_no_signal_and_this_one_takes_its_own_afterwards() {
        let before = SigSet::thread_get_mask().unwrap();
        let blocked = Blocked::begin().unwrap();
        let child = std::thread::spawn(|| SigSet::thread_get_mask().unwrap()).join().unwrap();
        assert!([Signal::SIGTERM, Signal::SIGCHLD].iter().all(|signal| child.contains(*signal)));
        drop(blocked);
        assert_eq!(SigSet::thread_get_mask().unwrap(), before);
    }
}
