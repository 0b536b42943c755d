//! Doorbells: event counters that one process rings and another one waits for.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::aside::Aside;
use crate::descriptor::above_streams;
use crate::error::{SysError, SysResult, check_length, check_made, uninterrupted};

/// An eventfd. It becomes readable when rung and stays so until [`Doorbell::clear`]; many rings are
/// one. Both sides may be any process that holds the descriptor.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A doorbell that is not rung.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: descriptors are used up.
    pub fn new() -> SysResult<Self> {
        // SAFETY: - eventfd takes two numbers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        // SAFETY: - eventfd has just made the descriptor, and no other code knows it.
        above_streams(unsafe { check_made("eventfd2", event) }?).map(Self)
    }

    /// Takes a descriptor that came from another process. That it is an eventfd is not checked: on
    /// anything else [`Doorbell::ring`] fails or writes eight unwanted bytes, so take it from a
    /// trusted process only.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Rings. One system call. Never waits, since [`Doorbell::new`] makes it so; a caller compares
    /// [`event_id`] first where the program may have closed the descriptor, so that the number may
    /// stand for something else by now.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`, `EPIPE`: the descriptor is no eventfd.
    pub fn ring(&self) -> SysResult<()> {
        ring(&self.0)
    }

    /// Takes all rings away; true when there were any.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`: the descriptor is no eventfd. `EBADMSG`: it is something else that can be
    /// read.
    pub fn clear(&self) -> SysResult<bool> {
        const CALL: &str = "read(eventfd)";
        let mut count = 0_u64;
        let mut read = || {
            let place = (&raw mut count).cast();
            // SAFETY: - the kernel writes at most 8 bytes, to `count`, for which any are valid.
            unsafe { libc::read(self.0.as_raw_fd(), place, size_of::<u64>()) }
        };
        match uninterrupted(|| check_length(CALL, read())) {
            Ok(8) => Ok(true),
            Ok(_) => Err(SysError::new(CALL, libc::EBADMSG)),
            Err(error) if error.is(libc::EAGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Doorbell> for OwnedFd {
    fn from(doorbell: Doorbell) -> Self {
        doorbell.0
    }
}

/// [`Doorbell::ring`] for a descriptor that the caller borrows.
///
/// # Errors
/// As there.
pub fn ring(fd: impl AsFd) -> SysResult<()> {
    let _aside = Aside::begin();
    let one = 1_u64;
    let write = || {
        // SAFETY: - the kernel reads 8 bytes of `one`, which lives through the call.
        unsafe { libc::write(fd.as_fd().as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) }
    };
    match uninterrupted(|| check_length("write(eventfd)", write())) {
        // The counter is full: rung already.
        Err(error) if error.is(libc::EAGAIN) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// The kernel's number of the event counter of a descriptor: all eventfds of a machine are one
/// anonymous inode, so that `fstat` cannot tell them apart. Unique while the counter is open
/// anywhere. `None`: no eventfd, or a kernel before 5.2, or no `/proc`, or no free descriptor to
/// read it by. Three system calls.
pub fn event_id(fd: impl AsFd) -> Option<u64> {
    // Not /proc/self: that is the first thread, which may have ended before the others.
    let path = format!("/proc/thread-self/fdinfo/{}", fd.as_fd().as_raw_fd());
    parse_event_id(&crate::file::text(path).ok()?)
}

fn parse_event_id(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("eventfd-id:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::wait_readable;
    use std::time::Duration;

    #[test]
    fn many_rings_are_one_and_clear_takes_them() {
        let bell = Doorbell::new().unwrap();
        assert!(!bell.clear().unwrap());
        assert!(wait_readable(&[bell.as_fd()], Some(Duration::ZERO)).unwrap().is_empty());
        bell.ring().unwrap();
        bell.ring().unwrap();
        assert_eq!(wait_readable(&[bell.as_fd()], None).unwrap(), [0]);
        assert!(bell.clear().unwrap());
        assert!(!bell.clear().unwrap());
    }

    #[test]
    fn a_full_counter_does_not_stop_the_ringer() {
        let bell = Doorbell::new().unwrap();
        nix::unistd::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        bell.ring().unwrap();
        assert!(bell.clear().unwrap());
    }

    #[test]
    fn an_event_counter_is_known_by_its_number_through_any_descriptor() {
        let (bell, other) = (Doorbell::new().unwrap(), Doorbell::new().unwrap());
        let Some(id) = event_id(&bell) else {
            crate::skip!("fdinfo of this system has no eventfd-id (Linux 5.2 has, with /proc)");
            return;
        };
        assert_eq!(event_id(bell.as_fd().try_clone_to_owned().unwrap()), Some(id));
        assert_ne!(event_id(&other), Some(id));
        assert_eq!(event_id(std::fs::File::open("/dev/null").unwrap()), None);
    }

    #[test]
    fn the_number_is_a_line_of_fdinfo() {
        let info = "pos:\t0\nflags:\t02004002\neventfd-count:                3\neventfd-id: \
                    17\neventfd-semaphore: 0\n";
        assert_eq!(parse_event_id(info), Some(17));
        assert_eq!(parse_event_id("pos:\t0\neventfd-count: 3\n"), None);
        assert_eq!(parse_event_id("eventfd-id: x\n"), None);
    }

    #[test]
    fn a_descriptor_that_is_no_eventfd_is_reported() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let bell = Doorbell::from_fd(null.into());
        assert_eq!(bell.ring().unwrap_err().errno(), libc::EBADF);
        assert_eq!(bell.clear().unwrap_err().errno(), libc::EBADMSG);
    }
}
