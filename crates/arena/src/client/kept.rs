//! Descriptors that the program may close under us.
//!
//! A program that closes all of its descriptors (`closefrom`, as daemons do) closes ours too, and the next files that it
//! opens get our numbers. Then nothing of ours may be written there, read from there, or closed there. So each use is
//! preceded by a look at what the number is now. A number that changes between the look and the use cannot be noticed;
//! the look narrows that to the time of one system call.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use platform::event;

/// A descriptor and what it was when it was ours.
#[derive(Debug)]
pub(super) struct Kept {
    fd: ManuallyDrop<OwnedFd>,
    was: Identity,
}

/// What a descriptor's number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    mode: u32,
}

impl Identity {
    /// `None`: the number stands for nothing.
    fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let stat = nix::sys::stat::fstat(fd).ok()?;
        Some(Self { device: stat.st_dev, inode: stat.st_ino, mode: stat.st_mode })
    }
}

/// A [`Kept`] socket.
#[derive(Debug)]
pub(super) struct Socket(Kept);

/// A [`Kept`] doorbell. All eventfds have one inode: their own number tells them apart.
#[derive(Debug)]
pub(super) struct Bell {
    kept: Kept,
    event: Option<u64>,
}

impl Kept {
    fn new(fd: OwnedFd) -> nix::Result<Self> {
        let stat = nix::sys::stat::fstat(&fd)?;
        let was = Identity { device: stat.st_dev, inode: stat.st_ino, mode: stat.st_mode };
        Ok(Self { fd: ManuallyDrop::new(fd), was })
    }

    fn is_ours(&self) -> bool {
        Identity::of(self.fd.as_fd()) == Some(self.was)
    }
}

impl Socket {
    pub(super) fn new(fd: OwnedFd) -> nix::Result<Self> {
        Kept::new(fd).map(Self)
    }

    /// Whatever the number stands for now; to be waited for only.
    pub(super) fn number(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    /// The socket, if it is still there. One system call.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.0.is_ours().then(|| self.0.fd.as_fd())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.0.is_ours() {
            // SAFETY: - dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.0.fd) };
        }
    }
}
