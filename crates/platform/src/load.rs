//! How busy processors are, and how long processes ran: for the manager of a machine that it shares
//! with other programs.

use crate::affinity::CpuId;
use crate::file;
use crate::process::Pid;
use crate::{SysError, SysResult};

/// The kernel's unit of time in `/proc/stat`: hundredths of a second, whatever its clock ticks at.
const USER_TICK_NS: u64 = 10_000_000;

/// How long each processor ran programs of normal or higher priority since the machine started, in
/// nanoseconds, by processor; offline ones are not named. What it ran at lower priority (`nice`) is
/// not in it, nor are interrupts, nor what a hypervisor took. The kernel counts in ticks: an error
/// of 10 ms.
///
/// One read of `/proc/stat`: 7 us here, more where there are many interrupt lines.
///
/// # Errors
/// What the kernel says; `EBADMSG` when the file is not as documented in proc(5).
pub fn busy() -> SysResult<Vec<(CpuId, u64)>> {
    const CALL: &str = "read(/proc/stat)";
    let failed =
        |error: std::io::Error| SysError::new(CALL, error.raw_os_error().unwrap_or(libc::EIO));
    let text = file::text("/proc/stat").map_err(failed)?;
    parse_busy(&text).ok_or(SysError::new(CALL, libc::EBADMSG))
}

/// Lines `cpuN user nice system ...`; the line `cpu` before them is their sum, what follows is
/// something else.
fn parse_busy(text: &str) -> Option<Vec<(CpuId, u64)>> {
    let lines = text.lines().skip(1).map_while(|line| line.strip_prefix("cpu"));
    let busy = lines.map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let id = fields.next()?.parse().ok()?;
        let (user, _nice, system): (u64, u64, u64) = (
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
        );
        Some((CpuId(id), user.saturating_add(system).saturating_mul(USER_TICK_NS)))
    });
    let busy: Option<Vec<_>> = busy.collect();
    busy.filter(|busy| !busy.is_empty())
}

/// Threads of the machine that have a processor or wait for one, the calling one counted: now, and
/// of all processors, whatever the mask. `None` where the kernel does not say. Allocates nothing.
/// Cost: some 5 us.
///
/// ```
/// assert!(nanothreads_platform::load::runnable().is_none_or(|count| count >= 1));
/// ```
pub fn runnable() -> Option<u32> {
    let mut text = [0; 64];
    let length = file::beginning("/proc/loadavg", &mut text).ok()?;
    parse_runnable(str::from_utf8(&text[..length]).ok()?)
}

/// Processors of the machine that are online, whatever the mask. Cost: some 5 us.
pub fn online() -> Option<usize> {
    // SAFETY: - takes a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()
}

/// `0.50 0.40 0.30 runnable/all last`.
fn parse_runnable(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// How long all threads of a process ran, those that ended too, in nanoseconds: precise, and one
/// system call.
///
/// # Errors
/// `ESRCH` when it has ended.
pub fn ran(pid: Pid) -> SysResult<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: - the pointer is to a variable of this type.
    let errno = unsafe { libc::clock_getcpuclockid(pid.0, &raw mut clock) };
    if errno != 0 {
        return Err(SysError::new("clock_getcpuclockid", errno));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - as above.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        // The clock was valid a moment ago: what names no process any more is an invalid clock.
        return Err(SysError::new("clock_gettime(process)", libc::ESRCH));
    }
    Ok((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::current_pid;

    #[test]
    fn lines_of_processors_are_read_and_others_are_not() {
        let text =
            "cpu  9 9 9 9\ncpu0 100 5 20 7 0 1 2 0 0 0\ncpu3 1 0 0 0\nintr 5 6 7\ncpu9 8 8 8\n";
        assert_eq!(parse_busy(text), Some(vec![(CpuId(0), 1_200_000_000), (CpuId(3), 10_000_000)]));
        assert_eq!(parse_busy("cpu  1 2 3\nintr 4\n"), None);
        assert_eq!(parse_busy("cpu  1 2 3\ncpu0 1 x 3\n"), None);
        assert_eq!(parse_busy(""), None);
        assert_eq!(parse_runnable("0.50 0.40 0.30 3/345 999\n"), Some(3));
        assert_eq!(parse_runnable("0.50 0.40"), None);
        assert!(online().is_some_and(|count| count >= 1));
    }

    #[test]
    fn time_that_this_process_runs_is_its_own_and_that_of_a_processor() {
        let busy = || busy().unwrap().iter().map(|(_, busy)| busy).sum::<u64>();
        let (before, machine) = (ran(current_pid()).unwrap(), busy());
        while ran(current_pid()).unwrap() < before + 60_000_000 {
            std::hint::spin_loop();
        }
        // The kernel counts ticks: an emulated processor misses some.
        while busy() <= machine {
            assert!(
                ran(current_pid()).unwrap() < before + 3_000_000_000,
                "a processor that computes is busy"
            );
        }
    }

    #[test]
    fn a_process_that_ended_has_no_clock() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid(i32::try_from(child.id()).unwrap());
        child.wait().unwrap();
        assert!(ran(pid).unwrap_err().is(libc::ESRCH));
    }
}
