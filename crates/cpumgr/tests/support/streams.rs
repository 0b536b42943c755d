//! A program that was started without standard streams.

use std::io::Error;
use std::os::fd::RawFd;

use nix::libc;

const STREAMS: [RawFd; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];
/// Above every number that the test opens.
const ASIDE: RawFd = 100;

/// Does something while the standard streams are closed; says which of their numbers something else
/// has afterwards.
pub(super) fn without_streams<T>(action: impl FnOnce() -> T) -> (T, Vec<RawFd>) {
    let aside = STREAMS.map(|stream| {
        // SAFETY: - fcntl takes numbers and touches no memory.
        let copy = unsafe { libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, ASIDE) };
        assert!(copy >= ASIDE, "{}", Error::last_os_error());
        // SAFETY: - nothing owns the standard streams, and no other thread uses them: the harness
        // waits for this test.
        assert_eq!(unsafe { libc::close(stream) }, 0);
        copy
    });
    let outcome = action();
    // SAFETY: - fcntl only asks.
    let taken = STREAMS
        .into_iter()
        .filter(|stream| unsafe { libc::fcntl(*stream, libc::F_GETFD) } >= 0)
        .collect();
    for (stream, copy) in STREAMS.into_iter().zip(aside) {
        // SAFETY: - the copy is open, and whatever has the stream's number had no right to it.
        assert_eq!(unsafe { libc::dup2(copy, stream) }, stream);
        // SAFETY: - made above, and no other code knows it.
        assert_eq!(unsafe { libc::close(copy) }, 0);
    }
    (outcome, taken)
}
