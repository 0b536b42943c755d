//! The error of a system call: which call, and what the kernel said.

use crate::errno;
use crate::fault;
use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd};

/// A failed system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SysError {
    call: &'static str,
    errno: i32,
}

/// The result of a system call.
pub type SysResult<T> = Result<T, SysError>;

impl SysError {
    /// An error of `call` with the number that the kernel gave.
    pub const fn new(call: &'static str, errno: i32) -> Self {
        Self { call, errno }
    }

    /// The calling thread's last error number, as an error of `call`.
    pub fn last(call: &'static str) -> Self {
        Self { call, errno: errno::last() }
    }

    /// True when the kernel's answer was `errno` (a `libc::E*` number).
    pub const fn is(&self, errno: i32) -> bool {
        self.errno == errno
    }

    /// The system call that failed.
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// The kernel's error number.
    pub const fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = errno::name(self.errno) else {
            return write!(f, "{}: unknown error {}", self.call, self.errno);
        };
        let text = std::io::Error::from_raw_os_error(self.errno).to_string();
        // The standard library adds the number, which the name says.
        let text = text.split(" (os error").next().unwrap_or_default();
        write!(f, "{}: {text} ({name})", self.call)
    }
}

impl fmt::Debug for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SysError {}

impl From<SysError> for std::io::Error {
    fn from(error: SysError) -> Self {
        std::io::Error::new(std::io::Error::from_raw_os_error(error.errno).kind(), error)
    }
}

/// Turns the C convention "negative result, number in errno" into a [`SysResult`].
pub(crate) fn check(call: &'static str, result: libc::c_long) -> SysResult<libc::c_long> {
    fault::or(call, if result < 0 { Err(SysError::last(call)) } else { Ok(result) })
}

/// [`check`] for the calls that return a C `int`.
pub(crate) fn check_int(call: &'static str, result: libc::c_int) -> SysResult<libc::c_int> {
    fault::or(call, if result < 0 { Err(SysError::last(call)) } else { Ok(result) })
}

/// [`check`] for the calls that make a descriptor. One whose call is to have failed is closed.
///
/// # Safety
/// - `result` is negative, or a descriptor that the call has just made and no other code knows.
pub(crate) unsafe fn check_made(call: &'static str, result: libc::c_int) -> SysResult<OwnedFd> {
    let made = match result {
        ..0 => Err(SysError::last(call)),
        // SAFETY: - the caller's promise.
        _ => Ok(unsafe { OwnedFd::from_raw_fd(result) }),
    };
    fault::or(call, made)
}

/// [`check`] for the calls that return a length.
pub(crate) fn check_length(call: &'static str, result: libc::ssize_t) -> SysResult<usize> {
    let length = usize::try_from(result).map_err(|_| SysError::last(call));
    fault::or(call, length)
}

/// Repeats `attempt` while signals interrupt it. For calls that may be begun anew, and have no time
/// limit of their own.
pub(crate) fn uninterrupted<T>(mut attempt: impl FnMut() -> SysResult<T>) -> SysResult<T> {
    loop {
        match attempt() {
            Err(error) if error.is(libc::EINTR) => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_the_call_the_reason_and_the_symbol() {
        let error = SysError::new("sched_setaffinity", libc::EPERM);
        assert_eq!(error.to_string(), "sched_setaffinity: Operation not permitted (EPERM)");
        assert_eq!((error.call(), error.errno()), ("sched_setaffinity", libc::EPERM));
    }

    #[test]
    fn a_number_that_has_no_name_is_still_shown() {
        assert_eq!(SysError::new("frob", 4095).to_string(), "frob: unknown error 4095");
    }

    #[test]
    fn as_io_error_it_keeps_kind_and_text() {
        let io = std::io::Error::from(SysError::new("connect", libc::ECONNREFUSED));
        assert_eq!(io.kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(io.to_string().starts_with("connect: "), "{io}");
    }

    #[test]
    fn checks_read_errno_only_for_negative_results() {
        assert_eq!(check("a", 7), Ok(7));
        // SAFETY: - close of a number that is never open touches nothing.
        let refused = check_int("close", unsafe { libc::close(-1) });
        assert_eq!(refused, Err(SysError::new("close", libc::EBADF)));
    }

    #[test]
    fn interrupted_calls_are_repeated_and_other_errors_are_not() {
        let mut turns = 0;
        let outcome = uninterrupted(|| {
            turns += 1;
            if turns < 3 {
                Err(SysError::new("x", libc::EINTR))
            } else {
                Err::<(), _>(SysError::new("x", libc::EIO))
            }
        });
        assert_eq!((outcome, turns), (Err(SysError::new("x", libc::EIO)), 3));
    }
}
