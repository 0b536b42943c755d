//! Descriptors: their numbers, and whether two numbers are one open file.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::error::{SysError, SysResult, check_int, check_made};

/// The first number that is no standard stream's.
const FIRST: RawFd = 3;

/// `fcntl` of Linux 6.10 (`F_LINUX_SPECIFIC_BASE + 3`): whether two numbers are the same open file.
const F_DUPFD_QUERY: libc::c_int = 1027;

/// Whether two numbers stand for the same open file: one is a copy of the other. One system call,
/// some 100 ns, and unlike device and inode it tells files of one inode apart (all event counters
/// are one). `None`: the kernel does not tell (before Linux 6.10).
///
/// # Errors
/// `EBADF`: one of them is closed, which a program may do without our knowledge.
pub fn is_same_file(one: impl AsFd, other: impl AsFd) -> SysResult<Option<bool>> {
    let (one, other) = (one.as_fd().as_raw_fd(), other.as_fd().as_raw_fd());
    // SAFETY: - this fcntl takes two numbers and touches no memory of ours.
    match check_int("fcntl(F_DUPFD_QUERY)", unsafe { libc::fcntl(one, F_DUPFD_QUERY, other) }) {
        Ok(answer) => Ok(Some(answer != 0)),
        Err(error) if error.is(libc::EINVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same open file at a number that is no standard stream's; close-on-exec. For every descriptor
/// that is kept: the kernel gives the lowest free number, and a program that was started without
/// standard output would print into our socket. No system call, unless a stream is closed.
///
/// # Errors
/// `EMFILE`: descriptors are used up.
pub fn above_streams(fd: OwnedFd) -> SysResult<OwnedFd> {
    if fd.as_raw_fd() >= FIRST {
        return Ok(fd);
    }
    // SAFETY: - this fcntl takes a number and touches no memory of ours.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST) };
    // SAFETY: - fcntl has just made the descriptor, and no other code knows it.
    unsafe { check_made("fcntl(F_DUPFD_CLOEXEC)", moved) }
}

/// A copy of a descriptor, at another number, which is no standard stream's; close-on-exec.
///
/// # Errors
/// `EMFILE`: descriptors are used up.
pub fn copy(fd: impl AsFd) -> SysResult<OwnedFd> {
    const CALL: &str = "fcntl(F_DUPFD_CLOEXEC)";
    let copy = fd.as_fd().try_clone_to_owned();
    crate::fault::or(
        CALL,
        copy.map_err(|error| SysError::new(CALL, error.raw_os_error().unwrap_or(0))),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::event::Doorbell;

    #[test]
    fn a_copy_is_the_same_file_and_another_of_the_same_inode_is_not() {
        let (bell, other) = (Doorbell::new().unwrap(), Doorbell::new().unwrap());
        let copied = copy(&bell).unwrap();
        match is_same_file(&bell, &copied).unwrap() {
            None => crate::skip!("this kernel does not compare descriptors (Linux 6.10 does)"),
            same => {
                assert_eq!(same, Some(true));
                assert_eq!(is_same_file(&copied, &bell), Ok(Some(true)));
                assert_eq!(is_same_file(&bell, &other), Ok(Some(false)));
                assert_eq!(is_same_file(&other, std::io::stderr()), Ok(Some(false)));
            }
        }
    }
}
/// Bytes that can be read from a pipe now.
///
/// # Errors
/// `ENOTTY` when it is nothing of that kind.
pub fn unread(fd: impl AsFd) -> SysResult<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: - the descriptor is open as long as it is borrowed;
    // - FIONREAD writes one int, to a variable of this type.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    check_int("ioctl(FIONREAD)", result)?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}
