//! The manager that `run` starts, finds, replaces, or does without.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::support::{
    ANSWERS_WITHIN, EndManagers, Manager, Program, cpumgr, errors, eventually, processes_of,
};
use crate::{run, shell};

#[test]
fn a_manager_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let lock = dir.path().join("m/app.sock.lock");
    std::fs::create_dir(dir.path().join("m")).unwrap();
    std::fs::set_permissions(dir.path().join("m"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(&lock, "no lock").unwrap();
    let output = shell(dir.path(), "echo ran").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n");
    let warning = errors(&output);
    assert!(warning.contains("is not ours to use"), "{warning}");
    assert!(warning.contains("app.sock.log"), "{warning}");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), "no lock");
}

#[test]
fn beside_a_file_that_is_no_socket_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let socket = dir.path().join("m/app.sock");
    std::fs::create_dir(dir.path().join("m")).unwrap();
    std::fs::set_permissions(dir.path().join("m"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(&socket, "no socket").unwrap();
    let output = shell(dir.path(), "echo ran $NANOS_CPUMGR").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran off\n");
    let warning = errors(&output);
    assert!(warning.contains("something that is no socket stands there"), "{warning}");
    assert!(warning.contains("without a manager"), "{warning}");
    for options in [&[][..], &["--background"]] {
        let output =
            cpumgr().args(["daemon", "--socket"]).arg(&socket).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    }
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "no socket");
    assert_eq!(std::fs::read_dir(dir.path().join("m")).unwrap().count(), 1);
}

/// The processors that a manager on `socket` shares out.
fn managed_at(socket: &Path) -> String {
    cpumgr::status::Report::ask(socket).unwrap().status.processors
}

#[test]
fn a_manager_that_run_starts_is_not_as_narrow_as_its_starter() {
    // In a thread of its own, since masks are the threads' own and children inherit them.
    let wide = std::thread::spawn(|| {
        cpumgr::machine::widen();
        cpumgr::machine::managed(None).unwrap().1
    });
    let wide = wide.join().unwrap();
    if wide.len() < 2 {
        platform::skip!("needs two processors, a manager may use {wide} here");
        return;
    }
    let one = platform::affinity::CpuSet::single(wide.iter().last().unwrap());
    let narrow = one.clone();
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let path = dir.path().to_owned();
    let (output, foreground) = std::thread::spawn(move || {
        platform::affinity::set_affinity(None, &narrow).unwrap();
        (
            shell(&path, "grep Cpus_allowed_list /proc/self/status").output().unwrap(),
            Manager::start(&[]),
        )
    })
    .join()
    .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said.split_whitespace().last(),
        Some(one.to_string().as_str()),
        "the program keeps its mask"
    );
    assert_eq!(managed_at(&dir.path().join("m/app.sock")), wide.to_string());
    assert_eq!(
        managed_at(&foreground.socket()),
        one.to_string(),
        "a user that starts a manager by hand means the mask"
    );
}

#[test]
fn a_stopped_manager_holds_a_program_up_for_a_second() {
    let manager = Manager::start(&[]);
    manager.signal(nix::libc::SIGSTOP);
    let begin = std::time::Instant::now();
    let mut command = cpumgr();
    command.env_remove(ANSWERS_WITHIN);
    command.arg("run").arg("--socket").arg(manager.socket()).args([
        "--",
        "sh",
        "-c",
        "echo ran $NANOS_CPUMGR",
    ]);
    let output = command.output().unwrap();
    let took = begin.elapsed();
    manager.signal(nix::libc::SIGCONT);
    // It looks again for what may go on later.
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("ran {}\n", manager.socket().display())
    );
    let warning = errors(&output);
    assert!(
        warning.contains("did not answer within 1s") && warning.contains("without a manager"),
        "{warning}"
    );
    assert!(took >= Duration::from_secs(1), "it was given up after {took:?}");
}

#[test]
fn runs_at_once_start_exactly_one_manager() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let children: Vec<_> = (0..8)
        .map(|_| {
            shell(dir.path(), "read line; exit 5")
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    // All have become their programs when all have read the end of their input.
    for mut child in children {
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
    let managers = processes_of(dir.path());
    assert_eq!(managers.len(), 1, "{managers:?}");
    let log = std::fs::read_to_string(dir.path().join("m/app.sock.log")).unwrap();
    assert_eq!(log.matches("the manager begins").count(), 1, "{log}");
}

#[test]
fn a_program_under_run_registers_and_is_not_the_managers_parent() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let mut command = run(dir.path());
    command
        .args(["--weight", "2.5", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(Program::arguments());
    // Empty: the program takes the socket that `run` names.
    command.env("CPUMGR_TEST_PROGRAM", "");
    let mut program = Program::launch(command, 1, 1).unwrap();
    assert!(program.seen().dedicated);
    let [manager] = processes_of(dir.path())[..] else { panic!("one manager") };
    let stat = std::fs::read_to_string(format!("/proc/{manager}/stat")).unwrap();
    let parent: u32 =
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_ne!(parent, program.pid());
    let report = cpumgr::status::Report::ask(&dir.path().join("m/app.sock")).unwrap();
    assert_eq!(report.programs[0].pid.cast_unsigned(), program.pid());
    assert_eq!(report.programs[0].weight, 2.5, "it was announced with it");
}

#[test]
fn a_manager_waits_for_an_announced_program_longer_than_it_idles() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("cpumgr.toml");
    let mut manager = Manager::start_to_stay(&config);
    let mut command = cpumgr();
    command.arg("run").arg("--socket").arg(manager.socket()).args([
        "--",
        "sh",
        "-c",
        "echo here; read line",
    ]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "here\n");
    manager.may_leave_after(&config, "100ms");
    let pidfd =
        platform::process::pidfd_open(platform::process::Pid(manager.pid().cast_signed())).unwrap();
    let waited = platform::process::wait_readable(
        &[std::os::fd::AsFd::as_fd(&pidfd)],
        Some(Duration::from_millis(500)),
    );
    assert!(waited.unwrap().is_empty(), "the manager left an announced program");
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(manager.wait().success());
}

#[test]
fn a_killed_managers_socket_is_taken_over_by_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    assert!(shell(dir.path(), "true").output().unwrap().status.success());
    let [first] = processes_of(dir.path())[..] else { panic!("one manager") };
    let pidfd = platform::process::pidfd_open(platform::process::Pid(first)).unwrap();
    platform::process::pidfd_send_signal(&pidfd, nix::libc::SIGKILL).unwrap();
    eventually("it is dead", || platform::process::has_ended(&pidfd).unwrap().then_some(()));
    assert!(dir.path().join("m/app.sock").exists());
    let output = shell(dir.path(), "echo $NANOS_CPUMGR").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("app.sock\n"));
    let managers = processes_of(dir.path());
    assert!(managers.len() == 1 && managers[0] != first, "{managers:?}");
}

#[test]
fn a_stopped_manager_that_lost_its_socket_file_holds_a_program_up_for_a_second() {
    let manager = Manager::start(&[]);
    manager.signal(nix::libc::SIGSTOP);
    std::fs::remove_file(manager.socket()).unwrap();
    let begin = std::time::Instant::now();
    let mut command = cpumgr();
    command.env_remove(ANSWERS_WITHIN);
    command.arg("run").arg("--socket").arg(manager.socket()).args([
        "--",
        "sh",
        "-c",
        "echo ran $NANOS_CPUMGR",
    ]);
    let output = command.output().unwrap();
    let took = begin.elapsed();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran off\n");
    let warning = errors(&output);
    let lock = manager.dir.path().join("app.sock.lock");
    let names = [
        lock.to_str().unwrap(),
        "no manager answers",
        &format!("(kill {})", manager.pid()),
        "without a manager",
    ];
    assert!(names.iter().all(|name| warning.contains(name)), "{warning}");
    assert!(
        Duration::from_secs(1) <= took && took < Duration::from_secs(10),
        "it was given up after {took:?}"
    );
}

#[test]
fn a_manager_ends_when_its_socket_file_is_removed_or_replaced_and_another_one_takes_its_programs_in()
 {
    let mut manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    let socket = manager.socket();
    // Other files may come and go.
    let other = manager.dir.path().join("other");
    std::fs::write(&other, "").unwrap();
    std::fs::remove_file(&other).unwrap();
    assert!(program.seen().alive && manager.status().programs.len() == 1);
    for replaced in [false, true] {
        std::fs::remove_file(&socket).unwrap();
        if replaced {
            std::fs::write(&socket, "precious").unwrap();
        }
        assert_eq!(manager.wait().code(), Some(5));
        let log = manager.log();
        assert!(
            log.contains(socket.to_str().unwrap()) && log.contains("was removed or replaced"),
            "{log}"
        );
        if replaced {
            assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
            std::fs::remove_file(&socket).unwrap();
        }
        manager.start_again(&[]);
        eventually("the program is taken in", || {
            (manager.status().programs.len() == 1).then_some(())
        });
        eventually("the program knows", || program.seen().alive.then_some(()));
    }
}

#[test]
fn what_takes_connections_and_closes_them_is_given_up_after_few_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("app.sock");
    let listener = platform::fdpass::listen(&socket, 0o600).unwrap();
    platform::fdpass::set_nonblocking(&listener).unwrap();
    let mut command = cpumgr();
    command.arg("run").arg("--socket").arg(&socket).args([
        "--",
        "sh",
        "-c",
        "echo ran $NANOS_CPUMGR",
    ]);
    let piped = std::process::Stdio::piped;
    let mut child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    let mut closed = 0;
    eventually("it is given up", || {
        while platform::fdpass::accept(&listener).is_ok() {
            closed += 1;
        }
        child.try_wait().unwrap()
    });
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran off\n");
    assert!(errors(&output).contains("without a manager"), "{}", errors(&output));
    assert!(closed < 20, "{closed} connections");
}

#[test]
fn background_returns_when_the_manager_answers_and_a_second_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let socket = dir.path().join("m/app.sock");
    let start =
        || cpumgr().args(["daemon", "--background", "--socket"]).arg(&socket).output().unwrap();
    assert!(start().status.success());
    assert!(cpumgr().arg("status").arg("--socket").arg(&socket).output().unwrap().status.success());
    let second = start();
    assert_eq!(second.status.code(), Some(4));
    assert!(
        errors(&second).contains("runs on") && errors(&second).contains("already"),
        "{}",
        errors(&second)
    );
    let foreground = || cpumgr().args(["daemon", "--socket"]).arg(&socket).output().unwrap();
    assert_eq!(foreground().status.code(), Some(4));
    // The first one is there also when the file is not that says so.
    std::fs::remove_file(dir.path().join("m/app.sock.lock")).unwrap();
    let [first] = processes_of(dir.path())[..] else { panic!("one manager") };
    let refused = foreground();
    assert_eq!(refused.status.code(), Some(4));
    assert!(errors(&refused).contains(&format!("process {first}")), "{}", errors(&refused));
    assert!(cpumgr().arg("status").arg("--socket").arg(&socket).output().unwrap().status.success());
}
