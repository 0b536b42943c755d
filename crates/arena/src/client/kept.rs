//! Descriptors that the program may close under us.
//!
//! A program that closes all of its descriptors (`closefrom`, as daemons do) closes ours too, and
//! the next files that it opens get our numbers. Then nothing of ours may be written there, read
//! from there, or closed there. So each use is preceded by a look at what the number is now. A
//! number that changes between the look and the use cannot be noticed; the look narrows that to the
//! time of one system call.
//!
//! A ring is on the way from a request to a running virtual processor, and the number of an event
//! counter stands in a file of `/proc` only, which takes some 10 us to read. So the doorbell has a
//! copy, at another number: as long as both are the same open file (one cheap call, Linux 6.10),
//! both are ours. For a program to have one file of its own at both numbers, it has to close both
//! and open it twice there, and to leave the socket alone meanwhile.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use platform::descriptor::{copy, is_same_file};
use platform::event::{Doorbell, event_id};
use platform::{SysResult, fdpass};

/// What a descriptor's number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    mode: u32,
}

impl FileIdentity {
    fn of(fd: BorrowedFd<'_>) -> SysResult<Self> {
        let status = platform::file::status(fd)?;
        Ok(Self { device: status.st_dev, inode: status.st_ino, mode: status.st_mode })
    }
}

/// A descriptor and what it was when it was ours.
#[derive(Debug)]
struct Kept {
    fd: ManuallyDrop<OwnedFd>,
    was: FileIdentity,
    // All eventfds of a machine are one inode; their own number tells them apart.
    event: Option<u64>,
}

impl Kept {
    fn new(fd: OwnedFd) -> SysResult<Self> {
        let was = FileIdentity::of(fd.as_fd())?;
        Ok(Self { was, event: event_id(&fd), fd: ManuallyDrop::new(fd) })
    }

    fn is_ours(&self) -> bool {
        let fd = self.fd.as_fd();
        let same = FileIdentity::of(fd).is_ok_and(|now| now == self.was);
        // A number that cannot be read any more (no free descriptor, another root) says nothing:
        // the rest decides.
        same && self.event.is_none_or(|event| event_id(fd).is_none_or(|now| now == event))
    }

    fn close(&mut self) {
        // SAFETY: - the callers, `Descriptors::drop` and `Socket::drop`, close each descriptor once
        // and use none afterwards.
        unsafe { ManuallyDrop::drop(&mut self.fd) };
    }
}

/// A socket to a manager. Dropping it closes it while it is ours.
#[derive(Debug)]
pub(super) struct Socket(Kept);

impl Socket {
    pub(super) fn new(socket: OwnedFd) -> SysResult<Self> {
        Kept::new(socket).map(Self)
    }

    /// Whatever its number stands for now: to wait for, and for nothing else.
    pub(super) fn unchecked(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    /// It, while it is ours. One system call.
    pub(super) fn ours(&self) -> Option<BorrowedFd<'_>> {
        self.0.is_ours().then(|| self.0.fd.as_fd())
    }

    /// Ends the conversation, and whatever wait there is for the other side. False when the number
    /// is not ours any more.
    pub(super) fn hang_up(&self) -> bool {
        let Some(socket) = self.ours() else { return false };
        // An error means that it is not connected any more, which ends a wait as well.
        // SAFETY: - takes two numbers; the descriptor is open as long as it is borrowed.
        let _ended = unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
        true
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // What is not ours is left alone: it is the program's, or nothing's.
        if self.0.is_ours() {
            self.0.close();
        }
    }
}

/// The descriptors of a registration. Dropping it closes what is still ours.
#[derive(Debug)]
pub(super) struct Descriptors {
    socket: Arc<Socket>,
    doorbell: Kept,
    /// Where the kernel compares descriptors, and one was to be had.
    copy: Option<Kept>,
}

impl Descriptors {
    pub(super) fn new(socket: Arc<Socket>, doorbell: OwnedFd) -> SysResult<Self> {
        let compared =
            copy(&doorbell).ok().filter(|copy| is_same_file(&doorbell, copy) == Ok(Some(true)));
        let copy = compared.map(Kept::new).transpose()?;
        Ok(Self { socket, doorbell: Kept::new(doorbell)?, copy })
    }

    /// Of a registration that is still to be made: no process has the other ends.
    pub(super) fn of_nobody() -> SysResult<Self> {
        let (socket, _hung_up) = fdpass::pair()?;
        Self::new(Arc::new(Socket::new(socket)?), Doorbell::new()?.into())
    }

    /// Doorbell and copy are one file still.
    fn are_same(&self) -> bool {
        self.copy
            .as_ref()
            .is_some_and(|copy| is_same_file(&*self.doorbell.fd, &*copy.fd) == Ok(Some(true)))
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The doorbell, while it is ours. Two system calls; seven where the kernel does not compare
    /// descriptors, or when the program has closed the copy.
    pub(super) fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        // The socket counts too: when the manager has closed its end of a doorbell that we lost,
        // the kernel gives that doorbell's number to the next eventfd, which may be the program's.
        // A socket's inode does not come again so soon.
        (self.socket.ours().is_some() && (self.are_same() || self.doorbell.is_ours()))
            .then(|| self.doorbell.fd.as_fd())
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // Before the socket, see `doorbell`.
        let has_socket = self.socket.ours().is_some();
        for kept in [&mut self.doorbell].into_iter().chain(&mut self.copy) {
            if has_socket && kept.is_ours() {
                kept.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{FromRawFd, RawFd};
    use std::time::{Duration, Instant};

    struct Registration {
        descriptors: Descriptors,
        socket: RawFd,
        doorbell: RawFd,
        manager: OwnedFd,
    }

    fn registration() -> Registration {
        let (socket, manager) = fdpass::pair().unwrap();
        let doorbell = OwnedFd::from(Doorbell::new().unwrap());
        let (raw_socket, raw_doorbell) = (socket.as_raw_fd(), doorbell.as_raw_fd());
        let socket = Arc::new(Socket::new(socket).unwrap());
        let descriptors = Descriptors::new(socket, doorbell).unwrap();
        Registration { descriptors, socket: raw_socket, doorbell: raw_doorbell, manager }
    }

    /// What a program does that closes a number and opens something else; in one step, since other
    /// tests open descriptors at the same time.
    fn put_in_place(number: RawFd, by: impl AsFd) {
        // SAFETY: - dup2 takes two numbers; `number` is open, and the test owns it from now on.
        assert_eq!(unsafe { libc::dup2(by.as_fd().as_raw_fd(), number) }, number);
    }

    /// The socket is closed, once children of other tests, which have copies until they exec, are
    /// gone.
    fn is_hung_up_soon(manager: &OwnedFd) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if platform::process::is_hung_up(manager).unwrap() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Takes a number back that must still be open.
    fn still_open(number: RawFd) -> OwnedFd {
        // SAFETY: - fcntl only asks.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert!(flags >= 0, "descriptor {number} was closed");
        // SAFETY: - put there by `put_in_place`, open, and left alone by `Descriptors`.
        unsafe { OwnedFd::from_raw_fd(number) }
    }

    #[test]
    fn what_is_ours_is_closed_at_the_end() {
        let Registration { descriptors, manager, .. } = registration();
        assert!(descriptors.socket().ours().is_some() && descriptors.doorbell().is_some());
        drop(descriptors);
        assert!(is_hung_up_soon(&manager));
    }

    #[test]
    fn another_file_in_the_doorbells_place_is_neither_given_out_nor_closed() {
        let Registration { descriptors, doorbell, manager, .. } = registration();
        put_in_place(doorbell, File::open("/dev/null").unwrap());
        assert!(descriptors.doorbell().is_none());
        assert!(descriptors.socket().ours().is_some());
        drop(descriptors);
        drop(still_open(doorbell));
        assert!(is_hung_up_soon(&manager), "the socket was ours");
    }

    #[test]
    fn another_event_counter_in_the_doorbells_place_is_noticed() {
        let Registration { descriptors, doorbell, .. } = registration();
        let other = Doorbell::new().unwrap();
        if event_id(&other).is_none() {
            platform::skip!("fdinfo of this system has no eventfd-id (Linux 5.2 has, with /proc)");
            return;
        }
        put_in_place(doorbell, &other);
        assert!(descriptors.doorbell().is_none());
        drop(descriptors);
        drop(still_open(doorbell));
    }

    #[test]
    fn another_socket_in_the_sockets_place_takes_the_doorbell_with_it() {
        let Registration { descriptors, socket, doorbell, .. } = registration();
        let (other, _end) = fdpass::pair().unwrap();
        put_in_place(socket, &other);
        assert!(descriptors.socket().ours().is_none());
        assert!(descriptors.doorbell().is_none());
        drop(descriptors);
        drop((still_open(socket), still_open(doorbell)));
    }
}
