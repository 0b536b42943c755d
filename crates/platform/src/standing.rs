//! What a process is to the scheduler: its scheduling policy and its niceness, which children
//! inherit.

use crate::error::check_int;
use crate::{SysError, SysResult};

/// Makes the calling thread, and whatever it starts, one of the usual policy (`SCHED_OTHER`).
///
/// # Errors
/// `EPERM` where that is forbidden.
pub fn use_usual_policy() -> SysResult<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: - the parameters live through the call; 0 is the calling thread.
    check_int("sched_setscheduler", unsafe {
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters)
    })?;
    Ok(())
}

/// Whether the calling thread has the usual policy.
///
/// # Errors
/// What the kernel says.
pub fn has_usual_policy() -> SysResult<bool> {
    // SAFETY: - the call takes a number; 0 is the calling thread.
    check_int("sched_getscheduler", unsafe { libc::sched_getscheduler(0) })
        .map(|policy| policy == libc::SCHED_OTHER)
}

/// The niceness of the calling thread: -20, which others make way for, to 19.
///
/// # Errors
/// What the kernel says.
pub fn niceness() -> SysResult<i32> {
    // The C library's call returns what may be an error or a niceness; the kernel's returns 1 to
    // 40.
    // SAFETY: - the call takes numbers; 0 is the calling thread.
    let found = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
    match i32::try_from(found) {
        Ok(found) if found > 0 => Ok(20 - found),
        _ => Err(SysError::last("getpriority")),
    }
}

/// Sets it.
///
/// # Errors
/// `EACCES` where the limit (`RLIMIT_NICE`) does not let it become less.
pub fn set_niceness(niceness: i32) -> SysResult<()> {
    // SAFETY: - the call takes numbers; 0 is the calling thread.
    check_int("setpriority", unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_becomes_nicer_and_usual_and_says_so() {
        // Of a thread alone.
        let check = || {
            let before = niceness().unwrap();
            set_niceness(before.max(5)).unwrap();
            assert_eq!(niceness().unwrap(), before.max(5));
            use_usual_policy().unwrap();
            assert!(has_usual_policy().unwrap());
        };
        std::thread::spawn(check).join().unwrap();
    }
}
