//! The threads of one process, by a descriptor that never means another process: reading and
//! setting their masks.
//!
//! # Protocol
//! The directory `/proc/PID/task` is opened while the process is known to live (its pidfd says so
//! before and after). From then on a thread is one of this process when the directory names it: a
//! directory of a process that ended is empty, whichever process has its number now.
//!
//! `sched_setaffinity` takes a bare number, though. So the directory is asked before and after: a
//! thread that ended in between may have given its number away, and the thread that got the number
//! gets back the mask that it had.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat};
use platform::affinity::{CpuSet, Tid};
use platform::process::{self, Pid};
use platform::{SysError, SysResult, fault};
use procfs::process::Process;

use crate::foreign::Times;
use crate::kernel::Kernel;

/// The process that a thread is of, if it is of user `owner` or that is the superuser: for a
/// message, since the number may be another's when it is read.
pub fn process_of(tid: Tid, owner: u32) -> Option<Pid> {
    let thread = Process::new(tid.0).ok()?;
    (owner == 0 || owner == thread.uid().ok()?).then_some(Pid(thread.status().ok()?.tgid))
}

/// The threads of a process that lives, or did.
#[derive(Debug)]
pub struct Threads {
    directory: OwnedFd,
}

impl Threads {
    /// The threads of the process of `pidfd`, whose number is `pid`.
    ///
    /// # Errors
    /// `ESRCH` when it has ended; `EMFILE`.
    pub fn of(pid: Pid, pidfd: impl AsFd) -> SysResult<Self> {
        const CALL: &str = "open(/proc/PID/task)";
        let gone = SysError::new(CALL, Errno::ESRCH as i32);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory =
            nix::fcntl::open(format!("/proc/{pid}/task").as_str(), flags, Mode::empty()).map_err(
                |errno| {
                    if errno == Errno::ENOENT { gone } else { SysError::new(CALL, errno as i32) }
                },
            );
        let directory = fault::or(CALL, directory)?;
        // It lives now, so the number was its own when the directory was opened.
        if process::has_ended(pidfd)? {
            return Err(gone);
        }
        Ok(Self { directory })
    }

    /// Whether a thread is one of this process now.
    pub fn has(&self, tid: Tid) -> bool {
        fstatat(&self.directory, tid.0.to_string().as_str(), AtFlags::empty()).is_ok()
    }

    /// How many there are now: a link of the directory for each, and two of its own. One system
    /// call.
    ///
    /// # Errors
    /// `ESRCH` when the process has ended.
    pub fn count(&self) -> SysResult<u64> {
        const CALL: &str = "fstat(/proc/PID/task)";
        let data = nix::sys::stat::fstat(&self.directory)
            .map_err(|errno| SysError::new(CALL, errno as i32))?;
        #[allow(clippy::useless_conversion, reason = "another type on other machines")]
        let links = u64::from(data.st_nlink);
        match links.saturating_sub(2) {
            0 => Err(SysError::new(CALL, Errno::ESRCH as i32)),
            count => Ok(count),
        }
    }

    /// All threads now, at most `limit`.
    ///
    /// # Errors
    /// `ESRCH` when the process has ended; `EMFILE`.
    pub fn list(&self, limit: usize) -> SysResult<Vec<Tid>> {
        const CALL: &str = "readdir(/proc/PID/task)";
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        // A descriptor of its own: reading moves its place in the directory.
        let copy = openat(&self.directory, ".", flags, Mode::empty());
        let copy = copy.map_err(|errno| {
            SysError::new(
                CALL,
                if errno == Errno::ENOENT { Errno::ESRCH as i32 } else { errno as i32 },
            )
        })?;
        let mut directory =
            nix::dir::Dir::from_fd(copy).map_err(|errno| SysError::new(CALL, errno as i32))?;
        let names = directory.iter().filter_map(Result::ok);
        let tids = names.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok().map(Tid));
        Ok(tids.take(limit).collect())
    }

    /// How long a thread ran and waited for a processor; `None` when it is not one of this process,
    /// or when the kernel does not count that (`CONFIG_SCHED_INFO`).
    pub fn times(&self, tid: Tid) -> Option<Times> {
        let file = openat(
            &self.directory,
            format!("{tid}/schedstat").as_str(),
            OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        );
        let mut text = [0; 80];
        let length = nix::unistd::read(file.ok()?, &mut text).ok()?;
        let mut numbers =
            std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().map(str::parse);
        Some(Times { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
    }

    /// The mask of a thread; `None` when it is not one of this process.
    ///
    /// # Errors
    /// What the kernel says, but for threads that ended.
    pub fn mask(&self, kernel: &dyn Kernel, tid: Tid) -> SysResult<Option<CpuSet>> {
        match kernel.affinity(tid) {
            Ok(mask) => Ok(self.has(tid).then_some(mask)),
            Err(error) if error.is(Errno::ESRCH as i32) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Binds a thread; returns the mask that it had, `None` when it is not one of this process (any
    /// more).
    ///
    /// # Errors
    /// `EPERM`, `EINVAL`: it stays as it was.
    pub fn bind(&self, kernel: &dyn Kernel, tid: Tid, cpus: &CpuSet) -> SysResult<Option<CpuSet>> {
        let Some(before) = self.mask(kernel, tid)? else {
            return Ok(None);
        };
        Ok(self.rebind(kernel, tid, &before, cpus)?.then_some(before))
    }

    /// Binds a thread whose mask is known to be `before`; false when it is not one of this process
    /// any more.
    ///
    /// # Errors
    /// As [`Threads::bind`].
    pub fn rebind(
        &self,
        kernel: &dyn Kernel,
        tid: Tid,
        before: &CpuSet,
        cpus: &CpuSet,
    ) -> SysResult<bool> {
        match kernel.set_affinity(tid, cpus) {
            Ok(()) => {}
            Err(error) if error.is(Errno::ESRCH as i32) => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.has(tid) {
            return Ok(true);
        }
        // It ended; the number may be another one's, whose mask `before` was or will be what it
        // inherited.
        let _undone: SysResult<()> = kernel.set_affinity(tid, before);
        Ok(false)
    }
}

impl AsFd for Threads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::sync::mpsc::{self, Sender};
    use std::thread::JoinHandle;

    use platform::affinity::{CpuId, affinity, current_tid};

    /// A kernel in which a thread ends just when it is bound, and a stranger gets its number.
    #[derive(Debug)]
    struct Reuse {
        tid: Tid,
        ends: Sender<()>,
        thread: RefCell<Option<JoinHandle<()>>>,
        /// The mask of the thread, and from its end on the stranger's.
        mask: RefCell<CpuSet>,
        calls: Cell<u32>,
    }

    impl Reuse {
        fn new(mask: CpuSet) -> Self {
            let (ends, until) = mpsc::channel();
            let (send, tid) = mpsc::channel();
            let thread = std::thread::spawn(move || {
                send.send(current_tid()).unwrap();
                until.recv().unwrap();
            });
            let thread = RefCell::new(Some(thread));
            Self {
                tid: tid.recv().unwrap(),
                ends,
                thread,
                mask: RefCell::new(mask),
                calls: Cell::new(0),
            }
        }

        /// Ends the thread; its number is free when the kernel lists it no more.
        fn end(&self) {
            let Some(thread) = self.thread.take() else { return };
            self.ends.send(()).unwrap();
            thread.join().unwrap();
            while std::fs::exists(format!("/proc/self/task/{}", self.tid)).unwrap() {
                std::thread::yield_now();
            }
        }
    }

    impl Kernel for Reuse {
        fn affinity(&self, tid: Tid) -> SysResult<CpuSet> {
            assert_eq!(tid, self.tid);
            Ok(self.mask.borrow().clone())
        }

        fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()> {
            assert_eq!(tid, self.tid);
            self.calls.set(self.calls.get() + 1);
            self.end();
            self.mask.replace(cpus.clone());
            Ok(())
        }
    }

    fn own_threads() -> Threads {
        let own = Pid(std::process::id().cast_signed());
        Threads::of(own, process::pidfd_open(own).unwrap()).unwrap()
    }

    #[test]
    fn a_stranger_that_got_the_number_of_a_thread_has_its_own_mask_back() {
        let before = CpuSet::parse_list("0-3").unwrap();
        let kernel = Reuse::new(before.clone());
        let threads = own_threads();
        assert_eq!(
            threads.bind(&kernel, kernel.tid, &CpuSet::single(CpuId(1))).unwrap(),
            None,
            "it has ended"
        );
        assert_eq!((&*kernel.mask.borrow(), kernel.calls.get()), (&before, 2));
    }

    #[test]
    fn a_stranger_that_had_the_number_before_is_not_touched() {
        let before = CpuSet::parse_list("0-3").unwrap();
        let kernel = Reuse::new(before.clone());
        kernel.end();
        assert_eq!(
            own_threads().bind(&kernel, kernel.tid, &CpuSet::single(CpuId(1))).unwrap(),
            None
        );
        assert_eq!((&*kernel.mask.borrow(), kernel.calls.get()), (&before, 0));
    }

    #[test]
    fn a_thread_that_lives_keeps_what_it_is_bound_to() {
        let all = affinity(None).unwrap();
        let one = CpuSet::single(all.first().unwrap());
        let (threads, kernel) = (own_threads(), Reuse::new(all.clone()));
        let linux = crate::kernel::Linux;
        assert_eq!(threads.bind(&linux, kernel.tid, &one).unwrap(), Some(all));
        assert_eq!(affinity(Some(kernel.tid)).unwrap(), one);
        kernel.end();
    }
}
