//! The share of a process's reads of memory that another node answers, by the processor's counters
//! of nodes.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use platform::file;
use procfs::process::Process;

/// `PERF_TYPE_HW_CACHE`.
const CACHES: u32 = 3;
/// `PERF_COUNT_HW_CACHE_NODE`, reads: all of them, and those that its own node could not answer.
const READS: u64 = 6;
const MISSES: u64 = 6 | 1 << 16;
/// Bytes of the first version of what the kernel is given.
const VERSION_0: u32 = 64;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSED_ON_EXEC: libc::c_ulong = 8;
/// `exclude_kernel` and `exclude_hv`: what an unprivileged user may count.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// Watches the process's threads for so long; in per cent. An error says why there is no number.
pub(super) fn share(pid: i32, time: Duration) -> Result<f64, String> {
    let tasks = Process::new(pid).and_then(|process| process.tasks());
    let mut counters = Vec::new();
    for task in tasks.map_err(|error| error.to_string())?.flatten() {
        match (open(task.tid, READS), open(task.tid, MISSES)) {
            (Ok(reads), Ok(misses)) => counters.push((reads, misses)),
            // The thread ended.
            (Err(Errno::ESRCH), _) | (_, Err(Errno::ESRCH)) => {}
            (Err(error), _) | (_, Err(error)) => return Err(reason(error)),
        }
    }
    if counters.is_empty() {
        return Err("the process has no thread".to_owned());
    }
    std::thread::sleep(time);
    let (mut reads, mut misses) = (0, 0);
    for (all, remote) in &counters {
        reads += read(all)?;
        misses += read(remote)?;
    }
    if reads == 0 {
        return Err(format!("no read of memory in {} s", time.as_secs_f64()));
    }
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    Ok(100.0 * misses as f64 / reads as f64)
}

fn open(tid: i32, event: u64) -> Result<OwnedFd, Errno> {
    let first = u64::from(CACHES) | u64::from(VERSION_0) << 32;
    // Type and size, event, period, samples, format, flags, then nothing.
    let request: [u64; 8] = [first, event, 0, 0, 0, USER_ONLY, 0, 0];
    // SAFETY: - the request is of the size that it names; the call keeps no address.
    let opened = unsafe {
        libc::syscall(libc::SYS_perf_event_open, request.as_ptr(), tid, -1, -1, CLOSED_ON_EXEC)
    };
    let descriptor = Errno::result(opened)?;
    let descriptor = i32::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: - the kernel gave it to this function.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn read(counter: &OwnedFd) -> Result<u64, String> {
    let mut bytes = [0; 8];
    match nix::unistd::read(counter, &mut bytes) {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err("the counter could not be scheduled".to_owned()),
        Err(error) => Err(format!("descriptor {}: {error}", counter.as_raw_fd())),
    }
}

fn reason(error: Errno) -> String {
    match error {
        Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENODEV => {
            "this machine's processors count no traffic between nodes (or a virtual machine hides \
             the counters)"
                .to_owned()
        }
        Errno::EACCES | Errno::EPERM => {
            let level = file::text("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            format!(
                "counting is not permitted: kernel.perf_event_paranoid is {}, 2 or less is needed, \
                 or CAP_PERFMON",
                level.trim()
            )
        }
        Errno::ENOSYS => "this kernel has no counters".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_has_no_share() {
        assert!(share(i32::MAX, Duration::ZERO).is_err());
    }

    #[test]
    fn a_refusal_says_what_to_change() {
        assert!(reason(Errno::EACCES).contains("perf_event_paranoid"));
        assert!(reason(Errno::ENOENT).contains("count no traffic"));
    }
}
