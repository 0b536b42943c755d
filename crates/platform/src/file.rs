//! Small files that the library reads by itself, mostly the kernel's: all of them aside
//! ([`Aside`]), which is why nothing else in the library's crates opens one (`clippy.toml` names
//! what it must not call).

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::aside::Aside;
use crate::error::{SysResult, check_int};

/// The whole of a file.
///
/// # Errors
/// What the kernel says; no file is an error here too.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let _aside = Aside::begin();
    #[expect(clippy::disallowed_methods, reason = "this is where it is called aside")]
    fs::read(path)
}

/// The whole of a file of text.
///
/// # Errors
/// As [`read()`], and `InvalidData` when it is no UTF-8.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The beginning of a file, as much of it as `place` takes, without memory of its own.
///
/// # Errors
/// As [`read()`].
pub fn beginning(path: impl AsRef<Path>, place: &mut [u8]) -> io::Result<usize> {
    let _aside = Aside::begin();
    #[expect(clippy::disallowed_methods, reason = "this is where it is called aside")]
    let mut file = File::open(path)?;
    let mut length = 0;
    while length < place.len() {
        match file.read(&mut place[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The names in a folder, in no order.
///
/// # Errors
/// As [`read()`].
pub fn names(folder: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
    let _aside = Aside::begin();
    #[expect(clippy::disallowed_methods, reason = "this is where it is called aside")]
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// What the kernel says of a file, or of what a link of that name leads to.
///
/// # Errors
/// As [`read()`].
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let _aside = Aside::begin();
    #[expect(clippy::disallowed_methods, reason = "this is where it is called aside")]
    fs::metadata(path)
}

/// Where a file really lies, without symbolic links.
///
/// # Errors
/// As [`read()`].
pub fn real_path(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let _aside = Aside::begin();
    #[expect(clippy::disallowed_methods, reason = "this is where it is called aside")]
    fs::canonicalize(path)
}

/// The same, of the link itself.
///
/// # Errors
/// As [`read()`].
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let _aside = Aside::begin();
    #[expect(clippy::disallowed_methods, reason = "this is where it is called aside")]
    fs::symlink_metadata(path)
}

/// What the kernel says of an open file. One system call.
///
/// # Errors
/// `EBADF`: it is closed, which a program may do without our knowledge.
pub fn status(fd: BorrowedFd<'_>) -> SysResult<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: - the kernel writes one `stat`, to a place of that size.
    check_int("fstat", unsafe { libc::fstat(fd.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: - fstat succeeded, and has filled it.
    Ok(unsafe { status.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    /// Every call on `path`.
    fn outcomes(path: &Path) -> [io::Result<usize>; 6] {
        let mut place = [0; 3];
        [
            read(path).map(|bytes| bytes.len()),
            text(path).map(|text| text.len()),
            beginning(path, &mut place),
            names(path).map(|names| names.len()),
            metadata(path).map(|file| usize::try_from(file.len()).unwrap()),
            symlink_metadata(path).map(|file| usize::try_from(file.len()).unwrap()),
        ]
    }

    #[test]
    fn a_file_is_read_whole_or_as_far_as_there_is_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "four").unwrap();
        let [whole, text, beginning, names, length, its_own] =
            outcomes(&path).map(|outcome| outcome.map_err(|error| error.kind()));
        assert_eq!((whole, text, beginning), (Ok(4), Ok(4), Ok(3)));
        assert_eq!((length, its_own), (Ok(4), Ok(4)));
        assert_eq!(names, Err(io::ErrorKind::NotADirectory));
        assert_eq!(super::names(folder.path()).unwrap(), ["file"]);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(super::text(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_not_there_is_an_error_that_leaves_errno() {
        Errno::EDOM.set();
        for outcome in outcomes(Path::new("/no/such/file")) {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        assert_eq!(Errno::last(), Errno::EDOM);
    }
}
