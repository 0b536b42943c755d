//! Job tokens in a pipe or a fifo, as many as there shall be.
//!
//! # Invariants
//! - T1 A token is a byte. Of those that are out, some are in the pipe and the others with clients,
//!   which write them back. More are written at once; fewer are taken out when they are there:
//!   before a client takes one, where this process is faster, and in any case before the number
//!   grows.
//! - T2 A client that was killed does not write back what it held. It is known how many tokens the
//!   processes that live can hold (`tree`). When more are missing for [`PATIENCE`] looks, those are
//!   lost, and others are written in their place. When a client writes back more than there shall
//!   be, they are taken out.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::stat::Mode;

use crate::cli::Style;
use crate::error::Error;

/// Looks at which tokens are missing before they count as lost.
const PATIENCE: u32 = 3;
/// The most: what a pipe holds.
const MOST: u32 = 4096;

/// The tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    place: Place,
    /// A description of its own, which does not wait.
    own: File,
    /// Tokens that are out: in the pipe or with clients.
    out: u32,
    /// How many there shall be.
    aim: u32,
    /// How many were missing at the last looks, and for how many looks.
    missing: (u32, u32),
}

#[derive(Debug)]
enum Place {
    /// The descriptors that clients inherit.
    Pipe { read: OwnedFd, write: OwnedFd },
    /// Removed with its directory.
    Fifo { path: PathBuf },
}

/// The program inherits the pipe as long as this is there.
pub(super) struct Shared<'a>(&'a Tokens);

impl Tokens {
    /// As many tokens in a new pipe.
    ///
    /// # Errors
    /// When the kernel or the file system refuses.
    pub(super) fn create(style: Style, tokens: u32) -> Result<Self, Error> {
        let place = match style {
            Style::Pipe => {
                let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)
                    .map_err(|errno| platform::SysError::new("pipe2", errno as i32))?;
                Place::Pipe { read, write }
            }
            Style::Fifo => Place::Fifo { path: make_fifo()? },
        };
        let path = match &place {
            Place::Pipe { read, .. } => {
                PathBuf::from(format!("/proc/self/fd/{}", read.as_raw_fd()))
            }
            Place::Fifo { path } => path.clone(),
        };
        // Both ends, so that no open waits for the other end.
        let own = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits())
            .open(&path);
        let own = own.map_err(|source| Error::Io { what: "cannot open", path, source })?;
        let mut all = Self { place, own, out: 0, aim: 0, missing: (0, 0) };
        all.aim_at(tokens);
        all.settle();
        Ok(all)
    }

    /// The value of `MAKEFLAGS`, after other flags that stand there.
    pub(super) fn flags(&self, others: Option<&OsStr>) -> OsString {
        let mut flags = others.map(OsStr::to_owned).unwrap_or_default();
        // Words without a hyphen are single letters, and come first.
        flags.push(" -j --jobserver-auth=");
        match &self.place {
            Place::Pipe { read, write } => {
                flags.push(format!("{},{}", read.as_raw_fd(), write.as_raw_fd()));
            }
            Place::Fifo { path } => {
                flags.push("fifo:");
                flags.push(path);
            }
        }
        flags
    }

    /// The next process that is started inherits the pipe.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn share(&self) -> Result<Shared<'_>, Error> {
        self.inherit(FdFlag::empty())?;
        Ok(Shared(self))
    }

    fn inherit(&self, flag: FdFlag) -> Result<(), Error> {
        let Place::Pipe { read, write } = &self.place else { return Ok(()) };
        for fd in [read, write] {
            fcntl(fd, FcntlArg::F_SETFD(flag))
                .map_err(|errno| platform::SysError::new("fcntl(F_SETFD)", errno as i32))?;
        }
        Ok(())
    }

    /// How many there shall be.
    pub(super) fn aim_at(&mut self, tokens: u32) {
        self.aim = tokens.min(MOST);
    }

    /// Writes what is too few, takes what is too many as far as it is there.
    pub(super) fn settle(&mut self) {
        if self.out < self.aim {
            let more = (self.aim - self.out) as usize;
            let written = self.own.write(&vec![b'+'; more]).unwrap_or(0);
            self.out += u32::try_from(written).unwrap_or(0);
        } else if self.out > self.aim {
            let mut taken = vec![0; (self.out - self.aim) as usize];
            // EAGAIN: all are with clients.
            let read = self.own.read(&mut taken).unwrap_or(0);
            self.out -= u32::try_from(read).unwrap_or(0);
        }
    }

    /// What to wait for when there are too many.
    pub(super) fn wants_one(&self) -> Option<BorrowedFd<'_>> {
        (self.out > self.aim).then(|| self.own.as_fd())
    }

    /// The processes that live can hold at most this many (T2); `None`: that is not known.
    pub(super) fn count(&mut self, held: Option<u32>) {
        let (Some(held), Ok(there)) = (held, self.there()) else { return };
        if there > self.out {
            // Written back by one whose tokens had counted as lost.
            self.out = there;
            return self.settle();
        }
        let missing = (self.out - there).saturating_sub(held);
        let (least, looks) = self.missing;
        self.missing = match (missing, looks) {
            (0, _) => (0, 0),
            (_, 0) => (missing, 1),
            _ => (missing.min(least), looks + 1),
        };
        let (lost, looks) = self.missing;
        if looks >= PATIENCE {
            self.out -= lost;
            self.missing = (0, 0);
            self.settle();
        }
    }

    /// How many are in the pipe.
    fn there(&self) -> io::Result<u32> {
        Ok(platform::descriptor::unread(&self.own)?)
    }
}

/// A fifo that only this user can open, at a path that can stand in `MAKEFLAGS`.
fn make_fifo() -> Result<PathBuf, Error> {
    let usual = ["XDG_RUNTIME_DIR", "TMPDIR"].map(std::env::var_os).into_iter().flatten();
    let whole = |path: &OsString| {
        !path.is_empty() && !path.as_bytes().iter().any(|it| it.is_ascii_whitespace())
    };
    let places = usual.filter(whole).map(PathBuf::from).chain(["/tmp".into()]);
    let mut failed = None;
    for place in places {
        let made = nix::unistd::mkdtemp(&place.join("cpumgr-jobs-XXXXXX")).and_then(|directory| {
            let path = directory.join("tokens");
            nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).map(|()| path)
        });
        match made {
            Ok(path) => return Ok(path),
            Err(errno) => failed = Some((place, errno)),
        }
    }
    let (path, errno) = failed.unwrap_or_else(|| ("/tmp".into(), nix::errno::Errno::ENOENT));
    Err(Error::Io { what: "cannot make a fifo in", path, source: errno.into() })
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        // Where it fails this process's other children would inherit it: there are none.
        let _closed = self.0.inherit(FdFlag::FD_CLOEXEC);
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if let Place::Fifo { path } = &self.place {
            // A directory that is not removed is a temporary one.
            let _removed = std::fs::remove_file(path);
            let _removed = path.parent().map(std::fs::remove_dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(tokens: &Tokens, number: usize) {
        assert_eq!((&tokens.own).read(&mut vec![0; number]).unwrap(), number);
    }

    #[test]
    fn tokens_follow_the_aim_as_far_as_clients_let_them() {
        for style in [Style::Pipe, Style::Fifo] {
            let mut tokens = Tokens::create(style, 3).unwrap();
            assert_eq!(tokens.there().unwrap(), 3);
            take(&tokens, 2);
            tokens.aim_at(1);
            tokens.settle();
            assert_eq!((tokens.there().unwrap(), tokens.out), (0, 2), "two are with clients");
            assert!(tokens.wants_one().is_some());
            // A client is done with its job.
            assert_eq!((&tokens.own).write(b"+").unwrap(), 1);
            tokens.settle();
            assert_eq!((tokens.there().unwrap(), tokens.out), (0, 1));
            assert!(tokens.wants_one().is_none());
            tokens.aim_at(4);
            tokens.settle();
            assert_eq!((tokens.there().unwrap(), tokens.out), (3, 4));
        }
    }

    #[test]
    fn what_no_process_can_hold_for_a_while_is_lost_and_comes_again() {
        let mut tokens = Tokens::create(Style::Pipe, 4).unwrap();
        take(&tokens, 4);
        (0..10).for_each(|_| tokens.count(Some(4)));
        assert_eq!(tokens.there().unwrap(), 0, "living processes hold them");
        (0..PATIENCE - 1).for_each(|_| tokens.count(Some(1)));
        assert_eq!(tokens.there().unwrap(), 0, "not at once");
        tokens.count(Some(2));
        assert_eq!((tokens.there().unwrap(), tokens.out), (2, 4), "as many as always were missing");
        // It was not dead: what it writes back is too many, and goes.
        assert_eq!((&tokens.own).write(b"++++").unwrap(), 4);
        tokens.count(Some(0));
        assert_eq!((tokens.there().unwrap(), tokens.out), (4, 4));
        (0..10).for_each(|_| tokens.count(None));
        assert_eq!(tokens.out, 4);
    }

    #[test]
    fn the_place_is_named_in_makes_flags_and_a_fifo_goes_with_its_directory() {
        let tokens = Tokens::create(Style::Fifo, 0).unwrap();
        let flags = tokens.flags(Some(OsStr::new("k"))).into_string().unwrap();
        let path = flags.strip_prefix("k -j --jobserver-auth=fifo:").unwrap().to_owned();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&metadata) & 0o777, 0o600);
        drop(tokens);
        assert!(!std::path::Path::new(&path).parent().unwrap().exists());
        let pipe = Tokens::create(Style::Pipe, 0).unwrap().flags(None).into_string().unwrap();
        let (read, write) =
            pipe.strip_prefix(" -j --jobserver-auth=").unwrap().split_once(',').unwrap();
        assert!(read.parse::<i32>().is_ok() && write.parse::<i32>().is_ok(), "{pipe}");
    }
}
