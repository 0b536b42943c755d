//! A real manager: a process of its own, with a socket of its own, that is gone with its test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use platform::process::{self, Pid};

use super::leaks;
use super::{PATIENCE, Program, eventually};

/// The manager's program.
pub(crate) const CPUMGR: &str = env!("CARGO_BIN_EXE_cpumgr");

/// Names the manager's program where it is not where it was built: in the guest of
/// `cargo xtask vm smp`.
const ELSEWHERE: &str = "CPUMGR_TEST_MANAGER";

/// How long `cpumgr run` waits for an answer, and the manager for a program's version, in seconds;
/// read by debug builds (`cpumgr::patience`).
pub(crate) const ANSWERS_WITHIN: &str = "NANOS_PATIENCE";

/// A command line of ours without the environment's opinions.
pub(crate) fn cpumgr() -> Command {
    let mut command = Command::new(std::env::var_os(ELSEWHERE).unwrap_or_else(|| CPUMGR.into()));
    for variable in
        ["NANOS_CPUMGR", "NANOS_SHIM_DIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH", "CPUMGR_LOG"]
    {
        command.env_remove(variable);
    }
    // Whatever is configured on the machine of the tests.
    command.env("CPUMGR_CONFIG", "none");
    command.env("CPUMGR_HISTORY", "off");
    // How fast it answers is the machine's.
    command.env(ANSWERS_WITHIN, PATIENCE.as_secs().to_string());
    command
}

/// A manager in the foreground.
pub(crate) struct Manager {
    pub(crate) dir: tempfile::TempDir,
    child: Child,
    leaks: leaks::Check,
}

impl Manager {
    /// Starts one with further options and waits until it answers.
    pub(crate) fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let leaks = leaks::Check::begin(dir.path());
        let mut manager = Self { child: spawn(dir.path(), options), dir, leaks };
        manager.wait_until_it_answers();
        manager
    }

    /// Starts one that does not leave by itself before it [may](Self::may_leave_after): however long
    /// its first program takes to come.
    pub(crate) fn start_to_stay(config: &Path) -> Self {
        std::fs::write(config, "idle-exit = \"never\"\n").unwrap();
        Self::start(&["--config", config.to_str().unwrap()])
    }

    /// From now on it leaves when no program has been there for this time.
    pub(crate) fn may_leave_after(&self, config: &Path, time: &str) {
        std::fs::write(config, format!("idle-exit = \"{time}\"\n")).unwrap();
        let output = cpumgr().arg("reload").arg("--socket").arg(self.socket()).output().unwrap();
        assert!(output.status.success(), "{}", super::errors(&output));
    }

    /// Starts another one in place of one that ended.
    pub(crate) fn start_again(&mut self, options: &[&str]) {
        self.child = spawn(self.dir.path(), options);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&mut self) {
        let socket = self.socket();
        eventually("the manager answers", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the manager ended with {status}: {}", self.log());
            }
            cpumgr::status::Report::ask(&socket).ok()
        });
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("app.sock")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn status(&self) -> cpumgr::status::Report {
        cpumgr::status::Report::ask(&self.socket()).unwrap()
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the manager ends", || self.child.try_wait().unwrap())
    }

    pub(crate) fn program(&self, request: u32, max: u32) -> Program {
        Program::start(&self.socket(), request, max)
    }
}

fn spawn(dir: &Path, options: &[&str]) -> Child {
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let mut command = cpumgr();
    command.arg("daemon").arg("--socket").arg(dir.join("app.sock")).args(options);
    if !options.contains(&"--strangers") {
        // Whatever else runs on the machine of the tests.
        command.args(["--strangers", "ignore"]);
    } else {
        // When it looks for strangers is in there.
        command.env("CPUMGR_LOG", "debug");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

impl Drop for Manager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the manager's log:\n{}", self.log());
        }
        // Whatever the test did, the process is gone after this, by SIGKILL if need be.
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
        if !std::thread::panicking() {
            self.leaks.end();
        }
    }
}

/// The processes whose command line names a path.
pub(crate) fn processes_of(path: &Path) -> Vec<i32> {
    let needle = path.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(" daemon ") && line.contains(needle)
    })
    .collect()
}

/// Ends the managers that `cpumgr run` started in a directory, and sees that they are gone.
pub(crate) struct EndManagers<'a>(pub(crate) &'a Path);

impl Drop for EndManagers<'_> {
    fn drop(&mut self) {
        for pid in processes_of(self.0) {
            let Ok(pidfd) = process::pidfd_open(Pid(pid)) else {
                continue;
            };
            if process::pidfd_send_signal(&pidfd, nix::libc::SIGTERM).is_ok() {
                eventually("a manager obeys SIGTERM", || {
                    process::has_ended(&pidfd).unwrap().then_some(())
                });
            }
        }
        assert!(processes_of(self.0).is_empty(), "a manager survives its test");
    }
}
