//! The calls by which the manager acts upon threads of programs, and how long these ran: a seam, so
//! that a test can let any of them fail.

use std::cell::Cell;

use platform::SysResult;
use platform::affinity::{self, CpuSet, Tid};
use platform::load;
use platform::process::Pid;

use crate::foreign::Times;
use crate::threads::Threads;

/// What the kernel does with a thread.
pub trait Kernel: std::fmt::Debug {
    /// A thread's mask.
    ///
    /// # Errors
    /// `ESRCH`, `EPERM`.
    fn affinity(&self, tid: Tid) -> SysResult<CpuSet>;

    /// Binds a thread.
    ///
    /// # Errors
    /// `ESRCH`, `EPERM`, `EINVAL`.
    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()>;

    /// How long all threads of a process ran, in nanoseconds.
    ///
    /// # Errors
    /// `ESRCH`.
    fn ran(&self, pid: Pid) -> SysResult<u64> {
        load::ran(pid)
    }

    /// How long a thread of a process ran and waited for a processor; `None` when that is not
    /// known.
    fn times(&self, threads: &Threads, tid: Tid) -> Option<Times> {
        threads.times(tid)
    }
}

/// The kernel itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Kernel for Linux {
    fn affinity(&self, tid: Tid) -> SysResult<CpuSet> {
        affinity::affinity(Some(tid))
    }

    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()> {
        affinity::set_affinity(Some(tid), cpus)
    }
}

/// A kernel that counts what is asked of it: looks at masks and times, a change being worth `BIND`
/// of them.
#[derive(Debug)]
pub struct Counted {
    kernel: Box<dyn Kernel>,
    work: Cell<u64>,
}

/// What binding a thread costs, in looks at its mask, which take some 3 us each.
const BIND: u64 = 3;

impl Counted {
    /// Counts from now on.
    pub fn new(kernel: Box<dyn Kernel>) -> Self {
        Self { kernel, work: Cell::new(0) }
    }

    /// The work since this was asked last.
    pub fn work(&self) -> u64 {
        self.work.take()
    }
}

impl AsRef<dyn Kernel> for Counted {
    fn as_ref(&self) -> &(dyn Kernel + 'static) {
        self
    }
}

impl Kernel for Counted {
    fn affinity(&self, tid: Tid) -> SysResult<CpuSet> {
        self.work.set(self.work.get() + 1);
        self.kernel.affinity(tid)
    }

    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()> {
        self.work.set(self.work.get() + BIND);
        self.kernel.set_affinity(tid, cpus)
    }

    fn ran(&self, pid: Pid) -> SysResult<u64> {
        // Limited by what it costs already (`unused`).
        self.kernel.ran(pid)
    }

    fn times(&self, threads: &Threads, tid: Tid) -> Option<Times> {
        self.work.set(self.work.get() + 1);
        self.kernel.times(threads, tid)
    }
}
