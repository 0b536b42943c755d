//! A manager of the whole machine: programs of several users, which neither see nor change each
//! other's affairs (D9, D10).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::{CPUMGR, Manager, Program, copy_program, cpumgr, errors, eventually, two_processors};

/// A user that no other part of the test has.
const STRANGER: u32 = 65534;

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// Copies of the test and of the manager's program that every user may run.
struct ForAll {
    program: PathBuf,
    cpumgr: PathBuf,
}

impl ForAll {
    /// In the manager's directory; nothing when this user cannot become another one.
    fn new(dir: &Path) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            platform::skip!("becoming another user needs privilege");
            return None;
        }
        let copy = |from: &Path, name: &str| {
            let to = dir.join(name);
            copy_program(from, &to);
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
            to
        };
        let program = copy(&std::env::current_exe().unwrap(), "program");
        Some(Self { program, cpumgr: copy(Path::new(CPUMGR), "cpumgr") })
    }

    fn program(&self, manager: &Manager, request: u32) -> Result<Program, String> {
        let mut command = Command::new(&self.program);
        command.args(Program::arguments()).env("CPUMGR_TEST_PROGRAM", manager.socket());
        command.uid(STRANGER).gid(STRANGER).current_dir("/");
        Program::launch(command, request, 2)
    }

    fn say(&self, manager: &Manager, words: &[&str]) -> Output {
        let mut command = Command::new(&self.cpumgr);
        command.arg(words[0]).arg("--socket").arg(manager.socket()).args(&words[1..]);
        command.uid(STRANGER).gid(STRANGER).current_dir("/").output().unwrap()
    }
}

#[test]
fn programs_of_two_users_share_the_machine_and_nothing_else() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--system", "--cpus", &cpus]);
    let Some(for_all) = ForAll::new(manager.dir.path()) else { return };
    let mut own = manager.program(2, 2);
    let mut other = for_all.program(&manager, 2).unwrap();
    own.until("one is left", |seen| seen.processors == 1 && !seen.shared);
    let seen = other.until("the other user's has one", |seen| seen.processors == 1 && !seen.shared);
    assert!(seen.cpus.is_disjoint(&own.seen().cpus));

    // Its threads are squeezed as those of any program.
    own.ask("request 1");
    other.until("it has both", |seen| seen.processors == 2 || seen.dedicated);

    // What concerns all users is for the manager's user to change.
    for words in [&["set", "quantum", "50ms"][..], &["policy", "equip"], &["mpl", "1"], &["reload"]]
    {
        let output = for_all.say(&manager, words);
        assert_eq!(output.status.code(), Some(6), "{words:?}");
        assert!(errors(&output).contains("that is for user 0"), "{words:?}: {}", errors(&output));
    }
    let output = for_all.say(&manager, &["attach", &own.pid().to_string()]);
    assert!(errors(&output).contains("belongs to user 0"), "{}", errors(&output));

    // They may not know which other programs are there.
    let output = for_all.say(&manager, &["status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pids: Vec<u64> = report["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["pid"].as_u64().unwrap())
        .collect();
    assert_eq!(pids, [u64::from(other.pid())]);
    assert_eq!(manager.status().programs.len(), 2);
    other.kill();
    eventually("it is gone", || (manager.status().programs.len() == 1).then_some(()));
}

#[test]
fn another_group_administers_from_a_reload_on() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("c.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("admin-group = \"\"");
    let manager = Manager::start(&["--system", "--config", file.to_str().unwrap()]);
    let Some(for_all) = ForAll::new(manager.dir.path()) else { return };
    let group = nix::unistd::Group::from_gid(STRANGER.into()).unwrap();
    let Some(group) = group else {
        return platform::skip!("group {STRANGER} has no name here");
    };
    let reload = || {
        let output = cpumgr().args(["reload", "--socket"]).arg(manager.socket()).output().unwrap();
        assert!(output.status.success() && errors(&output).is_empty(), "{}", errors(&output));
    };
    let may = || for_all.say(&manager, &["set", "quantum", "50ms"]).status.success();
    assert!(!may());
    write(&format!("admin-group = \"{}\"", group.name));
    reload();
    assert!(may());
    write("admin-group = \"\"");
    reload();
    assert!(!may());
}

#[test]
fn any_number_of_working_programs_of_one_user_leaves_another_its_half() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--system", "--cpus", &cpus]);
    let Some(for_all) = ForAll::new(manager.dir.path()) else { return };
    let mut theirs: Vec<Program> = (0..6).map(|_| for_all.program(&manager, 2).unwrap()).collect();
    let mut own = manager.program(2, 2);
    for program in theirs.iter_mut().chain([&mut own]) {
        assert_eq!(program.ask("hogs 1"), "hogging");
    }
    let seen = own.until("it has one to itself", |seen| seen.processors == 1 && !seen.shared);
    for program in &mut theirs {
        program
            .until("they share the other one", |it| it.shared && it.cpus.is_disjoint(&seen.cpus));
    }
    // With one of them each has one.
    theirs.truncate(1);
    theirs[0].until("it is its own", |seen| seen.processors == 1 && !seen.shared);
}

/// A process that connects as often as it is told to, and says nothing; answers each line with how
/// many of its connections were closed by now.
#[test]
fn acts_as_a_crowd() {
    let Some(socket) = std::env::var_os("CPUMGR_TEST_CROWD") else { return };
    let crowd: Vec<_> = (0..CROWD).map(|_| support::connection(Path::new(&socket))).collect();
    println!("> 0");
    for _line in std::io::stdin().lines() {
        let closed = crowd.iter().filter(|it| platform::process::is_hung_up(it).unwrap()).count();
        println!("> {closed}");
    }
}

/// More connections than a manager listens to at once.
const CROWD: usize = 200;

#[test]
fn a_user_that_connects_and_says_nothing_does_not_shut_others_out() {
    let manager = Manager::start(&["--system"]);
    let Some(for_all) = ForAll::new(manager.dir.path()) else { return };
    let mut command = Command::new(&for_all.program);
    command.args(["--exact", "acts_as_a_crowd", "--nocapture", "--test-threads=1"]);
    command.env("CPUMGR_TEST_CROWD", manager.socket()).uid(STRANGER).gid(STRANGER).current_dir("/");
    let mut crowd = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(crowd.stdout.take().unwrap()).lines();
    let mut answer = || {
        let line = output
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("> ")?.1.to_owned()));
        line.unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(answer(), 0, "all are connected");
    assert!(manager.status().programs.is_empty());
    // Nor are clients of its own user that speak: they wait for none that does not.
    let said = for_all.say(&manager, &["status"]);
    assert!(said.status.success(), "{}", errors(&said));
    // A client that came first and was silent for long would have had to leave before: one a second
    // and place.
    let mut input = crowd.stdin.take().unwrap();
    writeln!(input).unwrap();
    let closed = answer();
    assert!(closed < 64, "{closed} of {CROWD} were let go before another client was heard");
    drop(input);
    assert!(crowd.wait().unwrap().success());
}

#[test]
fn a_users_own_manager_lets_no_other_user_in() {
    let manager = Manager::start(&[]);
    let Some(for_all) = ForAll::new(manager.dir.path()) else { return };
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
    };
    open(manager.dir.path(), 0o755);
    open(&manager.socket(), 0o666);
    let refused = for_all.program(&manager, 1).err().unwrap();
    assert!(refused.contains("belongs to user 0"), "{refused}");
    let said = for_all.say(&manager, &["status"]);
    assert!(!said.status.success(), "{}", errors(&said));
    assert!(
        cpumgr()
            .arg("status")
            .arg("--socket")
            .arg(manager.socket())
            .output()
            .unwrap()
            .status
            .success()
    );
}
