//! Descriptors of processes, and waiting.

use std::os::fd::AsFd;
use std::time::Duration;

use nanothreads_platform::affinity::{Tid, current_tid};
use nanothreads_platform::fdpass::{pair, send};
use nanothreads_platform::process::{
    MadeIn, Pid, current_pid, has_ended, is_hung_up, pidfd_open, pidfd_open_thread,
    pidfd_send_signal, start_time, wait_readable,
};

use crate::helper;

const NOW: Option<Duration> = Some(Duration::ZERO);

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn helper_waits_for_its_parent() {
    if helper::argument().is_some() {
        helper::wait_for_parent();
    }
}

#[test]
fn what_was_made_in_a_process_is_its_parents_in_a_child() {
    let made = MadeIn::here();
    // Until the child has ended it has copies of all descriptors.
    let _exclusive = helper::exclusive();
    // SAFETY: - the child asks for its own number, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let answer = u8::from(made.is_parents()) | u8::from(MadeIn::here().is_parents()) << 1;
        // SAFETY: - ends the child without the parent's destructors.
        unsafe { libc::_exit(answer.into()) };
    }
    let mut status = 0;
    // SAFETY: - `status` outlives the call; the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 1 << 8, "1: the parent's in the child; 2: the child's own, too");
    assert!(!made.is_parents());
}

#[test]
fn a_process_is_signalled_and_seen_to_end_through_its_descriptor() {
    let mut child = helper::start("process::helper_waits_for_its_parent", "");
    let pidfd = pidfd_open(Pid(child.id() as i32)).unwrap();
    assert!(!has_ended(&pidfd).unwrap());
    pidfd_send_signal(&pidfd, 0).unwrap();
    pidfd_send_signal(&pidfd, libc::SIGKILL).unwrap();
    assert_eq!(wait_readable(&[pidfd.as_fd()], None).unwrap(), [0]);
    assert!(has_ended(&pidfd).unwrap());
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    let error = pidfd_send_signal(&pidfd, 0).unwrap_err();
    assert_eq!(error.to_string(), "pidfd_send_signal: No such process (ESRCH)");
}

#[test]
fn a_process_that_is_not_there_has_no_descriptor_and_no_start_time() {
    let mut child = helper::start("process::helper_waits_for_its_parent", "");
    let pid = Pid(child.id() as i32);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(pidfd_open(pid).unwrap_err().errno(), libc::ESRCH);
    assert_eq!(start_time(pid).unwrap_err().errno(), libc::ESRCH);
    assert_eq!(pidfd_open(Pid(-1)).unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn signals_that_do_not_exist_are_refused() {
    let pidfd = pidfd_open(current_pid()).unwrap();
    assert_eq!(pidfd_send_signal(&pidfd, 1000).unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn another_users_process_may_not_be_signalled() {
    // SAFETY: - geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        nanothreads_platform::skip!("root may signal every process");
        return;
    }
    let Ok(init) = pidfd_open(Pid(1)) else {
        nanothreads_platform::skip!("process 1 is hidden");
        return;
    };
    assert_eq!(pidfd_send_signal(&init, 0).unwrap_err().errno(), libc::EPERM);
}

#[test]
fn a_child_starts_after_its_parent_and_its_start_time_stays() {
    let mut child = helper::start("process::helper_waits_for_its_parent", "");
    let pid = Pid(child.id() as i32);
    let started = start_time(pid).unwrap();
    assert!(started >= start_time(current_pid()).unwrap());
    assert_eq!(start_time(pid).unwrap(), started);
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn a_thread_has_a_descriptor_of_its_own_where_the_kernel_offers_that() {
    let (send_tid, tid) = std::sync::mpsc::channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        send_tid.send(current_tid()).unwrap();
        assert!(finished.recv().is_err(), "the channel closes, nothing is sent");
    });
    let tid = tid.recv().unwrap();
    match pidfd_open_thread(tid) {
        Ok(fd) => {
            assert!(!has_ended(&fd).unwrap());
            drop(finish);
            thread.join().unwrap();
            assert_eq!(wait_readable(&[fd.as_fd()], None).unwrap(), [0]);
        }
        Err(error) => {
            assert_eq!(error.errno(), libc::EINVAL);
            nanothreads_platform::skip!("this kernel has no descriptors of threads ({error})");
            drop(finish);
            thread.join().unwrap();
        }
    }
    let refused = pidfd_open_thread(Tid(i32::MAX)).unwrap_err();
    assert!([libc::ESRCH, libc::EINVAL].contains(&refused.errno()), "{refused}");
}

#[test]
fn waiting_names_exactly_the_descriptors_that_are_ready() {
    let _closed_is_closed = helper::hold_starts();
    let (a, b) = pair().unwrap();
    let (c, d) = pair().unwrap();
    let fds = [a.as_fd(), b.as_fd(), c.as_fd()];
    assert!(wait_readable(&fds, NOW).unwrap().is_empty());
    assert!(wait_readable(&fds, Some(Duration::from_millis(2))).unwrap().is_empty());
    send(&a, b"x", &[]).unwrap();
    assert_eq!(wait_readable(&fds, None).unwrap(), [1]);
    drop(d);
    assert_eq!(wait_readable(&fds, Some(Duration::MAX)).unwrap(), [1, 2]);
    assert_eq!((is_hung_up(&b).unwrap(), is_hung_up(&c).unwrap()), (false, true));
}
