//! The process at the other end of a socket: both rungs of the ladder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use nanothreads_platform::SysResult;
use nanothreads_platform::fdpass::{accept, connect, listen, pair, recv, send};
use nanothreads_platform::process::{
    PeerProcess, PeerRung, Pid, current_pid, has_ended, peer, peer_by_recheck, peer_credentials,
    peer_pidfd, pidfd_open, pidfd_send_signal, wait_readable,
};

use crate::helper;

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const RUNGS: [fn(&OwnedFd) -> SysResult<PeerProcess>; 2] =
    [|socket| peer(socket), |socket| peer_by_recheck(socket)];

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn helper_connects_and_waits() {
    let Some(path) = helper::argument() else { return };
    let connection = connect(Path::new(&path), Duration::from_secs(20)).unwrap();
    send(&connection, b"here", &[]).unwrap();
    helper::wait_for_parent();
}

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn helper_connects_and_hands_its_connection_over() {
    let Some(path) = helper::argument() else { return };
    let path = Path::new(&path);
    let connection = connect(path, Duration::from_secs(20)).unwrap();
    let carrier = connect(path, Duration::from_secs(20)).unwrap();
    send(&carrier, b"take", &[connection.as_fd()]).unwrap();
    helper::wait_for_parent();
}

struct Connected {
    child: Child,
    server: OwnedFd,
    listener: OwnedFd,
    _folder: tempfile::TempDir,
}

fn connected(part: &str) -> Connected {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = listen(&path, 0o600).unwrap();
    let child = helper::start(&format!("peer::{part}"), path.to_str().unwrap());
    let server = accept(&listener).unwrap();
    Connected { child, server, listener, _folder: folder }
}

#[test]
fn both_rungs_name_the_process_that_connected() {
    let mut case = connected("helper_connects_and_waits");
    recv(&case.server, &mut [0; 8], SOON).unwrap();
    let own = nix::unistd::geteuid().as_raw();
    for rung in RUNGS {
        let found = rung(&case.server).unwrap();
        assert_eq!(found.peer.pid, Pid(case.child.id() as i32));
        assert_eq!((found.peer.uid, found.peer.gid), (own, nix::unistd::getegid().as_raw()));
        assert!(!has_ended(&found.pidfd).unwrap());
    }
    assert_eq!(peer_by_recheck(&case.server).unwrap().rung, PeerRung::Rechecked);
    // The descriptor is the child and no other process: the signal ends it.
    let found = peer_pidfd(&case.server).unwrap();
    pidfd_send_signal(&found, libc::SIGKILL).unwrap();
    case.child.wait().unwrap();
    assert!(has_ended(&found).unwrap());
}

#[test]
fn a_peer_that_has_ended_is_never_taken_for_a_living_one() {
    let mut case = connected("helper_connects_and_waits");
    recv(&case.server, &mut [0; 8], SOON).unwrap();
    drop(case.child.stdin.take());
    assert!(case.child.wait().unwrap().success());
    assert_eq!(peer_by_recheck(&case.server).unwrap_err().errno(), libc::ESRCH);
    // Newer kernels still hand out a descriptor of the process that was: it must say that it has
    // ended.
    match peer(&case.server) {
        Ok(found) => {
            assert_eq!(found.rung, PeerRung::Exact);
            assert!(has_ended(&found.pidfd).unwrap());
            assert_eq!(pidfd_send_signal(&found.pidfd, 0).unwrap_err().errno(), libc::ESRCH);
        }
        Err(error) => assert_eq!(error.errno(), libc::ESRCH, "{error}"),
    }
}

#[test]
fn a_connection_that_was_handed_over_does_not_make_its_new_holder_the_peer() {
    let mut case = connected("helper_connects_and_hands_its_connection_over");
    let carrier = accept(&case.listener).unwrap();
    let (_, mut taken) = recv(&carrier, &mut [0; 8], SOON).unwrap();
    let connection = taken.pop().unwrap();
    // We hold the client's end now, and the kernel still says which process connected it.
    for rung in RUNGS {
        assert_eq!(rung(&case.server).unwrap().peer.pid, Pid(case.child.id() as i32));
    }
    let pidfd = pidfd_open(Pid(case.child.id() as i32)).unwrap();
    drop(case.child.stdin.take());
    wait_readable(&[pidfd.as_fd()], None).unwrap();
    // The connection stands (we hold it), the process does not: the second rung must not find a
    // process. At first its number is still taken, since it has not been waited for.
    assert_eq!(peer_by_recheck(&case.server).unwrap_err().errno(), libc::ESRCH);
    case.child.wait().unwrap();
    send(&connection, b"x", &[]).unwrap();
    assert_eq!(recv(&case.server, &mut [0; 8], SOON).unwrap().0, 1);
    assert_eq!(peer_by_recheck(&case.server).unwrap_err().errno(), libc::ESRCH);
}

#[test]
fn a_closed_connection_is_refused_by_the_second_rung() {
    let _closed_is_closed = helper::hold_starts();
    let (left, right) = pair().unwrap();
    assert_eq!(peer_by_recheck(&left).unwrap().peer.pid, current_pid());
    drop(right);
    assert_eq!(
        peer_by_recheck(&left).unwrap_err().to_string(),
        "peer process: No such process (ESRCH)"
    );
}

#[test]
fn sockets_without_a_peer_and_files_have_no_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let error = peer_credentials(&file).unwrap_err();
    assert_eq!(
        error.to_string(),
        "getsockopt(SO_PEERCRED): Socket operation on non-socket (ENOTSOCK)"
    );
    assert_eq!(peer(&file).unwrap_err().errno(), libc::ENOTSOCK);
    let unconnected = std::os::unix::net::UnixDatagram::bind(folder.path().join("x")).unwrap();
    assert_eq!(peer_credentials(&unconnected).unwrap_err().errno(), libc::ENOTCONN);
}
