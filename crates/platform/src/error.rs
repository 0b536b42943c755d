//! The error of a system call: which call, and what the kernel said.

use crate::fault;
use nix::errno::Errno;
use std::fmt;

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
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { call, errno }
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
        let errno = Errno::from_raw(self.errno);
        if errno == Errno::UnknownErrno {
            write!(f, "{}: unknown error {}", self.call, self.errno)
        } else {
            write!(f, "{}: {} ({errno:?})", self.call, errno.desc())
        }
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

/// Keeps the call's name on an error of the `nix` crate.
pub(crate) fn named<T>(call: &'static str, result: nix::Result<T>) -> SysResult<T> {
    fault::or(call, result.map_err(|errno| SysError::new(call, errno as i32)))
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
