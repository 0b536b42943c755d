//! Children of a fork, for tests of what they may do: how they are made, how they end, and what
//! their parent learns.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seconds after which a child that waits for ever ends, by `SIGALRM`.
const PATIENCE: u32 = 20;

/// Forks. The child's panics are not shown, and it ends if it hangs.
pub(crate) fn forked() -> i32 {
    // SAFETY: - what the child does is what the tests are about; it ends by `end`, or is ended.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed: {}", Error::last_os_error());
    if pid == 0 {
        // SAFETY: - takes no pointers.
        unsafe { libc::alarm(PATIENCE) };
        std::panic::set_hook(Box::new(|_| ()));
    }
    pid
}

/// Ends the child.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: - ends the child without the parent's destructors.
    unsafe { libc::_exit(code) }
}

/// Ends the child, which found all as it should be, or not.
pub(crate) fn leave(is_right: bool) -> ! {
    end(i32::from(!is_right))
}

/// Waits for `child`; its status as the system gives it: 0 when all was right.
pub(crate) fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: - `status` outlives the call; `child` is ours.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "{}", Error::last_os_error());
    status
}

/// Waits for `child`, which is to find that it `is` so.
pub(crate) fn assert_right(child: i32, is: &str) {
    assert_eq!(
        status_of(child),
        0,
        "the child {is} (256: it does not; {}: it hung)",
        libc::SIGALRM
    );
}

/// Runs `child` in a forked process, which is to find that it `is` so.
pub(crate) fn assert_in_child(is: &str, child: impl FnOnce() -> bool) {
    match forked() {
        0 => leave(catch_unwind(AssertUnwindSafe(child)).unwrap_or(false)),
        pid => assert_right(pid, is),
    }
}

/// True when the panic of `outcome` says `text`.
pub(crate) fn says<R>(outcome: std::thread::Result<R>, text: &str) -> bool {
    outcome.is_err_and(|payload| {
        let said = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref().map(String::as_str));
        said.is_some_and(|said| said.contains(text))
    })
}
