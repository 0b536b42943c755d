//! Messages with descriptors between processes: `SOCK_SEQPACKET` sockets in the file system.
//!
//! One `send` is one `recv`: the kernel keeps message boundaries. Whatever does not fit is an
//! error, never a shortened message, and descriptors that ride on a refused message are closed, so
//! that a hostile sender cannot fill our descriptor table.
//!
//! A server that wants no descriptors from its clients must not close any either: `close` calls
//! into the file's driver, and that of a FUSE file waits for the process that serves the file
//! system. So such a server calls [`refuse_descriptors`] on its listener, and receives with
//! [`recv_without_descriptors`], which leaves the kernel no room to hand one out.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::descriptor::above_streams;
use crate::error::{SysError, SysResult, check_int, check_length, check_made, uninterrupted};
use crate::fault;
use crate::process::wait_readable;

mod address;

use address::Address;

/// The most descriptors that one message carries.
pub const MAX_DESCRIPTORS: usize = 16;

/// How many connections wait for [`accept`] at most; the kernel lowers it to `net.core.somaxconn`.
/// The queue is one for all users: what floods it keeps others waiting for as long as it takes to
/// empty it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// Where one user may connect.
    Own,
    /// Where others may, too.
    Shared,
    /// While some user floods it. Connections that find no room wait in `connect`.
    Short,
}

impl Backlog {
    /// Their number.
    pub fn connections(self) -> u16 {
        match self {
            Self::Own => 4096,
            Self::Shared => 256,
            Self::Short => 16,
        }
    }

    fn of(shared: bool) -> Self {
        if shared { Self::Shared } else { Self::Own }
    }
}

/// Listens at `path`, which gets exactly `mode`. A socket file that a dead listener left there is
/// replaced; of two processes that do so at the same moment the first one loses its name, so
/// servers that may start twice take a lock first.
///
/// # Errors
/// - `EADDRINUSE`: another process listens there, or the file is no socket.
/// - `ENAMETOOLONG`: paths of sockets have at most 107 bytes.
/// - `ENOENT`, `EACCES`, `EROFS`: the directory is missing or not ours to write.
pub fn listen(path: &Path, mode: u32) -> SysResult<OwnedFd> {
    let address = Address::of(path)?;
    let listener = new_socket(0)?;
    // The kernel makes the file with the socket's own mode (less the umask): it is never open to
    // more than `mode`.
    // SAFETY: - the descriptor is open; fchmod touches no memory.
    check_int("fchmod", unsafe { libc::fchmod(listener.as_raw_fd(), mode) })?;
    match address.bind(listener.as_fd()) {
        Err(error) if error.is(libc::EADDRINUSE) && is_abandoned(path, &address)? => {
            // SAFETY: - a text that ends with a zero byte.
            check_int("unlink", unsafe { libc::unlink(address.path()) })?;
            address.bind(listener.as_fd())?;
        }
        outcome => outcome?,
    }
    let mode = mode & 0o7777;
    // SAFETY: - a text that ends with a zero byte.
    check_int("chmod", unsafe { libc::chmod(address.path(), mode) })?;
    set_backlog(&listener, Backlog::of(mode & 0o077 != 0))?;
    Ok(listener)
}

/// Listens on at a socket that another process made: the service manager of a unit with a socket,
/// or the manager before this one. From now on the kernel names this process to those that connect.
/// Returns the socket's path; `None`: it is no listener of the kind that [`listen`] makes.
///
/// # Errors
/// `EBADF`; what keeps a listener from listening anew.
pub fn listen_on(listener: impl AsFd, shared: bool) -> SysResult<Option<PathBuf>> {
    let fd = listener.as_fd();
    let is_packets = option(fd, libc::SO_TYPE) == Some(libc::SOCK_SEQPACKET);
    if !is_packets || option(fd, libc::SO_ACCEPTCONN).is_none_or(|listens| listens == 0) {
        return Ok(None);
    }
    let Some(path) = Address::of_socket(fd) else {
        return Ok(None);
    };
    set_backlog(fd, Backlog::of(shared))?;
    Ok(Some(path))
}

/// Lets the kernel queue so many connections from now on. Those that wait already stay.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`, `EINVAL`: it is no socket with a name.
pub fn set_backlog(listener: impl AsFd, backlog: Backlog) -> SysResult<()> {
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: - takes two numbers.
    check_int("listen", unsafe { libc::listen(fd, backlog.connections().into()) }).map(drop)
}

/// A number that the kernel has of a socket; `None`: it is none.
fn option(fd: BorrowedFd<'_>, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let (place, fd) = ((&raw mut value).cast(), fd.as_raw_fd());
    // SAFETY: - `value` and `length` live through the call, and `length` is the size of `value`.
    let got = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, place, &raw mut length) };
    (got == 0).then_some(value)
}

/// True for a socket file at which no process listens.
fn is_abandoned(path: &Path, address: &Address) -> SysResult<bool> {
    let status = crate::file::symlink_metadata(path);
    let status = status
        .map_err(|error| SysError::new("lstat", error.raw_os_error().unwrap_or(libc::EIO)))?;
    if !status.file_type().is_socket() {
        return Ok(false);
    }
    let probe = new_socket(libc::SOCK_NONBLOCK)?;
    // A listener with a full backlog gives EAGAIN and one of another type EPROTOTYPE: only a
    // refusal means death.
    let outcome = address.connect(probe.as_fd());
    Ok(matches!(outcome, Err(error) if error.is(libc::ECONNREFUSED)))
}

/// Takes the next connection. Waits for one, unless the listener is non-blocking.
///
/// # Errors
/// - `EAGAIN`: the listener is non-blocking, and there is no connection.
/// - `EMFILE`, `ENFILE`: descriptors are used up; the connection stays in the queue.
pub fn accept(listener: impl AsFd) -> SysResult<OwnedFd> {
    let listener = listener.as_fd().as_raw_fd();
    let accepted = uninterrupted(|| {
        let (name, length) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: - without a place for the peer's name accept4 touches no memory of ours.
        let accepted = unsafe { libc::accept4(listener, name, length, libc::SOCK_CLOEXEC) };
        // SAFETY: - accept4 has just made the descriptor, and no other code knows it.
        unsafe { check_made("accept4", accepted) }
    })?;
    above_streams(accepted)
}

/// Connects to the listener at `path`; waits at most `timeout` for room in its queue.
///
/// # Errors
/// - `ENOENT`, `ECONNREFUSED`: no process listens there.
/// - `EACCES`: the file's mode does not let this user in.
/// - `ETIMEDOUT`: the listener does not accept connections.
pub fn connect(path: &Path, timeout: Duration) -> SysResult<OwnedFd> {
    let address = Address::of(path)?;
    let deadline = Deadline::after(Some(timeout));
    let connection = new_socket(0)?;
    loop {
        set_send_timeout(connection.as_fd(), deadline.rest())?;
        match address.connect(connection.as_fd()) {
            Err(error) if error.is(libc::EINTR) => {}
            Err(error) if error.is(libc::EAGAIN) => {
                return Err(SysError::new("connect", libc::ETIMEDOUT));
            }
            outcome => {
                outcome?;
                set_send_timeout(connection.as_fd(), None)?;
                return Ok(connection);
            }
        }
    }
}

/// Two ends of a connection without a name.
///
/// # Errors
/// `EMFILE`, `ENFILE`: descriptors are used up.
pub fn pair() -> SysResult<(OwnedFd, OwnedFd)> {
    let mut made = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: - the kernel writes two numbers, to a place for two.
    let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, made.as_mut_ptr()) };
    check_int("socketpair", result)?;
    // SAFETY: - socketpair has just made both descriptors, and no other code knows them.
    let [left, right] = made.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((above_streams(left)?, above_streams(right)?))
}

/// Makes a descriptor's calls return `EAGAIN` instead of waiting: for a server, which no client may
/// stop.
///
/// # Errors
/// `EBADF` only.
pub fn set_nonblocking(fd: impl AsFd) -> SysResult<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: - this fcntl takes no argument.
    let flags = check_int("fcntl(F_GETFL)", unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    let flags = flags | libc::O_NONBLOCK;
    // SAFETY: - this fcntl takes a number.
    check_int("fcntl(F_SETFL)", unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }).map(drop)
}

/// Sends one message, whole. Waits while the receiver's queue is full, unless the socket is
/// non-blocking.
///
/// # Errors
/// - `EPIPE`, `ECONNRESET`: the other end is closed (no SIGPIPE is raised).
/// - `EAGAIN`: the socket is non-blocking, and the queue is full.
/// - `EMSGSIZE`: the message is larger than the socket's buffer.
/// - `EINVAL`: the message is empty (the receiver could not tell it from the end), or carries more
///   than [`MAX_DESCRIPTORS`].
pub fn send(fd: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> SysResult<()> {
    if message.is_empty() || descriptors.len() > MAX_DESCRIPTORS {
        return Err(SysError::new("sendmsg", libc::EINVAL));
    }
    let base = message.as_ptr().cast_mut().cast();
    let mut part = libc::iovec { iov_base: base, iov_len: message.len() };
    let mut control = MaybeUninit::<ControlBuffer>::zeroed();
    // SAFETY: - all-zero is a msghdr without name, parts and control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let bytes = descriptors.len() * size_of::<RawFd>();
        let bytes = u32::try_from(bytes).expect("at most MAX_DESCRIPTORS");
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: - CMSG_SPACE and CMSG_LEN are arithmetic on their argument.
        let (space, length) = unsafe { (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes)) };
        header.msg_controllen = space as _;
        // SAFETY: - `header` has control space of `space` bytes, at most `CONTROL_SPACE` of
        //           them: it holds one header and the numbers, which need not be aligned.
        unsafe {
            let rights = libc::CMSG_FIRSTHDR(&raw const header);
            (*rights).cmsg_level = libc::SOL_SOCKET;
            (*rights).cmsg_type = libc::SCM_RIGHTS;
            (*rights).cmsg_len = length as _;
            let numbers = libc::CMSG_DATA(rights).cast::<RawFd>();
            for (index, descriptor) in descriptors.iter().enumerate() {
                numbers.add(index).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    let sent = uninterrupted(|| {
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: - `header` points to `part` (hence to `message`, which the kernel only reads)
        //           and `control`, which live through the call, with their true lengths.
        check_length("sendmsg", unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_NOSIGNAL) })
    })?;
    debug_assert_eq!(sent, message.len(), "a packet is sent whole or not at all");
    Ok(())
}

/// Receives one message: its length and the descriptors with it (close-on-exec, no standard
/// stream's numbers). Length 0 is the end: the other side has closed. `None` waits for ever.
///
/// # Errors
/// - `ETIMEDOUT`: nothing came in time.
/// - `EMSGSIZE`: the message is larger than `buffer`, or carries more than [`MAX_DESCRIPTORS`]; it
///   is gone, its descriptors are closed.
/// - `EMFILE`: no room for its descriptors in our table; it is gone too.
/// - `ECONNRESET`: the other side closed with messages of ours unread.
pub fn recv(
    fd: impl AsFd,
    buffer: &mut [u8],
    timeout: Option<Duration>,
) -> SysResult<(usize, Vec<OwnedFd>)> {
    let fd = fd.as_fd();
    let deadline = Deadline::after(timeout);
    loop {
        if wait_readable(&[fd], deadline.rest())?.is_empty() {
            return Err(SysError::new("recvmsg", libc::ETIMEDOUT));
        }
        match recv_ready(fd, buffer) {
            // Another thread took the message between poll and recvmsg.
            Err(error) if error.is(libc::EAGAIN) => {}
            outcome => return outcome,
        }
    }
}

/// What [`recv_without_descriptors`] received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    /// The message's length; 0 is the end: the other side has closed.
    pub length: usize,
    /// Descriptors were sent along. None of them is or was this process's: the kernel dropped them.
    pub had_descriptors: bool,
}

/// Receives one message, if there is one, and none of the descriptors with it: none is installed in
/// this process, hence none is closed by it. The kernel drops its own references; the last
/// reference to a file is freed on this thread then, unless [`refuse_descriptors`] kept it from
/// being sent.
///
/// # Errors
/// - `EAGAIN`: nothing is there.
/// - `EMSGSIZE`: the message is larger than `buffer`; it is gone.
/// - `ECONNRESET`: the other side closed with messages of ours unread.
pub fn recv_without_descriptors(fd: impl AsFd, buffer: &mut [u8]) -> SysResult<Bare> {
    let fd = fd.as_fd();
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: - all-zero is a msghdr without name, parts and control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    let length = uninterrupted(|| {
        // SAFETY: - `header` points to `part` (hence to `buffer`), which lives through the call,
        //           with its true length; it has no control space, and says so.
        let length = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        if length < 0 { Err(SysError::last("recvmsg")) } else { Ok(length.unsigned_abs()) }
    })?;
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(SysError::new("recvmsg", libc::EMSGSIZE));
    }
    // Nothing else than descriptors comes unasked for.
    let had_descriptors = header.msg_flags & libc::MSG_CTRUNC != 0;
    fault::or("recvmsg", Ok(Bare { length, had_descriptors }))
}

/// `SO_PASSRIGHTS`, since Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Sending descriptors to this socket, or to one that it accepts from now on, fails with `EPERM`.
/// False: the kernel knows nothing of this (before Linux 6.16), and descriptors arrive.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`, `EOPNOTSUPP`: it is no socket of this kind.
pub fn refuse_descriptors(fd: impl AsFd) -> SysResult<bool> {
    if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
        // The option has another number there; this number would change something else.
        return Ok(false);
    }
    let no: libc::c_int = 0;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).expect("4 is a length");
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: - the kernel reads `length` bytes of `no`, which lives through the call.
    let set = unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), length)
    };
    match check_int("setsockopt(SO_PASSRIGHTS)", set) {
        Ok(_) => Ok(true),
        Err(error) if error.is(libc::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Space for the control message of [`MAX_DESCRIPTORS`] descriptors, aligned as its header must be.
#[repr(C)]
union ControlBuffer {
    header: libc::cmsghdr,
    space: [u8; CONTROL_SPACE],
}

#[expect(clippy::cast_possible_truncation, reason = "16 descriptors: less than 100 bytes")]
const CONTROL_SPACE: usize =
    // SAFETY: - CMSG_SPACE is arithmetic on its argument.
    unsafe { libc::CMSG_SPACE((MAX_DESCRIPTORS * size_of::<RawFd>()) as u32) as usize };

/// One `recvmsg`. Written with libc because the typed wrapper reports a cut control message without
/// giving out the descriptors that did arrive: they would stay open for ever.
fn recv_ready(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> SysResult<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = MaybeUninit::<ControlBuffer>::zeroed();
    // SAFETY: - all-zero is a msghdr without name, parts and control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<ControlBuffer>() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let len = uninterrupted(|| {
        // SAFETY: - `header` points to `part` (hence to `buffer`) and `control`, which live through
        //           the call, with their true lengths.
        let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
        if len < 0 { Err(SysError::last("recvmsg")) } else { Ok(len.unsigned_abs()) }
    })?;
    // First of all own what has arrived, so that each error below closes it.
    let descriptors = take_descriptors(&header);
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(SysError::new("recvmsg", libc::EMSGSIZE));
    }
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        // The kernel stops handing out descriptors when our space ends, or when our table is full.
        let errno =
            if descriptors.len() == MAX_DESCRIPTORS { libc::EMSGSIZE } else { libc::EMFILE };
        return Err(SysError::new("recvmsg", errno));
    }
    let (len, descriptors) = fault::or("recvmsg", Ok((len, descriptors)))?;
    Ok((len, descriptors.into_iter().map(above_streams).collect::<SysResult<_>>()?))
}

/// Owns the descriptors of a received header. Call it once for each successful `recvmsg`.
fn take_descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    // SAFETY: - `header` was filled by recvmsg and its control space is still there.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: - CMSG_FIRSTHDR and CMSG_NXTHDR return null or a whole header within the control
        // space.
        let head = unsafe { *message };
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: - `message` points to a header within the control space.
            let data = unsafe { libc::CMSG_DATA(message) };
            // SAFETY: - CMSG_LEN is arithmetic on its argument.
            let bytes = head.cmsg_len as usize - unsafe { libc::CMSG_LEN(0) } as usize;
            for index in 0..bytes / size_of::<RawFd>() {
                // SAFETY: - the kernel wrote `bytes` bytes of descriptors there; they need not be
                // aligned.
                let raw = unsafe { data.cast::<RawFd>().add(index).read_unaligned() };
                // SAFETY: - the kernel has just opened this descriptor for us, and no other code
                // knows it.
                taken.push(unsafe { OwnedFd::from_raw_fd(raw) });
            }
        }
        // SAFETY: - `message` is a header of `header`'s control space.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    taken
}

/// One that is closed by `exec`.
fn new_socket(flags: libc::c_int) -> SysResult<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: - takes three numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    // Moved before it is connected: what the program writes meanwhile goes nowhere.
    // SAFETY: - socket has just made the descriptor, and no other code knows it.
    above_streams(unsafe { check_made("socket", fd) }?)
}

/// `None` is no limit.
fn set_send_timeout(fd: BorrowedFd<'_>, limit: Option<Duration>) -> SysResult<()> {
    // 0 means no limit to the kernel: a time that is over asks for the least wait instead.
    let micros =
        limit.map_or(0, |limit| i64::try_from(limit.as_micros()).unwrap_or(i64::MAX).max(1));
    let micros = micros.min(i64::from(u32::MAX) * 1_000_000);
    let value = libc::timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 };
    let (place, length) = ((&raw const value).cast(), size_of::<libc::timeval>());
    let (fd, length) = (fd.as_raw_fd(), length as libc::socklen_t);
    // SAFETY: - the kernel reads `length` bytes of `value`, which lives through the call.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, place, length) };
    check_int("setsockopt(SO_SNDTIMEO)", set).map(drop)
}

/// The end of a wait that may have to be begun anew.
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Option<Duration>) -> Self {
        // A time that the clock cannot hold is no limit.
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    fn rest(&self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }
}
