//! Messages and the descriptors that ride on them.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::helper;
use nanothreads_platform::fdpass::{
    Bare, MAX_DESCRIPTORS, accept, connect, listen, pair, recv, recv_without_descriptors,
    refuse_descriptors, send, set_nonblocking,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn inode(fd: impl AsFd) -> u64 {
    nix::sys::stat::fstat(fd).unwrap().st_ino
}

/// True when a descriptor of this process still holds the pipe with this inode number for writing
/// or reading.
fn is_held(pipe: u64) -> bool {
    let target = format!("pipe:[{pipe}]");
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .any(|link| link.to_string_lossy() == target)
}

/// Sends `count` descriptors of a pipe's writing end past the checks of `send`, as a hostile
/// process would.
fn send_many(socket: &OwnedFd, fd: &OwnedFd, count: usize) {
    let raw = vec![fd.as_raw_fd(); count];
    let rights = [nix::sys::socket::ControlMessage::ScmRights(&raw)];
    let part = [std::io::IoSlice::new(b"x")];
    let flags = nix::sys::socket::MsgFlags::empty();
    nix::sys::socket::sendmsg::<()>(socket.as_raw_fd(), &part, &rights, flags, None).unwrap();
}

#[test]
fn messages_keep_their_boundaries_and_order() {
    let (left, right) = pair().unwrap();
    send(&left, b"one", &[]).unwrap();
    send(&left, b"second", &[]).unwrap();
    let mut buffer = [0; 64];
    let (len, fds) = recv(&right, &mut buffer, SOON).unwrap();
    assert_eq!((&buffer[..len], fds.len()), (&b"one"[..], 0));
    let (len, _) = recv(&right, &mut buffer, SOON).unwrap();
    assert_eq!(&buffer[..len], b"second");
}

#[test]
fn a_crowd_that_connects_at_once_waits_in_the_listeners_queue() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let most: usize = most.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    for (mode, number) in [(0o600, 400), (0o666, 250)] {
        if most < number {
            nanothreads_platform::skip!("the kernel lets {most} connections wait");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = listen(&path, mode).unwrap();
        // No process accepts any of them.
        let crowd: Result<Vec<OwnedFd>, _> =
            (0..number).map(|_| connect(&path, Duration::from_millis(100))).collect();
        assert_eq!(crowd.map(|crowd| crowd.len()), Ok(number), "mode {mode:o}");
    }
}

#[test]
fn descriptors_arrive_in_order_working_and_close_on_exec() {
    let (left, right) = pair().unwrap();
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    let null = OwnedFd::from(File::open("/dev/null").unwrap());
    send(&left, b"fds", &[writer.as_fd(), null.as_fd()]).unwrap();
    drop(writer);
    let (_, fds) = recv(&right, &mut [0; 8], SOON).unwrap();
    assert_eq!(fds.len(), 2);
    for fd in &fds {
        assert_eq!(fcntl(fd, FcntlArg::F_GETFD).unwrap() & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
    nix::unistd::write(&fds[0], b"hello").unwrap();
    assert_eq!(inode(&fds[1]), inode(&null));
    drop(fds);
    let mut text = String::new();
    File::from(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn the_most_descriptors_fit() {
    let (left, right) = pair().unwrap();
    let fds = vec![left.as_fd(); MAX_DESCRIPTORS];
    send(&left, b"x", &fds).unwrap();
    assert_eq!(recv(&right, &mut [0; 1], SOON).unwrap().1.len(), MAX_DESCRIPTORS);
}

#[test]
fn a_message_that_does_not_fit_is_an_error_and_its_descriptors_are_closed() {
    let (left, right) = pair().unwrap();
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    send(&left, b"too long", &[writer.as_fd()]).unwrap();
    send(&left, b"next", &[]).unwrap();
    let pipe = inode(&writer);
    drop((writer, reader));
    let error = recv(&right, &mut [0; 4], SOON).unwrap_err();
    assert_eq!((error.call(), error.errno()), ("recvmsg", libc::EMSGSIZE));
    assert!(!is_held(pipe));
    // The connection stays usable.
    let mut buffer = [0; 4];
    assert_eq!(recv(&right, &mut buffer, SOON).unwrap().0, 4);
    assert_eq!(&buffer, b"next");
}

#[test]
fn too_many_descriptors_are_an_error_and_all_are_closed() {
    let (left, right) = pair().unwrap();
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    let pipe = inode(&writer);
    send_many(&left, &writer, MAX_DESCRIPTORS + 1);
    drop((writer, reader));
    let error = recv(&right, &mut [0; 4], SOON).unwrap_err();
    assert_eq!(error.errno(), libc::EMSGSIZE);
    assert!(!is_held(pipe), "a hostile sender must not fill our table");
}

#[test]
fn sending_nothing_or_too_much_is_refused() {
    let (left, _right) = pair().unwrap();
    assert_eq!(send(&left, b"", &[]).unwrap_err().errno(), libc::EINVAL);
    let fds: Vec<BorrowedFd<'_>> = vec![left.as_fd(); MAX_DESCRIPTORS + 1];
    assert_eq!(send(&left, b"x", &fds).unwrap_err().errno(), libc::EINVAL);
    assert_eq!(send(&left, &vec![0; 64 << 20], &[]).unwrap_err().errno(), libc::EMSGSIZE);
}

#[test]
fn a_closed_peer_is_length_zero_to_the_receiver_and_epipe_to_the_sender() {
    let (left, right) = pair().unwrap();
    send(&left, b"last", &[]).unwrap();
    drop(left);
    let mut buffer = [0; 8];
    assert_eq!(recv(&right, &mut buffer, SOON).unwrap().0, 4, "what was sent before comes first");
    let (len, fds) = recv(&right, &mut buffer, SOON).unwrap();
    assert_eq!((len, fds.len()), (0, 0));
    let error = send(&right, b"x", &[]).unwrap_err();
    assert_eq!(error.to_string(), "sendmsg: Broken pipe (EPIPE)");
}

#[test]
fn a_receiver_without_messages_gives_up_in_time() {
    let (left, _right) = pair().unwrap();
    for timeout in [NOW, Some(Duration::from_millis(2))] {
        let error = recv(&left, &mut [0; 8], timeout).unwrap_err();
        assert_eq!(error.to_string(), "recvmsg: Connection timed out (ETIMEDOUT)");
    }
}

#[test]
fn a_full_queue_stops_only_senders_that_may_wait() {
    let (left, _right) = pair().unwrap();
    set_nonblocking(&left).unwrap();
    let error = (0..100_000)
        .find_map(|_| send(&left, &[0; 1024], &[]).err())
        .expect("no queue is that long");
    assert_eq!(error.errno(), libc::EAGAIN);
}

#[test]
fn a_listener_has_exactly_the_mode_and_takes_connections() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o666, 0o660] {
        let path = folder.path().join(format!("{mode:o}.sock"));
        let listener = listen(&path, mode).unwrap();
        let facts = std::fs::symlink_metadata(&path).unwrap();
        assert!(facts.file_type().is_socket());
        assert_eq!(facts.mode() & 0o7777, mode);
        let client = connect(&path, Duration::from_secs(20)).unwrap();
        let server = accept(&listener).unwrap();
        send(&client, b"hi", &[]).unwrap();
        assert_eq!(recv(&server, &mut [0; 8], SOON).unwrap().0, 2);
        for fd in [&listener, &client, &server] {
            assert_eq!(fcntl(fd, FcntlArg::F_GETFD).unwrap() & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        }
    }
}

#[test]
fn a_socket_that_a_dead_listener_left_is_replaced_and_a_live_one_is_not() {
    let _closed_is_closed = helper::hold_starts();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    drop(listen(&path, 0o600).unwrap());
    assert!(path.exists(), "closing does not remove the file");
    let alive = listen(&path, 0o600).unwrap();
    assert_eq!(
        listen(&path, 0o600).unwrap_err().to_string(),
        "bind: Address already in use (EADDRINUSE)"
    );
    // The probe may have left a connection in the queue: it must not count as a client that hangs.
    let client = connect(&path, Duration::from_secs(20)).unwrap();
    send(&client, b"x", &[]).unwrap();
    let mut buffer = [0; 8];
    let first = accept(&alive).unwrap();
    let served = match recv(&first, &mut buffer, SOON).unwrap().0 {
        0 => recv(accept(&alive).unwrap(), &mut buffer, SOON).unwrap().0,
        len => len,
    };
    assert_eq!(served, 1);
}

#[test]
fn files_and_sockets_of_other_kinds_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert_eq!(listen(&file, 0o600).unwrap_err().errno(), libc::EADDRINUSE);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let stream = folder.path().join("stream");
    let _listener = UnixListener::bind(&stream).unwrap();
    assert_eq!(listen(&stream, 0o600).unwrap_err().errno(), libc::EADDRINUSE);
    assert_eq!(connect(&stream, Duration::from_secs(1)).unwrap_err().errno(), libc::EPROTOTYPE);
}

#[test]
fn connecting_without_a_listener_says_why() {
    let _closed_is_closed = helper::hold_starts();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    let second = Duration::from_secs(1);
    assert_eq!(
        connect(&path, second).unwrap_err().to_string(),
        "connect: No such file or directory (ENOENT)"
    );
    drop(listen(&path, 0o600).unwrap());
    assert_eq!(connect(&path, second).unwrap_err().errno(), libc::ECONNREFUSED);
    let long = folder.path().join("x".repeat(120));
    assert_eq!(connect(&long, second).unwrap_err().errno(), libc::ENAMETOOLONG);
    assert_eq!(connect(Path::new(""), second).unwrap_err().errno(), libc::ENOENT);
    assert_eq!(listen(&folder.path().join("a/b"), 0o600).unwrap_err().errno(), libc::ENOENT);
}

#[test]
fn a_listener_that_accepts_no_client_does_not_hold_clients_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busy.sock");
    // A queue that users share is short: the clients' descriptors are this process's here.
    let _listener = listen(&path, 0o666).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match connect(&path, Duration::from_millis(2)) {
            Ok(client) => waiting.push(client),
            Err(error) => break error,
        }
        assert!(waiting.len() < 500, "the queue has an end");
    };
    assert_eq!(error.to_string(), "connect: Connection timed out (ETIMEDOUT)");
}

#[test]
fn a_listener_without_connections_does_not_stop_a_server_that_may_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let listener = listen(&folder.path().join("app.sock"), 0o600).unwrap();
    set_nonblocking(&listener).unwrap();
    assert_eq!(accept(&listener).unwrap_err().errno(), libc::EAGAIN);
}

/// Whether this process holds a record lock on the file of `other`, another descriptor of it. It is
/// gone when this process closes any descriptor of that file.
fn is_locked(other: &File) -> bool {
    let mut lock = whole_file();
    fcntl(other, FcntlArg::F_OFD_GETLK(&mut lock)).unwrap();
    i32::from(lock.l_type) == libc::F_WRLCK
}

fn whole_file() -> libc::flock {
    let (l_type, l_whence) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
    libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 }
}

#[test]
fn a_receiver_that_wants_no_descriptors_gets_none_and_closes_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locked");
    let open =
        || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let (locked, other) = (OwnedFd::from(open()), open());
    let (left, right) = pair().unwrap();
    fcntl(&locked, FcntlArg::F_SETLK(&whole_file())).unwrap();
    let mut buffer = [0; 8];
    for count in [1, MAX_DESCRIPTORS, 253] {
        send_many(&left, &locked, count);
        let received = recv_without_descriptors(&right, &mut buffer).unwrap();
        assert_eq!(received, Bare { length: 1, had_descriptors: true });
        assert!(is_locked(&other), "one of {count} descriptors was closed here");
    }
    send_many(&left, &locked, MAX_DESCRIPTORS);
    let error = recv_without_descriptors(&right, &mut []).unwrap_err();
    assert!(error.is(libc::EMSGSIZE) && is_locked(&other), "{error}");
    send(&left, b"none", &[]).unwrap();
    let received = recv_without_descriptors(&right, &mut buffer).unwrap();
    assert_eq!(
        (received, &buffer[..4]),
        (Bare { length: 4, had_descriptors: false }, &b"none"[..])
    );
    assert!(recv_without_descriptors(&right, &mut buffer).unwrap_err().is(libc::EAGAIN));
    drop(left);
    assert_eq!(recv_without_descriptors(&right, &mut buffer).unwrap().length, 0);
    // This shows that the lock would be gone: a receiver that closes the descriptor.
    let (left, right) = pair().unwrap();
    send_many(&left, &locked, 1);
    drop(recv(&right, &mut buffer, SOON).unwrap());
    assert!(!is_locked(&other));
}

#[test]
fn descriptors_are_refused_at_the_sender_where_the_kernel_can() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = listen(&path, 0o600).unwrap();
    if !refuse_descriptors(&listener).unwrap() {
        nanothreads_platform::skip!("the kernel has no SO_PASSRIGHTS");
        return;
    }
    let client = connect(&path, Duration::from_secs(20)).unwrap();
    let null = OwnedFd::from(File::open("/dev/null").unwrap());
    // Also before the connection is taken.
    assert!(send(&client, b"fds", &[null.as_fd()]).unwrap_err().is(libc::EPERM));
    let taken = accept(&listener).unwrap();
    assert!(send(&client, b"fds", &[null.as_fd()]).unwrap_err().is(libc::EPERM));
    send(&client, b"none", &[]).unwrap();
    assert_eq!(recv_without_descriptors(&taken, &mut [0; 8]).unwrap().length, 4);
    // The other way they travel.
    send(&taken, b"fds", &[null.as_fd()]).unwrap();
    assert_eq!(recv(&client, &mut [0; 8], SOON).unwrap().1.len(), 1);
    assert!(refuse_descriptors(&null).is_err());
}
