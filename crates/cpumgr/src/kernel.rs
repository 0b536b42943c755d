//! The calls by which the manager acts upon threads of programs, and how long these ran: a seam, so that a test can let any of
//! them fail.

use platform::SysResult;
use platform::affinity::{self, CpuSet, Tid};
use platform::load;
use platform::process::Pid;

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
