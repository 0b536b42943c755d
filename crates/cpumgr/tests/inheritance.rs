//! What a manager that `cpumgr run` starts on the way keeps of its starter: as little as the system
//! allows, and it says what.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::{
    ANSWERS_WITHIN, EndManagers, PATIENCE, cpumgr, errors, eventually, processes_of, write_script,
};

fn socket(dir: &Path) -> PathBuf {
    dir.join("m/app.sock")
}

/// A shell that does `first` and becomes `cpumgr run -- PROGRAM`.
fn run_after(dir: &Path, first: &str, program: &[&str]) -> Command {
    let ours = cpumgr();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{first} exec \"$@\"")).arg("sh").arg(ours.get_program());
    for (variable, _) in ours.get_envs() {
        command.env_remove(variable);
    }
    command.env(ANSWERS_WITHIN, PATIENCE.as_secs().to_string());
    let empty = dir.join("empty");
    fs::create_dir_all(&empty).unwrap();
    fs::write(empty.join("libgomp.so.1"), "").unwrap();
    command
        .env("NANOS_SHIM_DIR", empty)
        .args(["run", "--socket"])
        .arg(socket(dir))
        .arg("--")
        .args(program);
    command
}

fn manager_of(dir: &Path) -> i32 {
    let [manager] = processes_of(dir)[..] else { panic!("one manager") };
    manager
}

fn file_of(pid: i32, name: &str) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).unwrap()).into_owned()
}

/// Field `number` of a process's `stat`, counted as proc(5) does.
fn field(pid: i32, number: usize) -> i64 {
    let stat = file_of(pid, "stat");
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(number - 3).unwrap().parse().unwrap()
}

#[test]
fn limits_directory_environment_and_mode_of_new_files_are_not_the_starters() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let first =
        format!("ulimit -S -t 77; umask 0; cd {}; export STARTERS_OWN=1;", dir.path().display());
    let output = run_after(
        dir.path(),
        &first,
        &["sh", "-c", "ulimit -S -t; umask; echo $STARTERS_OWN; pwd"],
    )
    .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = format!("77\n0000\n1\n{}\n", dir.path().canonicalize().unwrap().display());
    assert_eq!(said, kept, "the program keeps it all: {}", errors(&output));
    let manager = manager_of(dir.path());
    let limits = file_of(manager, "limits");
    let line = limits.lines().find(|line| line.starts_with("Max cpu time")).unwrap();
    assert!(!line.contains("77"), "{line}");
    assert!(!file_of(manager, "environ").contains("STARTERS_OWN"));
    assert_eq!(fs::read_link(format!("/proc/{manager}/cwd")).unwrap(), Path::new("/"));
    let status = file_of(manager, "status");
    assert!(
        status.lines().any(|line| line.starts_with("Umask:") && line.ends_with("0077")),
        "{status}"
    );
}

#[test]
fn a_limit_of_descriptors_is_raised_or_status_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let output =
        run_after(dir.path(), "ulimit -n 300;", &["sh", "-c", "ulimit -n"]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "300\n",
        "the program keeps it: {}",
        errors(&output)
    );
    let limits = file_of(manager_of(dir.path()), "limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    let said = cpumgr().arg("status").arg("--socket").arg(socket(dir.path())).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(soft > 4000 || said.contains("a limit of 300 descriptors"), "{line}: {said}");
}

/// Resources as `ulimit` and `/proc/PID/limits` name them, with a limit by which a manager would
/// end or fail sooner or later.
const LIMITS: [(&str, &str, u64); 5] = [
    ("-t", "Max cpu time", 77),
    ("-f", "Max file size", 9_000),
    ("-d", "Max data size", 1 << 22),
    ("-v", "Max address space", 1 << 22),
    ("-n", "Max open files", 600),
];

/// The two parts of a limit of process `pid`; `None`: unlimited.
fn limit_of(pid: i32, name: &str) -> [Option<u64>; 2] {
    let limits = file_of(pid, "limits");
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    [0, 1].map(|part| words[part].parse().ok())
}

/// `first` as a user without privilege would do it, also where the test's is the superuser; `None`,
/// with a printed reason, where that cannot be had.
fn without_privilege(dir: &Path, first: &str, program: &[&str]) -> Option<Command> {
    if !nix::unistd::geteuid().is_root() {
        return Some(run_after(dir, first, program));
    }
    let able = ["-sys_resource", "-sys_nice"].join(",");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &able, "--inh-caps", &able]);
    let probe = command.arg("true").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        platform::skip!("the superuser's limits have no end, and setpriv cannot lower its rights");
        return None;
    }
    let inner = run_after(dir, first, program);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &able, "--inh-caps", &able]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(command)
}

#[test]
fn each_soft_limit_of_its_starter_is_widened_to_the_hard_one() {
    for (option, name, limit) in LIMITS {
        let dir = tempfile::tempdir().unwrap();
        let _end = EndManagers(dir.path());
        let first = format!("ulimit -S {option} {limit};");
        let Some(mut command) = without_privilege(dir.path(), &first, &["true"]) else { return };
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), errors(&output)), (Some(0), String::new()), "{name}");
        let [own, manager] = [std::process::id().cast_signed(), manager_of(dir.path())];
        let ([_, hard], [soft, _]) = (limit_of(own, name), limit_of(manager, name));
        // Of descriptors it takes as many as it can use.
        let is_wide = soft == hard || name == "Max open files" && soft > Some(4_000);
        assert!(is_wide, "{name}: {soft:?} of {hard:?}");
    }
}

#[test]
fn a_hard_limit_of_its_starter_is_told_to_all_that_come_from_elsewhere() {
    for (option, name, limit) in LIMITS {
        let dir = tempfile::tempdir().unwrap();
        let _end = EndManagers(dir.path());
        let first = format!("ulimit {option} {limit};");
        let stays = ["sh", "-c", "echo began; read line"];
        let Some(mut inside) = without_privilege(dir.path(), &first, &stays) else { return };
        let mut inside = inside.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(inside.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "began\n");
        let small = manager_of(dir.path());
        assert!(limit_of(small, name)[1].is_some(), "{name}");

        // What has the same limit is told nothing.
        let same = without_privilege(dir.path(), &first, &["true"]).unwrap().output().unwrap();
        assert_eq!(errors(&same), "", "{name}");
        let outside = || run_after(dir.path(), "", &["true"]).output().unwrap();
        for _ in 0..2 {
            let warning = errors(&outside());
            assert!(
                warning.contains("kept of its starter")
                    && warning.contains("a limit of ")
                    && warning.contains("cpumgr stop"),
                "{name}: {warning}"
            );
            assert_eq!(warning.lines().count(), 1, "{name}: {warning}");
        }
        assert_eq!(manager_of(dir.path()), small, "{name}: it has a program");

        drop(inside.stdin.take());
        inside.wait().unwrap();
        eventually("it is replaced", || {
            assert_eq!(outside().status.code(), Some(0));
            let report = cpumgr::status::Report::ask(&socket(dir.path())).ok()?;
            (report.status.kept.is_empty() && report.status.manager_pid != small).then_some(())
        });
        assert_eq!(errors(&outside()), "", "{name}");
    }
}

#[test]
fn standing_with_the_scheduler_is_the_usual_one_or_status_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let first =
        "renice -n 19 -p $$ > /dev/null; chrt -i -p 0 $$; echo 500 > /proc/$$/oom_score_adj;";
    let output =
        run_after(dir.path(), first, &["cat", "/proc/self/oom_score_adj"]).output().unwrap();
    if String::from_utf8_lossy(&output.stdout) != "500\n" || errors(&output).contains("not found") {
        platform::skip!("needs renice, chrt and /proc/PID/oom_score_adj: {}", errors(&output));
        return;
    }
    let manager = manager_of(dir.path());
    let (nice, score) = (field(manager, 19), file_of(manager, "oom_score_adj"));
    let mut status = cpumgr();
    let said = status.arg("status").arg("--socket").arg(socket(dir.path())).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // SCHED_OTHER is 0.
    assert!(
        field(manager, 41) == 0 || said.contains("a scheduling policy that is not the usual one"),
        "{said}"
    );
    assert!(nice == 0 || said.contains("kept of its starter: niceness 19"), "{nice}: {said}");
    assert!(score.trim() == "0" || said.contains("oom_score_adj 500"), "{score}: {said}");
    assert!(nice == 0 || !nix::unistd::geteuid().is_root(), "the superuser may");
}

/// `systemd-run` as a script that notes what it is told, in front of the path.
fn with_systemd_run<'a>(command: &'a mut Command, dir: &Path, does: &str) -> &'a mut Command {
    let tools = dir.join("tools");
    fs::create_dir_all(dir.join("runtime/systemd")).unwrap();
    fs::set_permissions(dir.join("runtime"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(dir.join("runtime/systemd/private"), "").unwrap();
    fs::create_dir_all(&tools).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n{does}\n", dir.join("told").display());
    write_script(&tools.join("systemd-run"), &script);
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("XDG_RUNTIME_DIR", dir.join("runtime"))
}

#[test]
fn where_there_is_a_service_manager_it_lives_in_a_scope_of_its_own() {
    let becomes = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";
    for (does, says) in
        [(becomes, "a scope"), ("exit 1", "none to be had"), ("exec sleep 1000", "it hangs")]
    {
        let dir = tempfile::tempdir().unwrap();
        let _end = EndManagers(dir.path());
        let mut command = run_after(dir.path(), "", &["sh", "-c", "echo $NANOS_CPUMGR"]);
        let output = with_systemd_run(&mut command, dir.path(), does).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            said.trim(),
            socket(dir.path()).to_str().unwrap(),
            "{says}: {}",
            errors(&output)
        );
        let told = fs::read_to_string(dir.path().join("told")).unwrap();
        assert!(
            told.starts_with("--user --scope ") && told.contains(" daemon --detached "),
            "{told}"
        );
        manager_of(dir.path());
    }
}

/// A cpuset of processor 0, while this machine lets tests make one.
struct Cpuset(PathBuf);

impl Cpuset {
    fn new() -> Option<Self> {
        let parent = Path::new("/sys/fs/cgroup/cpuset");
        let group = Self(parent.join(format!("cpumgr-test-{}", std::process::id())));
        let made = fs::create_dir(&group.0)
            .and_then(|()| fs::write(group.0.join("cpuset.mems"), "0"))
            .and_then(|()| fs::write(group.0.join("cpuset.cpus"), "0"));
        match made {
            Ok(()) => Some(group),
            Err(error) => {
                platform::skip!("no cpuset can be made below {}: {error}", parent.display());
                None
            }
        }
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        // The process that was in it has ended a moment ago. Where it was not made nothing is
        // removed.
        let _removed = self
            .0
            .exists()
            .then(|| eventually("the cpuset is empty", || fs::remove_dir(&self.0).ok()));
    }
}

#[test]
fn a_program_from_a_wider_place_is_told_of_a_narrow_manager_and_takes_its_place_when_it_is_idle() {
    if support::two_processors().is_none() {
        return;
    }
    let Some(cpuset) = Cpuset::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let first = format!("echo $$ > {}/cgroup.procs;", cpuset.0.display());
    let mut inside = run_after(dir.path(), &first, &["sh", "-c", "echo began; read line"]);
    let mut inside = inside.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(inside.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "began\n");
    let narrow = manager_of(dir.path());
    let outside = || -> Output { run_after(dir.path(), "", &["true"]).output().unwrap() };
    let warning = errors(&outside());
    let why = format!("started inside cpuset /{}", cpuset.0.file_name().unwrap().to_str().unwrap());
    assert!(
        warning.contains("manages 0 of ")
            && warning.contains(&why)
            && warning.contains("cpumgr stop"),
        "{warning}"
    );
    assert_eq!(warning.lines().count(), 1, "{warning}");
    let status = cpumgr().arg("status").arg("--socket").arg(socket(dir.path())).output().unwrap();
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.contains(&why) && said.contains(&format!("by process {}", inside.id())), "{said}");

    drop(inside.stdin.take());
    inside.wait().unwrap();
    eventually("it is replaced", || {
        assert_eq!(outside().status.code(), Some(0));
        let report = cpumgr::status::Report::ask(&socket(dir.path())).ok()?;
        (report.status.narrow.is_none() && report.status.manager_pid != narrow).then_some(())
    });
    assert_eq!(errors(&outside()), "");
}
