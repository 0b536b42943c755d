//! Files that the manager writes beside its socket or where a user names one: the lock, the log,
//! the trace, the history. Opening one waits for no pipe and takes no terminal, and what is opened
//! is a regular file of this user.
//!
//! # Links
//! The file itself may be no symbolic link. On the way to it only links of the superuser and of
//! this user are followed (`/var/run`): another user's might lead the manager to a place where that
//! user may not write. The way is walked directory by directory, each one held open: none can
//! become a link between the look at it and the step into it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, mkdirat};

/// For this user alone.
pub(crate) const OWN: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
/// Links on one way; the kernel follows as many.
const MAX_LINKS: usize = 40;

/// A name in a directory that is held open.
#[derive(Debug)]
pub(crate) struct Place {
    directory: File,
    name: OsString,
}

impl Place {
    /// The place that a path names.
    ///
    /// # Errors
    /// When it names no file, a directory above it is not there, or the way leads through another
    /// user's link.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else { return Err(refused("it names no file")) };
        let above = path.parent().unwrap_or(Path::new(""));
        Ok(Self { directory: walk(above)?, name: name.to_owned() })
    }

    /// Device and inode of its directory.
    ///
    /// # Errors
    /// When that cannot be known.
    pub(crate) fn folder(&self) -> io::Result<(u64, u64)> {
        let data = self.directory.metadata()?;
        Ok((data.dev(), data.ino()))
    }

    /// A place beside it.
    ///
    /// # Errors
    /// When there is no descriptor.
    pub(crate) fn beside(&self, ending: &str) -> io::Result<Self> {
        let mut name = self.name.clone();
        name.push(ending);
        Ok(Self { directory: self.directory.try_clone()?, name })
    }

    /// Opens the file there, or makes it with that mode.
    ///
    /// # Errors
    /// When it cannot be opened, is a symbolic link, no regular file, or another user's.
    pub(crate) fn open(&self, flags: OFlag, mode: Mode) -> io::Result<File> {
        // Without O_NONBLOCK the opening of a pipe waits for its other end.
        let safe = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let flags = flags | safe | OFlag::O_CREAT;
        let opened = openat(&self.directory, self.name.as_os_str(), flags, mode);
        let file = opened.map_err(|errno| match errno {
            Errno::ELOOP => io::Error::new(
                io::Error::from(errno).kind(),
                "it is a symbolic link, which is not followed; name the file itself",
            ),
            // A pipe that nothing reads.
            Errno::ENXIO => refused("it is no regular file"),
            errno => errno.into(),
        })?;
        let file = File::from(file);
        let data = file.metadata()?;
        check(&data)?;
        // A starter's umask may keep the next one from opening it.
        let own = mode.bits() & 0o700;
        if data.mode() & own != own {
            file.set_permissions(Permissions::from_mode(data.mode() & 0o777 | own))?;
        }
        Ok(file)
    }

    /// What stands there, a link itself; `None`: nothing.
    ///
    /// # Errors
    /// When that cannot be known.
    pub(crate) fn look(&self) -> io::Result<Option<Metadata>> {
        match step(&self.directory, &self.name) {
            Ok(file) => file.metadata().map(Some),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Moves what stands there to another place, and replaces what stands at that one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn move_to(&self, other: &Self) -> io::Result<()> {
        let [from, to] = [&self.name, &other.name].map(|name| name.as_os_str());
        Ok(renameat(&self.directory, from, &other.directory, to)?)
    }
}

/// Opens the file at a path, or makes it with that mode.
///
/// # Errors
/// As [`Place::of`] and [`Place::open`].
pub(crate) fn open(path: &Path, flags: OFlag, mode: Mode) -> io::Result<File> {
    Place::of(path)?.open(flags, mode)
}

/// Makes a directory, for this user alone, with those above it that are not there.
///
/// # Errors
/// When the way leads through another user's link, or the first one to be made would be in another
/// user's directory: with that user's HOME the superuser would leave there what that user cannot
/// remove.
pub(crate) fn make_directories(path: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut there = path;
    let found = loop {
        match walk(there) {
            Ok(found) => break found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        missing.extend(there.file_name());
        there = there.parent().unwrap_or(Path::new(""));
    };
    let (me, owner) = (nix::unistd::geteuid().as_raw(), found.metadata()?.uid());
    if !missing.is_empty() && owner != me && owner != 0 {
        return Err(refused(&format!(
            "{} is a directory of user {owner}, in which user {me} makes no others",
            there.display()
        )));
    }
    let mut here = found;
    for name in missing.into_iter().rev() {
        match mkdirat(&here, name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        here = step(&here, &name.to_owned())?;
    }
    Ok(())
}

/// What stands in a directory under a name, a link itself.
fn step(directory: &File, name: &OsString) -> Result<File, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(directory, name.as_os_str(), flags, Mode::empty()).map(File::from)
}

/// The directory at a path, by no other user's link.
fn walk(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let begin = |way: &Path| openat(AT_FDCWD, way, flags, Mode::empty()).map(File::from);
    let me = nix::unistd::geteuid().as_raw();
    let names = |path: &Path| -> Vec<OsString> {
        path.components().map(|it: Component<'_>| it.as_os_str().to_owned()).collect()
    };
    let mut ahead: VecDeque<OsString> = names(path).into();
    let (mut here, mut way, mut links) = (begin(Path::new("."))?, PathBuf::new(), 0);
    while let Some(name) = ahead.pop_front() {
        if name == "/" {
            (here, way) = (begin(Path::new("/"))?, PathBuf::from("/"));
            continue;
        }
        let there = step(&here, &name)?;
        let data = there.metadata()?;
        if !data.is_symlink() {
            way.push(&name);
            here = there;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        if data.uid() != 0 && data.uid() != me {
            let link = way.join(&name);
            return Err(refused(&format!(
                "{} on the way to it is a symbolic link of user {}, which is not followed",
                link.display(),
                data.uid()
            )));
        }
        let target = PathBuf::from(readlinkat(&there, "")?);
        for name in names(&target).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    Ok(here)
}

/// Whether a file may be written, from what is known of it.
///
/// # Errors
/// When it is no regular file, or another user's.
pub(crate) fn check(data: &Metadata) -> io::Result<()> {
    let me = nix::unistd::geteuid().as_raw();
    match (data.is_file(), data.uid() == me) {
        (false, _) => Err(refused("it is no regular file")),
        (_, false) => Err(refused(&format!("it belongs to user {}, not to user {me}", data.uid()))),
        _ => Ok(()),
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what}; remove it or choose another place"),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const APPEND: OFlag = OFlag::O_WRONLY.union(OFlag::O_APPEND);

    #[test]
    fn a_pipe_a_link_and_a_directory_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [pipe, link, own] = ["pipe", "link", "own"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let said = |path: &Path| open(path, APPEND, OWN).unwrap_err().to_string();
        assert!(said(&pipe).contains("no regular file"), "{}", said(&pipe));
        assert!(said(&link).contains("symbolic link"), "{}", said(&link));
        assert!(open(dir.path(), APPEND, OWN).is_err());
        // Read and written, a pipe opens; it is no file all the same.
        let both = open(&pipe, OFlag::O_RDWR, OWN);
        assert!(both.unwrap_err().to_string().contains("no regular file"));
        assert!(open(&own, APPEND, OWN).is_ok());
        assert!(open(&own, APPEND, OWN).is_ok(), "an own file is opened again");
        // As after a umask of 0777.
        std::fs::set_permissions(&own, Permissions::from_mode(0o400)).unwrap();
        drop(open(&own, OFlag::O_RDONLY, OWN).unwrap());
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn own_links_on_the_way_are_followed_and_other_users_are_not() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        symlink("real", at("near")).unwrap();
        symlink(at("near"), at("far")).unwrap();
        symlink("../real/../near", at("real/back")).unwrap();
        for way in ["real", "near", "far", "real/back", "far/back/../real/."] {
            assert!(open(&at(way).join("file"), APPEND, OWN).is_ok(), "{way}");
        }
        assert_eq!(std::fs::read_dir(at("real")).unwrap().count(), 2);
        symlink("round", at("round")).unwrap();
        let round = open(&at("round/file"), APPEND, OWN).unwrap_err();
        assert_eq!(round.raw_os_error(), Some(Errno::ELOOP as i32));
        let none = open(&at("none/file"), APPEND, OWN).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        for no_file in ["", "/", "..", "real/.."] {
            assert!(open(Path::new(no_file), APPEND, OWN).is_err(), "{no_file:?}");
        }
        // Another user's link stands there only if this user may make one.
        let (link, stranger) = (at("theirs"), Some(nix::unistd::Uid::from_raw(4711)));
        symlink("real", &link).unwrap();
        let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
        if nix::unistd::fchownat(AT_FDCWD, &link, stranger, None, flags).is_ok() {
            let said = open(&link.join("other"), APPEND, OWN).unwrap_err().to_string();
            assert!(
                said.contains("theirs on the way to it is a symbolic link of user 4711"),
                "{said}"
            );
            assert!(!at("real/other").exists());
        } else {
            eprintln!("not root: another user's link cannot be made");
        }
    }

    #[test]
    fn directories_are_made_in_ones_own_and_not_in_another_users() {
        let dir = tempfile::tempdir().unwrap();
        make_directories(&dir.path().join("a/b/c")).unwrap();
        make_directories(&dir.path().join("a/b/c")).unwrap();
        let mode = dir.path().join("a/b").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        if !nix::unistd::geteuid().is_root() {
            return platform::skip!("only the superuser has other users' directories to write to");
        }
        let theirs = dir.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink(dir.path(), theirs.join("link")).unwrap();
        let user = Some(nix::unistd::Uid::from_raw(1002));
        nix::unistd::chown(&theirs, user, None).unwrap();
        let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
        nix::unistd::fchownat(AT_FDCWD, &theirs.join("link"), user, None, flags).unwrap();
        for (way, said) in [("state/x", "directory of user 1002"), ("link/x", "symbolic link")] {
            let error = make_directories(&theirs.join(way)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 1);
        assert!(!dir.path().join("x").exists());
    }
}
