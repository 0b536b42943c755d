//! Each system call of the manager fails once: it says so and ends, or refuses one client, and
//! serves the next one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cpumgr::status::Report;
use nix::errno::Errno;
use support::{PATIENCE, Program, cpumgr, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// The manager's calls, with an error that each can have.
const CALLS: [(&str, Errno); 43] = [
    ("accept4", Errno::ECONNABORTED),
    ("accept4", Errno::EMFILE),
    ("bind", Errno::EACCES),
    ("chmod", Errno::EPERM),
    ("epoll_create1", Errno::EMFILE),
    ("epoll_ctl", Errno::ENOMEM),
    ("epoll_wait", Errno::EINTR),
    ("epoll_wait", Errno::EINVAL),
    ("eventfd2", Errno::EMFILE),
    ("fallocate", Errno::ENOSPC),
    ("fchmod", Errno::EPERM),
    ("fcntl(F_ADD_SEALS)", Errno::EPERM),
    ("fcntl(F_GETFL)", Errno::EBADF),
    ("fcntl(F_SETFL)", Errno::EPERM),
    ("fstat", Errno::EBADF),
    ("fstat", Errno::ENOMEM),
    ("getsockopt(SO_PEERCRED)", Errno::ENOTCONN),
    ("getsockopt(SO_PEERPIDFD)", Errno::ESRCH),
    ("inotify_add_watch", Errno::ENOSPC),
    ("inotify_init1", Errno::EMFILE),
    ("listen", Errno::ENOBUFS),
    ("memfd_create", Errno::ENOMEM),
    ("mmap", Errno::ENOMEM),
    ("open(/proc/PID/task)", Errno::EMFILE),
    ("open(/proc/self/fd)", Errno::EMFILE),
    ("pidfd_open", Errno::EMFILE),
    ("ppoll", Errno::ENOMEM),
    ("pthread_sigmask", Errno::EINVAL),
    ("read(/proc/PID/stat)", Errno::ESRCH),
    ("read(/proc/PID/status)", Errno::EMFILE),
    ("read(eventfd)", Errno::EBADF),
    ("recvmsg", Errno::ECONNRESET),
    ("sched_getaffinity", Errno::EINVAL),
    ("sched_getattr", Errno::EINVAL),
    ("sched_setaffinity", Errno::EPERM),
    ("sched_setattr", Errno::EPERM),
    ("sendmsg", Errno::EPIPE),
    ("signalfd", Errno::EMFILE),
    ("socket", Errno::EMFILE),
    ("timerfd_create", Errno::EMFILE),
    ("timerfd_settime", Errno::EINVAL),
    ("write(eventfd)", Errno::EBADF),
    ("write(log)", Errno::ENOSPC),
];

struct Faulty {
    fault: String,
    child: Child,
    dir: tempfile::TempDir,
}

impl Faulty {
    fn start(fault: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = cpumgr();
        command
            .args(["daemon", "--quantum", "5ms", "--grace", "1ms", "--socket"])
            .arg(dir.path().join("app.sock"));
        command.env("NANOS_FAULT", fault).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { fault: fault.into(), child: command.spawn().unwrap(), dir }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Its end, with an error that names the call.
    fn has_ended(&mut self, call: &str) -> bool {
        let Some(status) = self.child.try_wait().unwrap() else { return false };
        let log = self.log();
        let word = call.split('(').next().unwrap();
        assert!(!status.success() && status.code().is_some(), "{call}: {status}: {log}");
        let says = log.lines().any(|line| line.contains(word) && !line.contains("NANOS_FAULT"));
        assert!(says && !log.contains("panicked"), "{call}: it does not say what failed: {log}");
        true
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with fault {}:\n{}", self.fault, self.log());
        }
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

/// Programs that come, ask, share, and are killed, on a manager that may end; `must_strike`: until
/// the fault has struck.
fn converse(manager: &mut Faulty, call: &str, must_strike: bool) {
    let socket = manager.dir.path().join("app.sock");
    let mut programs: Vec<Program> = Vec::new();
    let mut refusals = String::new();
    // Some are refused; a program that is not is served.
    eventually("the third program is in, or the manager has ended", || {
        if manager.has_ended(call) {
            return Some(());
        }
        let mut program = Program::unregistered(&socket);
        match program.ask("register 2 2").as_str() {
            "registered" => programs.push(program),
            answer => refusals = answer.to_owned(),
        }
        (programs.len() == 3).then_some(())
    });
    for program in &mut programs {
        program.ask("spinners 2");
        program.ask("request 1");
        program.ask("request 2");
    }
    let mut stranger = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    for word in ["attach", "detach"] {
        // What comes of it the manager's log says.
        cpumgr()
            .args([word, &stranger.id().to_string(), "--socket"])
            .arg(&socket)
            .output()
            .unwrap();
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    drop(programs.pop());
    let begin = Instant::now();
    let mut guest = None;
    eventually(&format!("the manager calls {call}"), || {
        let has_struck = !must_strike || manager.log().contains("NANOS_FAULT strikes");
        if has_struck && begin.elapsed() >= Duration::from_millis(30) || manager.has_ended(call) {
            return Some(());
        }
        if !has_struck {
            // The two that are left have a processor each and keep it: no thread would ever be
            // squeezed again. With a third one there all move on at each quantum; it stays until
            // the next one is in.
            let mut next = Program::unregistered(&socket);
            next.ask("register 2 2");
            guest = Some(next);
        }
        None
    });
    drop(guest);
    if manager.has_ended(call) {
        for program in &mut programs {
            program.until("it knows that it is alone", |seen| !seen.alive);
        }
        return;
    }
    // The fault is over, or comes while this is done, or never: everything works until then.
    let ends_late = |manager: &mut Faulty| !must_strike && manager.has_ended(call);
    eventually("a newcomer is served", || {
        let mut program = Program::unregistered(&socket);
        let is_served =
            program.ask("register 1 1") == "registered" && program.seen().processors == 1;
        (is_served || ends_late(manager)).then_some(())
    });
    assert!(!manager.log().contains("panicked"), "{call}: {}", manager.log());
    eventually("a report is given", || {
        (cpumgr::status::Report::ask(&socket).is_ok() || ends_late(manager)).then_some(())
    });
}

#[test]
fn a_call_that_fails_once_costs_one_client_or_ends_the_manager_with_its_name() {
    let begin = Instant::now();
    let mut struck = 0;
    for (call, errno) in CALLS {
        for turn in [1, 2, 6] {
            let round = Instant::now();
            let mut manager = Faulty::start(&format!("{call}={}@{turn}", errno as i32));
            converse(&mut manager, call, turn == 1);
            let did_strike = manager.log().contains("NANOS_FAULT strikes");
            assert!(
                did_strike || turn > 1,
                "the manager ended before it called {call}: {}",
                manager.log()
            );
            struck += usize::from(did_strike);
            // Of each, not of all: how long 129 of them take is the machine's.
            assert!(round.elapsed() < 2 * PATIENCE, "{call}@{turn} took {:?}", round.elapsed());
        }
    }
    println!("{struck} faults in {:?}", begin.elapsed());
}

#[test]
fn a_call_that_always_fails_is_named_once() {
    // The manager makes each of these again and again.
    for (call, errno, from, says) in [
        ("accept4", Errno::EMFILE, 6, "no connections are taken"),
        ("sched_setaffinity", Errno::EPERM, 1, "a virtual processor cannot be squeezed"),
    ] {
        let manager = Faulty::start(&format!("{call}={}@{from}+", errno as i32));
        let socket = manager.dir.path().join("app.sock");
        eventually("the manager answers", || Report::ask(&socket).ok());
        let mut programs = Vec::new();
        if call != "accept4" {
            programs.extend((0..3).map(|_| Program::start(&socket, 2, 2)));
            programs.iter_mut().for_each(|program| drop(program.ask("spinners 2")));
        }
        let strikes = || manager.log().matches("NANOS_FAULT strikes").count();
        eventually(&format!("{call} fails again and again"), || {
            if call == "accept4" {
                // What waits at the door wakes the manager.
                let _waits = support::connection(&socket);
            }
            (strikes() >= 10).then_some(())
        });
        let log = manager.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(says)).collect();
        // Of each thread that cannot be bound.
        let threads: BTreeSet<_> = lines.iter().map(|line| line.split("tid=").nth(1)).collect();
        assert_eq!(lines.len(), threads.len(), "{call}: {log}");
        assert!(!lines.is_empty(), "{call}: {log}");
        drop(programs);
    }
}
