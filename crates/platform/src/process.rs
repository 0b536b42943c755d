//! Other processes: descriptors that name them for ever, the peer of a socket, and waiting for
//! events.
//!
//! # The process at the other end
//! [`peer`] climbs down a ladder: `SO_PEERPIDFD` (Linux 6.5) names exactly the process that
//! connected. Without it the number from the peer's credentials is opened by `pidfd_open`. The
//! process of that number is accepted only when it has the same start time before and after
//! opening, runs as the user of the credentials, lives, and the connection still stands. What
//! remains open on that rung: a process that died after handing its connection to another one, and
//! whose number went to a third process of the same user.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use crate::affinity::Tid;
use crate::descriptor::above_streams;
use crate::error::{SysError, SysResult, check, check_int, check_made};
use crate::fault;
use crate::file;

/// The kernel's number of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The process that connected a socket, as the kernel recorded it at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number, which may be another process's by now.
    pub pid: Pid,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// A peer together with a descriptor of its process.
#[derive(Debug)]
pub struct PeerProcess {
    /// What the kernel recorded when it connected.
    pub peer: Peer,
    /// The process. Readable when it has ended.
    pub pidfd: OwnedFd,
    /// How it was found.
    pub rung: PeerRung,
}

/// How a peer's process was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRung {
    /// `SO_PEERPIDFD`: the kernel named the process itself.
    Exact,
    /// Credentials, `pidfd_open`, and start time and user compared before and after (kernels before
    /// 6.5).
    Rechecked,
}

impl fmt::Display for PeerRung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "SO_PEERPIDFD",
            Self::Rechecked => "credentials with start-time recheck",
        })
    }
}

/// The calling process's number.
pub fn current_pid() -> Pid {
    // SAFETY: - getpid takes nothing and cannot fail.
    Pid(unsafe { libc::getpid() })
}

/// The process in which something was made: a forked child has a copy of it, and none of the
/// threads that belong to it. For code that has no other way to tell; each question is a system
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeIn(Pid);

impl MadeIn {
    /// In the calling process.
    pub fn here() -> Self {
        Self(current_pid())
    }

    /// True in a child that was forked since.
    pub fn is_parents(self) -> bool {
        self != Self::here()
    }
}

/// The calling process's effective user.
pub fn effective_user() -> u32 {
    // SAFETY: - geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// A descriptor of a process; it stays with that process when the number is used again, and becomes
/// readable when the process ends.
///
/// # Errors
/// `ESRCH` when there is no such process; `EINVAL` when the number is not positive or names a
/// thread that leads none.
pub fn pidfd_open(pid: Pid) -> SysResult<OwnedFd> {
    open_pidfd(pid.0, 0)
}

/// A descriptor of one thread.
///
/// # Errors
/// `ESRCH` when there is no such thread; `EINVAL` on kernels before 6.9.
pub fn pidfd_open_thread(tid: Tid) -> SysResult<OwnedFd> {
    open_pidfd(tid.0, libc::PIDFD_THREAD)
}

fn open_pidfd(id: libc::pid_t, flags: libc::c_uint) -> SysResult<OwnedFd> {
    // SAFETY: - pidfd_open takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) };
    let fd = RawFd::try_from(fd).expect("descriptors are C ints");
    // SAFETY: - pidfd_open has just made the descriptor, and no other code knows it.
    above_streams(unsafe { check_made("pidfd_open", fd) }?)
}

/// Sends a signal to the process of a descriptor; signal 0 only asks whether that would be allowed.
///
/// # Errors
/// `ESRCH` when it has ended; `EPERM` when it is another user's; `EINVAL` for a number that is no
/// signal.
pub fn pidfd_send_signal(pidfd: impl AsFd, signal: i32) -> SysResult<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: - without an info block pidfd_send_signal touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, 0) };
    check("pidfd_send_signal", result).map(drop)
}

/// The process that connected this socket (for a listener's side), or made it (for a pair).
///
/// # Errors
/// `ENOTCONN` when the socket has no peer; `ENOTSOCK` when it is none.
pub fn peer_credentials(socket: impl AsFd) -> SysResult<Peer> {
    const CALL: &str = "getsockopt(SO_PEERCRED)";
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: - `peer` and `length` live through the call, and `length` is the size of `peer`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    check_int(CALL, result)?;
    // A socket that never had a peer shows number 0 or -1; so does one in a PID namespace that ours
    // cannot see.
    if peer.pid <= 0 {
        return Err(SysError::new(CALL, libc::ENOTCONN));
    }
    Ok(Peer { pid: Pid(peer.pid), uid: peer.uid, gid: peer.gid })
}

/// `SO_PEERGROUPS`, since Linux 4.13.
const SO_PEERGROUPS: libc::c_int = 59;

/// The supplementary groups of the process that connected this socket, as the kernel recorded them
/// at that time. [`Peer::gid`] may or may not be among them.
///
/// # Errors
/// `ENODATA`: the socket never had a peer; `ENOTSOCK` when it is none.
pub fn peer_groups(socket: impl AsFd) -> SysResult<Vec<u32>> {
    const CALL: &str = "getsockopt(SO_PEERGROUPS)";
    if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
        // The option has another number there.
        return Err(SysError::new(CALL, libc::ENOPROTOOPT));
    }
    let fd = socket.as_fd().as_raw_fd();
    let mut groups: Vec<u32> = vec![0; 32];
    loop {
        let bytes = groups.len() * size_of::<u32>();
        let mut length = libc::socklen_t::try_from(bytes).map_err(|_| {
            // The kernel has at most 65,536 groups.
            SysError::new(CALL, libc::ERANGE)
        })?;
        // SAFETY: - `groups` and `length` live through the call, and `length` is the size of
        //           `groups` in bytes.
        let result = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<u32>();
        match check_int(CALL, result) {
            Ok(_) => {
                groups.truncate(count);
                return Ok(groups);
            }
            // The kernel says how much room is needed.
            Err(error) if error.is(libc::ERANGE) && count > groups.len() => groups.resize(count, 0),
            Err(error) => return Err(error),
        }
    }
}

/// The process at the other end, by the best rung that this kernel has.
///
/// # Errors
/// `ESRCH` when it has ended, or when its number belongs to another process by now; else as
/// [`peer_credentials`].
pub fn peer(socket: impl AsFd) -> SysResult<PeerProcess> {
    let socket = socket.as_fd();
    match peer_pidfd_exact(socket) {
        Ok(pidfd) => {
            Ok(PeerProcess { peer: peer_credentials(socket)?, pidfd, rung: PeerRung::Exact })
        }
        Err(error) if error.is(libc::ENOPROTOOPT) => peer_by_recheck(socket),
        Err(error) => Err(error),
    }
}

/// A descriptor of the process at the other end: [`peer`] without the rest.
///
/// # Errors
/// Those of [`peer`].
pub fn peer_pidfd(socket: impl AsFd) -> SysResult<OwnedFd> {
    peer(socket).map(|process| process.pidfd)
}

fn peer_pidfd_exact(socket: BorrowedFd<'_>) -> SysResult<OwnedFd> {
    const CALL: &str = "getsockopt(SO_PEERPIDFD)";
    let mut fd: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: - `fd` and `len` live through the call, and `len` is the size of `fd`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut len,
        )
    };
    match check_int(CALL, result) {
        // SAFETY: - the kernel has just made the descriptor, and no other code knows it.
        Ok(_) => above_streams(unsafe { OwnedFd::from_raw_fd(fd) }),
        // Kernels differ in how they say that the process has been waited for.
        Err(error) if error.is(libc::EINVAL) => Err(SysError::new(CALL, libc::ESRCH)),
        Err(error) if error.is(libc::ENODATA) => Err(SysError::new(CALL, libc::ENOTCONN)),
        Err(error) => Err(error),
    }
}

/// The second rung, for kernels without `SO_PEERPIDFD`. Public so that it can be tested where the
/// first one is there.
///
/// # Errors
/// Those of [`peer`].
pub fn peer_by_recheck(socket: impl AsFd) -> SysResult<PeerProcess> {
    let gone = SysError::new("peer process", libc::ESRCH);
    let peer = peer_credentials(&socket)?;
    let before = ProcessIdentity::of(peer.pid)?;
    let pidfd = pidfd_open(peer.pid)?;
    // From here on the descriptor is bound to a process. It is the one of `before` when nothing
    // changed.
    let after = ProcessIdentity::of(peer.pid)?;
    let stands = !is_hung_up(socket.as_fd())?;
    if !after.confirms(&before, &peer) || !stands || has_ended(&pidfd)? {
        return Err(gone);
    }
    Ok(PeerProcess { peer, pidfd, rung: PeerRung::Rechecked })
}

/// What tells a process from a later one with the same number.
#[derive(Debug, PartialEq, Eq)]
struct ProcessIdentity {
    start: u64,
    uid: u32,
}

impl ProcessIdentity {
    /// True when this is still the process of `before`, and it may be the one that connected.
    fn confirms(&self, before: &Self, peer: &Peer) -> bool {
        self == before && self.uid == peer.uid
    }

    fn of(pid: Pid) -> SysResult<Self> {
        const CALL: &str = "read(/proc/PID/status)";
        let start = start_time(pid)?;
        let status = read_proc(pid, "status", CALL)?;
        let uid = parse_effective_uid(&status).ok_or(SysError::new(CALL, libc::EBADMSG))?;
        Ok(Self { start, uid })
    }
}

/// When a process started, in clock ticks since the machine did: together with the number it names
/// one process.
///
/// # Errors
/// `ESRCH` when there is no such process; `EBADMSG` when `/proc/PID/stat` is not as documented in
/// proc(5).
pub fn start_time(pid: Pid) -> SysResult<u64> {
    const CALL: &str = "read(/proc/PID/stat)";
    let stat = read_proc(pid, "stat", CALL)?;
    parse_start_time(&stat).ok_or(SysError::new(CALL, libc::EBADMSG))
}

fn read_proc(pid: Pid, file: &str, call: &'static str) -> SysResult<Vec<u8>> {
    let text = file::read(format!("/proc/{pid}/{file}")).map_err(|error: io::Error| {
        match error.raw_os_error() {
            Some(libc::ENOENT) | None => SysError::new(call, libc::ESRCH),
            Some(errno) => SysError::new(call, errno),
        }
    });
    fault::or(call, text)
}

/// Whether a process is one of the kernel's own threads: no program, and what it is bound to is
/// inherited by those that come after it.
///
/// # Errors
/// As [`start_time`].
pub fn is_kernel_thread(pid: Pid) -> SysResult<bool> {
    const CALL: &str = "read(/proc/PID/stat)";
    let flags =
        parse_flags(&read_proc(pid, "stat", CALL)?).ok_or(SysError::new(CALL, libc::EBADMSG))?;
    Ok(flags & PF_KTHREAD != 0)
}

/// Whether a process is in a PID namespace below the caller's: the numbers that it knows processes
/// by are not the caller's.
///
/// # Errors
/// As [`start_time`], of `/proc/PID/status`.
pub fn numbers_differ(pid: Pid) -> SysResult<bool> {
    const CALL: &str = "read(/proc/PID/status)";
    parse_levels(&read_proc(pid, "status", CALL)?)
        .map(|levels| levels > 1)
        .ok_or(SysError::new(CALL, libc::EBADMSG))
}

/// The kernel's flag of its own threads; it stands in field 9 of `/proc/PID/stat`.
const PF_KTHREAD: u32 = 0x0020_0000;

fn parse_flags(stat: &[u8]) -> Option<u32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(6)?.parse().ok()
}

/// Field 22. Field 2 is the program's name in parentheses, and may itself hold blanks and
/// parentheses.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The second number of the line `Uid:`. The program's name, on the first line, cannot hold a line
/// end: the kernel escapes it.
fn parse_effective_uid(status: &[u8]) -> Option<u32> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// How many numbers the line `NSpid:` holds: one for each PID namespace from the reader's down to
/// the process's own. A kernel without such namespaces has no such line.
fn parse_levels(status: &[u8]) -> Option<usize> {
    let mut lines = status.split(|byte| *byte == b'\n');
    match lines.find_map(|line| line.strip_prefix(b"NSpid:")) {
        None => Some(1),
        Some(numbers) => Some(std::str::from_utf8(numbers).ok()?.split_ascii_whitespace().count())
            .filter(|it| *it > 0),
    }
}

/// True when the process (or thread) of a descriptor has ended.
///
/// # Errors
/// `EBADF` only.
pub fn has_ended(pidfd: impl AsFd) -> SysResult<bool> {
    Ok(!wait_readable(&[pidfd.as_fd()], Some(Duration::ZERO))?.is_empty())
}

/// True when the other end of a socket is closed (there may still be messages to read).
///
/// # Errors
/// `EBADF` only.
pub fn is_hung_up(socket: impl AsFd) -> SysResult<bool> {
    let mut entries = [entry(socket.as_fd(), libc::POLLRDHUP)];
    poll(&mut entries, Some(Duration::ZERO))?;
    Ok(entries[0].revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR) != 0)
}

/// Waits until at least one of the descriptors has something to read or its other end is closed;
/// returns their indices. Empty: the time was over. `None` waits for ever. A signal does not end
/// the wait.
///
/// # Errors
/// `EBADF` when a descriptor is closed; `EINVAL` for more of them than `RLIMIT_NOFILE`.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> SysResult<Vec<usize>> {
    let mut entries: Vec<libc::pollfd> = fds.iter().map(|fd| entry(*fd, libc::POLLIN)).collect();
    poll(&mut entries, timeout)?;
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(SysError::new("ppoll", libc::EBADF));
    }
    Ok((0..entries.len()).filter(|index| entries[*index].revents != 0).collect())
}

/// True when a write of up to `PIPE_BUF` bytes (4096) would not wait now; also when it would fail,
/// since the other side has gone. Others that write to the same pipe may come in between.
///
/// # Errors
/// `EBADF`: no descriptor. `ENOMEM`.
pub fn is_writable(fd: BorrowedFd<'_>) -> SysResult<bool> {
    let mut entries = [entry(fd, libc::POLLOUT)];
    poll(&mut entries, Some(Duration::ZERO))?;
    match entries[0].revents {
        events if events & libc::POLLNVAL != 0 => Err(SysError::new("ppoll", libc::EBADF)),
        events => Ok(events != 0),
    }
}

fn entry(fd: BorrowedFd<'_>, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }
}

fn poll(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> SysResult<()> {
    // A time that the clock cannot hold is no limit.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let rest = deadline.map(|end| end.saturating_duration_since(Instant::now())).map(|rest| {
            libc::timespec {
                tv_sec: libc::time_t::try_from(rest.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: libc::c_long::from(rest.subsec_nanos().cast_signed()),
            }
        });
        let limit = rest.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = entries.len() as libc::nfds_t;
        // SAFETY: - `entries` and `rest` live through the call; the count is that of `entries`; no
        // signal mask.
        let result = unsafe { libc::ppoll(entries.as_mut_ptr(), count, limit, std::ptr::null()) };
        match check_int("ppoll", result) {
            Err(error) if error.is(libc::EINTR) => {}
            outcome => return outcome.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_process_differ_where_it_has_one_in_a_namespace_of_its_own() {
        assert_eq!(parse_levels(b"Name:\tx\nNSpid:\t42\nNSpgid:\t1\t2\n"), Some(1));
        assert_eq!(parse_levels(b"Name:\tx\nNSpid:\t42\t1\n"), Some(2));
        assert_eq!((parse_levels(b"Name:\tx\n"), parse_levels(b"NSpid:\n")), (Some(1), None));
        assert_eq!(numbers_differ(current_pid()), Ok(false));
        assert!(numbers_differ(Pid(i32::MAX)).unwrap_err().is(libc::ESRCH));
    }

    #[test]
    fn start_time_is_found_after_a_name_with_blanks_and_parentheses() {
        let fields: Vec<String> = (3..=52).map(|field| (field * 10).to_string()).collect();
        let stat = format!("42 (a) b (c)) {}\n", fields.join(" "));
        assert_eq!(parse_start_time(stat.as_bytes()), Some(220));
    }

    #[test]
    fn a_stat_file_that_is_cut_or_not_numeric_has_no_start_time() {
        for stat in [
            "",
            "42",
            "42 (a)",
            "42 (a) S 1 2 3",
            "42 (a) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 x",
        ] {
            assert_eq!(parse_start_time(stat.as_bytes()), None, "{stat:?}");
        }
    }

    #[test]
    fn the_flags_tell_the_kernels_own_threads_from_processes() {
        let flags =
            |flags: &str| parse_flags(format!("2 (a) b) S 0 0 0 0 -1 {flags} 0").as_bytes());
        assert_eq!((flags("2129984"), flags("4194560")), (Some(0x0020_8040), Some(0x0040_0100)));
        assert_eq!((flags("x"), parse_flags(b"2 (a) S 0 0")), (None, None));
        assert_eq!(is_kernel_thread(current_pid()), Ok(false));
        let kthreadd = Pid(2);
        if file::read("/proc/2/comm").is_ok_and(|name| name == b"kthreadd\n") {
            assert_eq!(is_kernel_thread(kthreadd), Ok(true));
        }
    }

    #[test]
    fn the_effective_user_is_the_second_number_of_its_line() {
        let status = b"Name:\tUid:\t7\t7\nUmask:\t0022\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n";
        assert_eq!(parse_effective_uid(status), Some(2));
        assert_eq!(parse_effective_uid(b"Name:\tx\nUid:\t1\n"), None);
        assert_eq!(parse_effective_uid(b""), None);
    }

    #[test]
    fn a_number_that_went_to_another_process_or_user_confirms_no_process() {
        let peer = Peer { pid: Pid(42), uid: 1000, gid: 1000 };
        let before = ProcessIdentity { start: 7, uid: 1000 };
        assert!(ProcessIdentity { start: 7, uid: 1000 }.confirms(&before, &peer));
        assert!(!ProcessIdentity { start: 8, uid: 1000 }.confirms(&before, &peer));
        assert!(!ProcessIdentity { start: 7, uid: 0 }.confirms(&before, &peer));
        let other_user = ProcessIdentity { start: 7, uid: 0 };
        assert!(!other_user.confirms(&other_user, &peer));
    }

    #[test]
    fn an_exact_peer_descriptor_maps_the_kernels_answers() {
        // A kernel without SO_PEERPIDFD is one rung down: nothing to test here then.
        let (left, _right) = crate::fdpass::pair().unwrap();
        match peer_pidfd_exact(left.as_fd()) {
            Ok(pidfd) => assert!(!has_ended(pidfd).unwrap()),
            Err(error) if error.is(libc::ENOPROTOOPT) => {
                crate::skip!("this kernel has no SO_PEERPIDFD")
            }
            Err(error) => panic!("{error}"),
        }
    }
}
