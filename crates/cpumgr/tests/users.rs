//! Two users of one machine, each with a manager of their own (D9), and users of a machine that has
//! one for all.
//!
//! Needs to become other users. The places of a manager of the whole machine are touched in a guest
//! only (`cargo xtask vm smp --test users`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cpumgr::status::Report;
use support::{
    Program, copy_program, cpumgr, errors, eventually, eventually_alone, is_low, two_processors,
};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// Users that no other part of the test has.
const USERS: [u32; 2] = [65_432, 65_433];

/// What every user may run, or a printed reason.
struct Copies {
    dir: tempfile::TempDir,
}

impl Copies {
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            platform::skip!("becoming another user needs privilege");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap()
        };
        open(dir.path());
        for (from, name) in [
            (std::env::current_exe().unwrap(), "program"),
            (cpumgr().get_program().into(), "cpumgr"),
        ] {
            let to = dir.path().join(name);
            copy_program(from, &to);
            open(&to);
        }
        Some(Self { dir })
    }

    fn command(&self, name: &str, uid: u32) -> Command {
        let mut command = Command::new(self.dir.path().join(name));
        command.env_clear().uid(uid).gid(uid).current_dir("/");
        command
    }

    /// A program of a user, at a manager.
    fn program(&self, uid: u32, socket: &Path) -> Program {
        let mut command = self.command("program", uid);
        command.args(Program::arguments()).env("CPUMGR_TEST_PROGRAM", socket);
        Program::launch(command, 2, 2).unwrap()
    }
}

/// A manager of a user.
struct Own {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Own {
    fn start(copies: &Copies, uid: u32, cpus: &str) -> Self {
        let place = copies.dir.path().join(uid.to_string());
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o700)).unwrap();
        chown(&place, Some(uid), Some(uid)).unwrap();
        let (socket, log) = (place.join("app.sock"), copies.dir.path().join(format!("{uid}.log")));
        let mut command = copies.command("cpumgr", uid);
        command
            .args(["daemon", "--strangers", "leave", "--cpus", cpus, "--socket"])
            .arg(&socket)
            .stdin(Stdio::null());
        let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let own = Self { child, socket, log };
        eventually("the manager answers", || Report::ask(&own.socket).ok());
        own
    }

    fn report(&self) -> Report {
        Report::ask(&self.socket).unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the manager's log:\n{}",
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

#[test]
fn programs_of_two_users_managers_part() {
    let Some(cpus) = two_processors() else { return };
    if is_low() {
        return;
    }
    let Some(copies) = Copies::new() else { return };
    let managers = USERS.map(|uid| Own::start(&copies, uid, &cpus));
    let programs = [0, 1].map(|at| {
        let mut program = copies.program(USERS[at], &managers[at].socket);
        let ours = [managers[at].child.id(), program.pid()];
        eventually_alone("two processors are there", &ours, || {
            (program.seen().processors == 2).then_some(())
        })?;
        assert_eq!(program.ask("spinners 2"), "spinning");
        Some(program)
    });
    let [Some(first), Some(second)] = programs else { return };
    let mut programs = [first, second];
    // Neither manager may know of the other's program, nor of the other manager.
    for (manager, program) in managers.iter().zip(&programs) {
        let pids: Vec<i32> = manager.report().programs.iter().map(|it| it.pid).collect();
        assert_eq!(pids, [program.pid().cast_signed()]);
    }
    let ours =
        [managers[0].child.id(), managers[1].child.id(), programs[0].pid(), programs[1].pid()];
    let _parted = eventually_alone("each spinner has a processor to itself", &ours, || {
        let places = programs.each_mut().map(Program::place_of_the_spinner);
        (places.iter().all(|it| it.len() == 1) && places[0] != places[1]).then_some(())
    });
}

#[test]
fn a_users_manager_gives_way_to_that_of_the_whole_machine() {
    if std::env::var_os("CPUMGR_TEST_MANAGER").is_none() {
        return platform::skip!(
            "a manager of the whole machine would be found by every program here; in a guest it is \
             not"
        );
    }
    let Some(copies) = Copies::new() else { return };
    let socket = Path::new(arena::client::SYSTEM_SOCKET);
    // The guest has no /run.
    std::fs::create_dir_all(socket.parent().and_then(Path::parent).unwrap()).unwrap();
    let mut command = copies.command("cpumgr", 0);
    let mut whole = command.args(["daemon", "--system"]).stdin(Stdio::null()).spawn().unwrap();
    eventually("the manager answers", || Report::ask(socket).ok());
    let output = copies.command("cpumgr", USERS[0]).arg("daemon").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", errors(&output));
    assert!(errors(&output).contains("the manager of the whole machine"), "{}", errors(&output));
    // Programs of both users find it by themselves, and share the machine.
    let own = USERS.map(|uid| copies.program(uid, socket));
    assert_eq!(Report::ask(socket).unwrap().programs.len(), own.len());
    drop(own);
    whole.kill().unwrap();
    whole.wait().unwrap();
}
