//! Descriptors that the service manager passes, or the manager that begins anew.
//!
//! # Protocol
//! `LISTEN_PID` names the process for which they are, `LISTEN_FDS` says how many there are from
//! number 3 on, `LISTEN_FDNAMES` what each is called (sd_listen_fds(3)).

use std::env;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use platform::{SysError, fdpass};

/// The first one.
const FIRST: RawFd = 3;
/// More are not looked at.
const MOST: i32 = 64;
/// What a listener is called that a manager of ours made: its file is ours to remove.
pub(crate) const STORED: &str = "stored-listener";

/// What was passed to this process.
#[derive(Debug, Default)]
pub struct Passed(Vec<(String, OwnedFd)>);

/// A listener that was made before this process.
#[derive(Debug)]
pub struct Listener {
    /// The descriptor.
    pub fd: OwnedFd,
    /// A manager made it, and not the service manager, which keeps it when this process ends.
    pub is_ours: bool,
}

impl Passed {
    /// Takes them. Call it before anything else opens descriptors.
    pub fn take() -> Self {
        let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
        if number("LISTEN_PID") != Some(std::process::id().cast_signed()) {
            return Self::default();
        }
        let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
        let mut taken = Vec::new();
        for raw in FIRST..FIRST + count {
            let name = names.next().unwrap_or_default();
            // SAFETY: - the descriptor is only marked; one that is not open is EBADF.
            let marked = unsafe { fcntl(BorrowedFd::borrow_raw(raw), CLOSE_ON_EXEC) };
            if marked.is_ok() {
                // SAFETY: - it is open, as was just seen, and by the protocol it was passed to this
                //           process, in which no other code owns it: nothing was opened before.
                taken.push((name, unsafe { OwnedFd::from_raw_fd(raw) }));
            }
        }
        Self(taken)
    }

    /// The one that listens at `socket`; the others are closed.
    pub(crate) fn listener_at(self, socket: &Path, shared: bool) -> Option<Listener> {
        let mut found = None;
        for (name, fd) in self.0 {
            match fdpass::listen_on(&fd, shared) {
                Ok(Some(path)) if path == socket && found.is_none() => {
                    found = Some(Listener { fd, is_ours: name == STORED });
                }
                Ok(path) => {
                    let path = path.unwrap_or_default();
                    tracing::warn!(name, path = %path.display(), socket = %socket.display(),
                        "a passed descriptor is no listener of the kind and path that are needed: \
                         left out");
                }
                Err(error) => tracing::warn!(name, %error, "a passed descriptor cannot be used"),
            }
        }
        found
    }
}

const CLOSE_ON_EXEC: FcntlArg<'static> = FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC);

/// `command` replaces this process, and gets `listener`, or nothing that this process got.
///
/// # Errors
/// When the descriptor cannot be put where it has to be.
pub(crate) fn pass_on(command: &mut Command, listener: Option<Listener>) -> Result<(), SysError> {
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
        command.env_remove(name);
    }
    let Some(Listener { fd, is_ours }) = listener else { return Ok(()) };
    if fd.as_raw_fd() == FIRST {
        let inherits = fcntl(&fd, FcntlArg::F_SETFD(FdFlag::empty()));
        inherits.map_err(|errno| SysError::new("fcntl(F_SETFD)", errno as i32))?;
    } else {
        // SAFETY: - dup2 takes two numbers. What else is open at the target ends with this program,
        //           which does nothing more but becoming the next one.
        if unsafe { nix::libc::dup2(fd.as_raw_fd(), FIRST) } < 0 {
            return Err(SysError::new("dup2", Errno::last_raw()));
        }
    }
    // It stays open until the program is replaced.
    std::mem::forget(fd);
    command.env("LISTEN_PID", std::process::id().to_string()).env("LISTEN_FDS", "1");
    command.env("LISTEN_FDNAMES", if is_ours { STORED } else { "app" });
    Ok(())
}
