//! Files that the manager writes beside its socket or where a user names one: the lock, the log,
//! the trace. Opening one follows no link, waits for no pipe and takes no terminal, and what is
//! opened is a regular file of this user.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens the file at a path with these options, or makes it with that mode.
///
/// # Errors
/// When it cannot be opened, is a symbolic link, no regular file, or another user's.
pub(crate) fn open(path: &Path, options: &mut OpenOptions, mode: u32) -> io::Result<File> {
    // Without O_NONBLOCK the opening of a pipe waits for its other end.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let opened = options.create(true).mode(mode).custom_flags(flags.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ELOOP) => io::Error::new(
            error.kind(),
            "it is a symbolic link, which is not followed; name the file itself",
        ),
        // A pipe that nothing reads.
        Some(nix::libc::ENXIO) => refused("it is no regular file"),
        _ => error,
    })?;
    check(&file.metadata()?)?;
    Ok(file)
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
    use super::*;

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.append(true);
        options
    }

    #[test]
    fn a_pipe_a_link_and_a_directory_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [pipe, link, own] = ["pipe", "link", "own"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let said = |path: &Path| open(path, &mut options(), 0o600).unwrap_err().to_string();
        assert!(said(&pipe).contains("no regular file"), "{}", said(&pipe));
        assert!(said(&link).contains("symbolic link"), "{}", said(&link));
        assert!(open(dir.path(), &mut options(), 0o600).is_err());
        // Read and written, a pipe opens; it is no file all the same.
        let both = open(&pipe, OpenOptions::new().read(true).write(true), 0o600);
        assert!(both.unwrap_err().to_string().contains("no regular file"));
        assert!(open(&own, &mut options(), 0o600).is_ok());
        assert!(open(&own, &mut options(), 0o600).is_ok(), "an own file is opened again");
    }
}
