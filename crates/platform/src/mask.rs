//! The affinity mask of a thread, in a place of fixed size: for signal handlers and children of
//! `vfork`, which must not allocate. All other code uses [`affinity`](crate::affinity).

use crate::affinity::{CpuId, Tid, raw};
use crate::aside::SavedErrno;
use crate::error::{SysResult, check};

const WORDS: usize = 128;

/// Which processors a thread may use, among the first 8192: no kernel supports more
/// (`CONFIG_NR_CPUS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask([u64; WORDS]);

impl Mask {
    /// The mask of a thread; `None` is the caller. One system call.
    ///
    /// # Errors
    /// `ESRCH`: there is no such thread. `EINVAL`: a kernel with more processors.
    pub fn of(tid: Option<Tid>) -> SysResult<Self> {
        let _kept = SavedErrno::now();
        let mut words = [0; WORDS];
        // The raw call: the C library's one is no more than that, and not in every C library safe
        // in a signal handler.
        // SAFETY: - the pointer and the length in bytes describe `words`, which lives through the
        // call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                raw(tid),
                size_of_val(&words),
                words.as_mut_ptr(),
            )
        };
        check("sched_getaffinity", result)?;
        Ok(Self(words))
    }

    /// Makes it the caller's mask. One system call.
    ///
    /// # Errors
    /// `EINVAL`: none of its processors is online and in the caller's cpuset.
    pub fn take(&self) -> SysResult<()> {
        let _kept = SavedErrno::now();
        // SAFETY: - the pointer and the length in bytes describe the words, which live through the
        // call.
        let result = unsafe {
            libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&self.0), self.0.as_ptr())
        };
        check("sched_setaffinity", result).map(drop)
    }

    /// True when `cpu` is its only processor.
    pub fn is_only(&self, cpu: CpuId) -> bool {
        let place = cpu.index() / 64;
        let word = |index| if index == place { 1 << (cpu.index() % 64) } else { 0 };
        place < WORDS && self.0.iter().enumerate().all(|(index, bits)| *bits == word(index))
    }
}

/// The number of the task that calls. The kernel is asked each time: a child of `vfork` finds in
/// the C library's memory what that knows of its parent.
pub fn current_task() -> Tid {
    // SAFETY: - gettid takes nothing and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    Tid(i32::try_from(tid).expect("the kernel's numbers of threads are C ints"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::{CpuSet, affinity, current_tid, set_affinity};

    #[test]
    fn a_mask_is_what_the_thread_has_and_comes_back() {
        std::thread::spawn(|| {
            let (whole, mask) = (affinity(None).unwrap(), Mask::of(None).unwrap());
            let only = whole.last().unwrap();
            assert_eq!(mask.is_only(only), whole.len() == 1);
            set_affinity(None, &CpuSet::single(only)).unwrap();
            let bound = Mask::of(Some(current_tid())).unwrap();
            assert!(
                bound.is_only(only)
                    && !bound.is_only(CpuId(only.0 + 64))
                    && !bound.is_only(CpuId(1 << 20))
            );
            assert_eq!(bound == mask, whole.len() == 1);
            mask.take().unwrap();
            assert_eq!(affinity(None).unwrap(), whole);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        assert!(Mask::of(Some(Tid(-1))).unwrap_err().is(libc::ESRCH));
        assert_eq!(current_task(), current_tid());
    }
}
