//! One manager per socket: the directory, the lock, the socket file.
//!
//! # Protocol
//! 1. The directory is made (mode 0700), or must belong to this user and be writable by no other
//!    user.
//! 2. `SOCKET.lock` is locked for the manager's whole life; the kernel drops the lock when the
//!    process ends, however. A process that has locked it looks whether it is still the file at
//!    that path: else a user that removes the file would have two managers. Where no process
//!    listens, a lock that is held is asked for again for half a second: its holder was killed this
//!    moment.
//! 3. A process that listens at the socket file is a manager, also without its lock file.
//!    Otherwise, under the lock, the socket file is a dead manager's, and replaced.
//! 4. A manager whose socket file is gone, or replaced, ends: no program finds it, and another one
//!    that is started there would share out the same processors. The kernel tells it (inotify on
//!    the directory), and it looks at each sign of life while programs are there, since what is
//!    above the directory may go, too.
//! 5. A listener that was made before (by the service manager, or by the manager that begins anew
//!    in the same process) is listened on with: what listens at the file is no other manager.
//! 6. At the end the socket file is removed, still under the lock, if it is the one that this
//!    manager made: what a user put at the path is never removed. The lock file stays: removing it
//!    would let a third process lock a file that a second one still waits for.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::libc;
use platform::{SysError, fdpass, process};

use crate::own_file;

/// How long a manager that was killed, or is about to end, may keep its lock when no process
/// listens at its socket any more.
const ENDS: Duration = Duration::from_millis(500);
/// How long a listener at a socket file may take to accept or break a connection.
const LISTENS: Duration = Duration::from_millis(100);

/// The right to be the manager of a socket.
#[derive(Debug)]
pub struct Instance {
    socket: PathBuf,
    lock: Flock<File>,
    // Device and inode of the socket file at which this instance listens.
    made: Option<(u64, u64)>,
    // It is this instance's to remove: another process may hold the listener, too.
    removes: bool,
    // The mode of the socket file.
    mode: u32,
}

/// The holder of a lock file: the process whose number stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(Option<u32>);

impl Holder {
    /// Of the lock beside `socket`.
    pub fn of(socket: &Path) -> Self {
        Self::written_in(&fs::read_to_string(beside(socket, ".lock")).unwrap_or_default())
    }

    fn written_in(text: &str) -> Self {
        Self(text.trim().parse().ok())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("process unknown"),
        }
    }
}

/// How to end a manager.
fn end(holder: &Holder) -> String {
    holder.0.map_or("end it".into(), |pid| format!("end it (kill {pid})"))
}

/// Why this process cannot be the manager of a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// There is one.
    #[error("a manager runs on {} already ({holder}); stop it, or choose another \
             --socket", socket.display())]
    Running {
        /// The socket.
        socket: PathBuf,
        /// Its process, as it wrote it down.
        holder: String,
    },
    /// There is one, and no program can find it.
    #[error(
        "a manager ({holder}) holds {}, but no manager answers at {}: its socket file was removed \
         or replaced; {}",
        beside(socket, ".lock").display(), socket.display(), end(holder)
    )]
    Hidden {
        /// The socket.
        socket: PathBuf,
        /// Its process, as it wrote it down.
        holder: Holder,
    },
    /// This manager cannot be found any more.
    #[error(
        "the socket file {} was removed or replaced: no program finds this manager there, so it \
         ends (those that it had run on, and go to the next one); start it again, where nothing \
         cleans up the directory", socket.display()
    )]
    Displaced {
        /// The socket.
        socket: PathBuf,
    },
    /// The directory is not safe.
    #[error("the socket's directory {} {what}; choose another --socket, or mend the \
             directory", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The path of the socket cannot be one.
    #[error("{} cannot be the manager's socket: {what}", socket.display())]
    Path {
        /// The path.
        socket: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The system refused something.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {}: {source}", socket.display())]
    Listen {
        /// The socket.
        socket: PathBuf,
        /// What the kernel said.
        source: SysError,
    },
}

impl Instance {
    /// Claims `socket` for this process.
    ///
    /// # Errors
    /// When another manager has it, or the place is not safe.
    pub fn claim(socket: &Path) -> Result<Self, InstanceError> {
        Self::claim_with(socket, false)
    }

    /// The same for a process that `has_listener`: what listens there is its own socket.
    ///
    /// # Errors
    /// As `claim`.
    pub fn claim_with(socket: &Path, has_listener: bool) -> Result<Self, InstanceError> {
        Self::claim_within(socket, has_listener, ENDS)
    }

    /// The same, where one that was killed may keep its lock for `ends`.
    fn claim_within(
        socket: &Path,
        has_listener: bool,
        ends: Duration,
    ) -> Result<Self, InstanceError> {
        prepare_directory(socket)?;
        let path = beside(socket, ".lock");
        let mut lock = lock_soon(socket, &path, ends)?;
        // Before anything is changed that may be that manager's.
        if let Some(holder) = (!has_listener).then(|| listener_at(socket)).flatten() {
            return Err(InstanceError::Running {
                socket: socket.to_owned(),
                holder: holder.to_string(),
            });
        }
        let mut before = String::new();
        if lock.read_to_string(&mut before).is_err()
            || !before.trim().bytes().all(|byte| byte.is_ascii_digit())
        {
            let what = format!(
                "{} holds something else than a process number and is not ours to use",
                path.display()
            );
            return Err(InstanceError::Path { socket: socket.to_owned(), what });
        }
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| write!(lock, "{}", std::process::id()));
        written.map_err(|source| InstanceError::Io { what: "cannot write", path, source })?;
        Ok(Self { socket: socket.to_owned(), lock, made: None, removes: false, mode: 0o600 })
    }

    /// Lets every user connect to what [`Instance::listen`] makes, and search its directory; no
    /// other user may write there.
    ///
    /// # Errors
    /// When the directory's mode cannot be changed.
    pub fn open_to_everybody(&mut self) -> Result<(), InstanceError> {
        let dir = self.directory();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(|source| {
            InstanceError::Io { what: "cannot open to every user", path: dir.to_owned(), source }
        })?;
        self.mode = 0o666;
        Ok(())
    }

    /// Listens. A dead manager's socket is replaced; anything else that stands there is not.
    ///
    /// # Errors
    /// When something that is no socket stands there, another process listens there, or the kernel
    /// refuses.
    pub fn listen(&mut self) -> Result<OwnedFd, InstanceError> {
        let socket = &self.socket;
        match fs::symlink_metadata(socket) {
            Ok(data) if !data.file_type().is_socket() => {
                let what = "something that is no socket stands there".into();
                return Err(InstanceError::Path { socket: socket.clone(), what });
            }
            // A dead one's is replaced, and a process that began to listen since the claim keeps
            // it.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(InstanceError::Io {
                    what: "cannot look at",
                    path: socket.clone(),
                    source,
                });
            }
        }
        let listener = fdpass::listen(socket, self.mode)
            .map_err(|source| InstanceError::Listen { socket: socket.clone(), source })?;
        // Without an answer the file stays at the end; the next manager replaces it.
        self.made = file_at(socket);
        self.removes = true;
        Ok(listener)
    }

    /// Listens with a listener that was made before, at the same path. `is_ours`: the file is
    /// removed at the end; otherwise the service manager, which made it, listens on.
    ///
    /// # Errors
    /// When the file's mode cannot be changed.
    pub fn adopt(&mut self, is_ours: bool) -> Result<(), InstanceError> {
        self.made = file_at(&self.socket);
        self.removes = is_ours;
        // The service manager's file has the mode that its unit says.
        let mode = fs::Permissions::from_mode(self.mode);
        let set = if is_ours { fs::set_permissions(&self.socket, mode) } else { Ok(()) };
        set.map_err(|source| InstanceError::Io {
            what: "cannot change the mode of",
            path: self.socket.clone(),
            source,
        })
    }

    /// The next manager listens on with the same listener: the file stays.
    pub fn hand_on(&mut self) {
        self.removes = false;
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it stands.
    pub fn directory(&self) -> &Path {
        self.socket.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// True while the socket file that this instance made stands at its path.
    pub fn is_found(&self) -> bool {
        self.made.is_none() || file_at(&self.socket) == self.made
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Under the lock, which falls with this object: no other manager can have made a socket
        // meanwhile. But this one may have been refused because of a file of the user, or the user
        // may have put one there since.
        if self.removes && self.made.is_some() && file_at(&self.socket) == self.made {
            // Nothing can be done about a failure; the next manager replaces the file.
            let _removed: io::Result<()> = fs::remove_file(&self.socket);
        }
        // The lock file may name its holder; an empty one says that there is none.
        let _emptied: io::Result<()> = self.lock.set_len(0);
    }
}

/// [`lock`], also where the process that has the lock was killed this moment: the kernel closes its
/// socket and drops its lock only when it has freed its memory.
fn lock_soon(socket: &Path, path: &Path, ends: Duration) -> Result<Flock<File>, InstanceError> {
    let begin = Instant::now();
    loop {
        match lock(socket, path) {
            Err(InstanceError::Running { .. })
                if begin.elapsed() < ends && listener_at(socket).is_none() =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            outcome => return outcome,
        }
    }
}

/// Locks the lock file at `path`.
fn lock(socket: &Path, path: &Path) -> Result<Flock<File>, InstanceError> {
    let failed = |what, source| InstanceError::Io { what, path: path.to_owned(), source };
    loop {
        let lock = match Flock::lock(open_lock(path)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
                let mut pid = String::new();
                // What cannot be read says nothing.
                let _length: io::Result<usize> = file.read_to_string(&mut pid);
                let holder = Holder::written_in(&pid).to_string();
                return Err(InstanceError::Running { socket: socket.to_owned(), holder });
            }
            Err((_, errno)) => return Err(failed("cannot lock", errno.into())),
        };
        if stands_at(path, &lock).map_err(|source| failed("cannot look at", source))? {
            return Ok(lock);
        }
        // It was removed between our opening and our lock; the next one may be another's.
    }
}

/// The process that listens at a socket file. [`Instance::listen`] reports anything else that
/// stands there.
fn listener_at(socket: &Path) -> Option<Holder> {
    let mut holder = Holder(None);
    // A manager that was killed this moment may have lost its lock, and not its listener yet: its
    // connections break.
    for _ in 0..3 {
        match fdpass::connect(socket, LISTENS) {
            Ok(connection) => {
                holder = Holder(
                    process::peer_credentials(&connection)
                        .ok()
                        .map(|peer| peer.pid.0.unsigned_abs()),
                );
                // What cannot be waited for does not break.
                let _broken = process::wait_readable(&[connection.as_fd()], Some(LISTENS));
                if !process::is_hung_up(&connection).unwrap_or(false) {
                    break;
                }
            }
            // It has no time for us.
            Err(error) if error.is(libc::ETIMEDOUT) => break,
            Err(_) => return None,
        }
    }
    Some(holder)
}

/// Waits for the right to start a manager: two starters agree on one.
///
/// # Errors
/// When the place is not safe, or the other starter does not come to an end within `timeout`.
pub fn lock_start(socket: &Path, timeout: Duration) -> Result<Flock<File>, InstanceError> {
    prepare_directory(socket)?;
    let path = beside(socket, ".start");
    let mut file = open_lock(&path)?;
    let begin = Instant::now();
    loop {
        // A blocking lock cannot be given up; starters are rare and quick, so that asking again is
        // cheap.
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, nix::errno::Errno::EWOULDBLOCK)) if begin.elapsed() < timeout => {
                file = again
            }
            Err((_, errno)) => {
                return Err(InstanceError::Io { what: "cannot lock", path, source: errno.into() });
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Which file stands at a path; a link counts itself.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// Whether that is the file at a path.
fn stands_at(path: &Path, file: &File) -> io::Result<bool> {
    file.metadata().map(|data| file_at(path) == Some((data.dev(), data.ino())))
}

/// A file beside the socket.
pub fn beside(socket: &Path, ending: &str) -> PathBuf {
    let mut name = socket.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    socket.with_file_name(name)
}

fn open_lock(path: &Path) -> Result<File, InstanceError> {
    let opened = own_file::open(path, OFlag::O_RDWR, own_file::OWN);
    opened.map_err(|source| InstanceError::Io {
        what: "cannot open",
        path: path.to_owned(),
        source,
    })
}

/// Makes the directory of a socket, or checks that no user but this one can change what is in it.
///
/// # Errors
/// When it cannot be made, or is not safe.
pub fn prepare_directory(socket: &Path) -> Result<(), InstanceError> {
    let bad = |what: &str| InstanceError::Path { socket: socket.to_owned(), what: what.into() };
    if socket.file_name().is_none() {
        return Err(bad("a path names a file in a directory"));
    }
    let dir = match socket.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        Some(_) => Path::new("."),
        None => return Err(bad("a path names a file in a directory")),
    };
    // A mistyped path: no user keeps a socket there, and the superuser could make the directory.
    if dir.parent() == Some(Path::new("/")) && !dir.exists() {
        return Err(bad("its directory is not there, and none is made in the root directory"));
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        // Whatever the umask took away.
        Ok(()) => {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(|source| {
                InstanceError::Io {
                    what: "cannot change the mode of",
                    path: dir.to_owned(),
                    source,
                }
            })?
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => {
            return Err(InstanceError::Io {
                what: "cannot make the socket's directory",
                path: dir.to_owned(),
                source,
            });
        }
    }
    let data = fs::symlink_metadata(dir).map_err(|source| InstanceError::Io {
        what: "cannot look at",
        path: dir.to_owned(),
        source,
    })?;
    let refuse = |what: String| Err(InstanceError::Directory { dir: dir.to_owned(), what });
    let me = nix::unistd::geteuid().as_raw();
    if data.file_type().is_symlink() {
        return refuse("is a symbolic link".into());
    }
    if !data.is_dir() {
        return refuse("is no directory".into());
    }
    if data.uid() != me {
        return refuse(format!("belongs to user {}, not to user {me}", data.uid()));
    }
    if data.mode() & 0o022 != 0 {
        return refuse(format!(
            "has mode {:o}: others may write there; it needs 0700",
            data.mode() & 0o7777
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
