//! Names of sockets in the file system, as the kernel takes them.

use std::ffi::OsStr;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{SysError, SysResult, check_int};

/// A path that ends with a zero byte, within the kernel's structure.
pub(super) struct Address {
    name: libc::sockaddr_un,
    length: libc::socklen_t,
}

impl Address {
    /// The address of a path.
    ///
    /// # Errors
    /// `ENOENT`: the path is empty. `ENAMETOOLONG`: it has more than 107 bytes. `EINVAL`: it holds
    /// a zero byte.
    pub(super) fn of(path: &Path) -> SysResult<Self> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            // An empty name would ask the kernel for an abstract one.
            return Err(SysError::new("bind", libc::ENOENT));
        }
        let refused = |errno| Err(SysError::new("socket address", errno));
        if bytes.contains(&0) {
            return refused(libc::EINVAL);
        }
        let mut this = Self::blank();
        if bytes.len() >= this.name.sun_path.len() {
            return refused(libc::ENAMETOOLONG);
        }
        for (place, byte) in this.name.sun_path.iter_mut().zip(bytes) {
            *place = byte.cast_signed() as libc::c_char;
        }
        // The zero byte after the path counts.
        let length = offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
        this.length = libc::socklen_t::try_from(length).expect("at most 110");
        Ok(this)
    }

    /// The path of a socket that has one.
    pub(super) fn of_socket(fd: BorrowedFd<'_>) -> Option<PathBuf> {
        let mut this = Self::blank();
        let (place, length) = ((&raw mut this.name).cast(), &raw mut this.length);
        // SAFETY: - `length` is the size of `name`; both live through the call.
        if unsafe { libc::getsockname(fd.as_raw_fd(), place, length) } != 0 {
            return None;
        }
        let length = (this.length as usize).checked_sub(offset_of!(libc::sockaddr_un, sun_path))?;
        let bytes = this.name.sun_path.iter().take(length);
        // An abstract name begins with a zero byte: no path.
        let path: Vec<u8> =
            bytes.map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
        let is_file = i32::from(this.name.sun_family) == libc::AF_UNIX && !path.is_empty();
        is_file.then(|| PathBuf::from(OsStr::from_bytes(&path)))
    }

    fn blank() -> Self {
        // SAFETY: - numbers only, for which zero is valid.
        let mut name: libc::sockaddr_un = unsafe { zeroed() };
        name.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).expect("a small number");
        Self { name, length: size_of::<libc::sockaddr_un>() as libc::socklen_t }
    }

    /// The path, which ends with a zero byte.
    pub(super) fn path(&self) -> *const libc::c_char {
        self.name.sun_path.as_ptr()
    }

    /// Gives a socket this name.
    pub(super) fn bind(&self, socket: BorrowedFd<'_>) -> SysResult<()> {
        let name = (&raw const self.name).cast();
        // SAFETY: - `length` bytes of `name` are there, and live through the call.
        check_int("bind", unsafe { libc::bind(socket.as_raw_fd(), name, self.length) }).map(drop)
    }

    /// Connects a socket to the one of this name.
    pub(super) fn connect(&self, socket: BorrowedFd<'_>) -> SysResult<()> {
        let name = (&raw const self.name).cast();
        // SAFETY: - `length` bytes of `name` are there, and live through the call.
        let connected = unsafe { libc::connect(socket.as_raw_fd(), name, self.length) };
        check_int("connect", connected).map(drop)
    }
}
