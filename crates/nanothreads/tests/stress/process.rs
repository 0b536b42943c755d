//! Child processes: a fork during anything that the parent's threads do.

use crate::step::Step;
use crate::watched;

/// ThreadSanitizer cannot follow a fork of a process with several threads.
pub(crate) const FORKS: bool = !cfg!(tsan);

/// Seconds after which a child that hangs is ended by its alarm.
const ALARM: u32 = 60;

/// Runs `step` in a child process and returns its value, or what it was not.
pub(crate) fn in_child(step: &Step) -> u64 {
    let expected = step.expected();
    // SAFETY: - the child runs the step, which is what is tested, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed: {}", std::io::Error::last_os_error()),
        0 => {
            watched::end_after(ALARM);
            let is_right = std::panic::catch_unwind(|| step.run() == expected).unwrap_or(false);
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: - `status` outlives the call; `child` is ours.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child, "waitpid: {}", std::io::Error::last_os_error());
            assert_eq!(
                status, 0,
                "the child's status (1 in the second byte: a wrong value; 14: it hung) of {step:#?}"
            );
            expected
        }
    }
}
