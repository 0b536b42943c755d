//! Signals: those that end a manager, with its socket file, and those that do nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use nix::libc;
use platform::process::{self, Pid};
use support::{cpumgr, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A manager that leads a session of its own, with or without a terminal.
struct Leader {
    socket: PathBuf,
    child: Child,
}

impl Leader {
    fn start(dir: &Path, terminal: Option<&str>) -> Self {
        let socket = dir.join("app.sock");
        let mut command = cpumgr();
        command.arg("daemon").arg("--socket").arg(&socket).args(["--strangers", "ignore"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let terminal = terminal.map(|path| std::ffi::CString::new(path).unwrap());
        let lead = move || {
            // SAFETY: - system calls that take no memory but the path, which lives as long as the
            // command.
            let outcome = unsafe {
                if libc::setsid() < 0 {
                    -1
                } else {
                    // The first terminal that the leader of a session opens is its own.
                    terminal.as_ref().map_or(0, |path| libc::open(path.as_ptr(), libc::O_RDWR))
                }
            };
            if outcome < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: - `lead` makes system calls only.
        let child = unsafe { command.pre_exec(lead) }.spawn().unwrap();
        let leader = Self { socket, child };
        eventually("the manager answers", || cpumgr::status::Report::ask(&leader.socket).ok());
        leader
    }

    fn signal(&self, number: i32) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, number).unwrap();
    }

    fn ends(&mut self, why: &str) {
        let status = eventually("the manager ends", || self.child.try_wait().unwrap());
        assert!(status.success(), "{why}: {status}");
    }

    fn ends_well(&mut self, why: &str) {
        self.ends(why);
        assert!(!self.socket.exists(), "{why}: its socket file stays");
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

#[test]
fn a_signal_that_ends_the_manager_takes_its_socket_file_along() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGXCPU] {
        let mut leader = Leader::start(dir.path(), None);
        leader.signal(signal);
        leader.ends_well(&format!("signal {signal}"));
    }
}

#[test]
fn signals_that_mean_nothing_to_a_manager_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut leader = Leader::start(dir.path(), None);
    let signals = [
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGALRM,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGPIPE,
        libc::SIGIO,
        libc::SIGXFSZ,
        libc::SIGURG,
        libc::SIGWINCH,
        libc::SIGPWR,
        libc::SIGSTKFLT,
        libc::SIGRTMIN(),
        libc::SIGRTMAX(),
    ];
    for signal in signals {
        leader.signal(signal);
        cpumgr::status::Report::ask(&leader.socket)
            .unwrap_or_else(|error| panic!("after signal {signal}: {error}"));
    }
    // The last one is read after all of them.
    leader.signal(libc::SIGTERM);
    leader.ends_well("at last");
}

#[test]
fn a_manager_of_a_terminal_ends_with_it() {
    // SAFETY: - calls that make and name a terminal; the name is copied before any other thread
    // asks for one.
    let (ours, name) = unsafe {
        let raw = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        if raw < 0 {
            platform::skip!("no terminals can be made here: {}", std::io::Error::last_os_error());
            return;
        }
        let ours = OwnedFd::from_raw_fd(raw);
        assert_eq!((libc::grantpt(ours.as_raw_fd()), libc::unlockpt(ours.as_raw_fd())), (0, 0));
        let mut name = [0; 64];
        assert_eq!(libc::ptsname_r(ours.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
        (ours, std::ffi::CStr::from_ptr(name.as_ptr()).to_str().unwrap().to_owned())
    };
    let dir = tempfile::tempdir().unwrap();
    let mut leader = Leader::start(dir.path(), Some(&name));
    drop(ours);
    leader.ends_well("its terminal has gone");
}

/// Which signal a lease's end is told by (fcntl(2)); the crate has no name for it.
const F_SETSIG: i32 = 10;

/// A file whose next reader waits until this is dropped.
struct Withheld(std::fs::File);

impl Withheld {
    /// `None`: the file system has no leases.
    fn begin(path: &Path) -> Option<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        // The kernel says that a reader waits by a signal, which shall be one that does nothing.
        let said = fcntl(&file, F_SETSIG, libc::SIGURG);
        assert_eq!(said, 0, "{}", std::io::Error::last_os_error());
        (fcntl(&file, libc::F_SETLEASE, libc::F_WRLCK) == 0).then_some(Self(file))
    }

    fn until_a_reader_waits(&self) {
        eventually("a reader waits", || {
            (fcntl(&self.0, libc::F_GETLEASE, 0) != libc::F_WRLCK).then_some(())
        });
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        fcntl(&self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn fcntl(file: &std::fs::File, command: i32, argument: i32) -> i32 {
    // SAFETY: - these commands take a number, and the file is open.
    unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
}

#[test]
fn a_signal_that_comes_before_the_manager_listens_is_heard_when_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let (config, log) = (dir.path().join("c.toml"), dir.path().join("log"));
    std::fs::write(&config, "quantum = \"50ms\"\n").unwrap();
    for signal in [libc::SIGTERM, libc::SIGUSR2, libc::SIGHUP] {
        let Some(withheld) = Withheld::begin(&config) else {
            return platform::skip!("no file can be withheld: {}", std::io::Error::last_os_error());
        };
        let mut command = cpumgr();
        let socket = dir.path().join("app.sock");
        command.arg("daemon").arg("--socket").arg(&socket).args(["--strangers", "ignore"]);
        command.arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(&log).unwrap());
        // SAFETY: - setsid is a system call. Without a terminal SIGHUP does not end a manager.
        let command = unsafe {
            command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(std::io::Error::from))
        };
        let mut leader = Leader { socket, child: command.spawn().unwrap() };
        withheld.until_a_reader_waits();
        leader.signal(signal);
        drop(withheld);
        if signal == libc::SIGHUP {
            eventually("it reads its configuration anew", || {
                if let Some(status) = leader.child.try_wait().unwrap() {
                    panic!("it ended: {status}");
                }
                let said = std::fs::read_to_string(&log).unwrap();
                said.contains("the configuration is in force").then_some(())
            });
            leader.signal(libc::SIGTERM);
        }
        let why = format!("signal {signal}");
        if signal == libc::SIGUSR2 {
            leader.ends(&why);
            let left = dir.path().join("app.sock.settings");
            assert!(left.exists(), "the next manager is left nothing");
        } else {
            leader.ends_well(&why);
        }
    }
}
