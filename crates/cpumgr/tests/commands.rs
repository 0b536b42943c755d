//! The commands as people use them: help, what is in force, the manager's end and its beginning
//! anew.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use support::{Manager, Program, copy_program, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn on(manager: &Manager, words: &[&str]) -> Output {
    let mut command = cpumgr();
    command.args(words).arg("--socket").arg(manager.socket()).output().unwrap()
}

/// What a command says that succeeds without a complaint.
fn said(manager: &Manager, words: &[&str]) -> String {
    let output = on(manager, words);
    assert!(
        output.status.success() && errors(&output).is_empty(),
        "{words:?}: {}",
        errors(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_a_command_too() {
    for (words, about) in [
        (&["help"][..], "Usage: cpumgr <COMMAND>"),
        (&["help", "run"], "PROGRAM [ARGS]"),
        (&["help", "set"], "quantum"),
    ] {
        let output = cpumgr().args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(about), "{words:?}: {text}");
    }
}

#[test]
fn without_a_value_what_is_in_force_is_shown() {
    let manager = Manager::start(&["--policy", "equip", "--grace", "900us", "--mpl", "3"]);
    assert_eq!(said(&manager, &["mpl"]), "3\n");
    assert_eq!(said(&manager, &["set"]), "quantum 100ms\ngrace 900us\nmpl 3\npolicy equip\n");
    assert_eq!(
        (said(&manager, &["set", "quantum"]), said(&manager, &["set", "grace"])),
        ("100ms\n".into(), "900us\n".into())
    );
    assert_eq!(said(&manager, &["mpl", "any"]) + &said(&manager, &["mpl"]), "any\n");
    let program = manager.program(1, 1);
    let pid = program.pid().to_string();
    assert_eq!(said(&manager, &["set", "weight", &pid, "2.5"]), "");
    assert_eq!(said(&manager, &["set", "weight", &pid]), "2.5\n");
    assert_eq!(on(&manager, &["set", "weight", "1"]).status.code(), Some(2));
    // Not a text for a reader that wants a document, nor a change of what was to be shown.
    let refused = on(&manager, &["set", "--json", "quantum", "50ms"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    assert_eq!(said(&manager, &["set", "quantum"]), "100ms\n");
    assert!(said(&manager, &["status"]).contains("grace 900us,"));
}

#[test]
fn names_are_readable_in_any_script() {
    let manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    program.ask("called 计算é");
    // Names are read at registration.
    assert_eq!(program.ask("register 1 1"), "registered");
    eventually("it is shown by its name", || {
        said(&manager, &["status"]).contains("  计算é  ").then_some(())
    });
}

#[test]
fn stop_ends_the_manager_and_programs_go_on() {
    let mut manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    assert_eq!(said(&manager, &["stop"]), "");
    assert_eq!(manager.wait().code(), Some(0));
    assert!(!manager.socket().exists());
    assert_eq!(on(&manager, &["stop"]).status.code(), Some(3), "there is none any more");
    eventually("the program knows", || (!program.seen().alive).then_some(()));
}

#[test]
fn restart_keeps_what_was_set_and_what_runs() {
    let manager = Manager::start(&["--policy", "equip", "--idle-exit", "never"]);
    let mut program = manager.program(1, 1);
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    said(&manager, &["attach", &sleeper.id().to_string()]);
    for change in [
        &["set", "quantum", "50ms"][..],
        &["set", "grace", "3ms"],
        &["mpl", "7"],
        &["policy", "pdpa", "step=4"],
    ] {
        said(&manager, change);
    }
    assert_eq!(said(&manager, &["restart"]), "");
    let report = manager.status();
    assert_eq!(report.status.manager_pid.cast_unsigned(), manager.pid(), "it is the same process");
    assert_eq!(said(&manager, &["set"]), "quantum 50ms\ngrace 3ms\nmpl 7\npolicy pdpa\n");
    assert_eq!(report.status.parameters.get("step").map(String::as_str), Some("4"));
    let attached = report.programs.iter().find(|it| it.attached).map(|it| it.pid.cast_unsigned());
    assert_eq!(attached, Some(sleeper.id()), "from the first answer on");
    eventually("the program is taken in again", || {
        (program.ask("registrations") == "2").then_some(())
    });
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(manager.log().matches("the manager begins anew").count(), 1);
    said(&manager, &["stop"]);
}

#[test]
fn a_manager_whose_program_is_gone_refuses_to_begin_anew_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (program, socket) = (dir.path().join("cpumgr"), dir.path().join("app.sock"));
    copy_program(cpumgr().get_program(), &program);
    let mut manager = Command::new(&program);
    let manager = manager.args(["daemon", "--strangers", "ignore", "--socket"]).arg(&socket);
    let mut manager = manager.stderr(std::process::Stdio::null()).spawn().unwrap();
    let of = |word: &str| cpumgr().arg(word).arg("--socket").arg(&socket).output().unwrap();
    eventually("it answers", || of("status").status.success().then_some(()));
    std::fs::remove_file(&program).unwrap();
    let refused = of("restart");
    assert_eq!(refused.status.code(), Some(6), "{}", support::errors(&refused));
    assert!(
        support::errors(&refused).contains("goes on as it is"),
        "{}",
        support::errors(&refused)
    );
    assert!(of("status").status.success());
    assert!(of("stop").status.success());
    assert!(manager.wait().unwrap().success());
}

#[test]
fn a_program_under_run_that_registers_leaves_no_complaint_in_the_log() {
    let manager = Manager::start(&[]);
    let mut command = cpumgr();
    command
        .arg("run")
        .arg("--socket")
        .arg(manager.socket())
        .arg("--")
        .arg(std::env::current_exe().unwrap());
    command.args(Program::arguments()).env("CPUMGR_TEST_PROGRAM", "");
    let program = Program::launch(command, 1, 1).unwrap();
    // Twice the time after which those are looked at that have not registered.
    let pidfd =
        platform::process::pidfd_open(platform::process::Pid(program.pid().cast_signed())).unwrap();
    let waited = platform::process::wait_readable(
        &[std::os::fd::AsFd::as_fd(&pidfd)],
        Some(Duration::from_millis(400)),
    );
    assert!(waited.unwrap().is_empty(), "it lives");
    let log = manager.log();
    assert!(log.contains("a program arrives") && !log.contains("is not attached"), "{log}");
}

#[test]
fn a_trace_does_not_follow_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let [precious, link] = ["precious", "link"].map(|name| dir.path().join(name));
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    let mut command = cpumgr();
    command
        .args(["daemon", "--idle-exit", "0s", "--socket"])
        .arg(dir.path().join("app.sock"))
        .arg("--trace")
        .arg(&link);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(
        errors(&output).contains("symbolic link")
            && errors(&output).contains(link.to_str().unwrap())
    );
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn a_wrong_value_is_answered_with_where_it_stands_what_it_is_and_what_is_allowed() {
    let manager = Manager::start(&["--policy", "pdpa"]);
    let long = "l".repeat(65);
    for (words, says) in [
        (&["mpl", "some"][..], &["N | any", "\"some\"", "0 to 4294967295, or any"][..]),
        (&["mpl", "4294967296"], &["N | any", "4294967296", "0 to 4294967295, or any"]),
        (&["set", "quantum", "some"], &["[TIME]", "\"some\"", "1ms to 10s"]),
        (&["set", "quantum", "1us"], &["[TIME]", "1us", "1ms", "10s"]),
        (&["set", "grace", "2"], &["[TIME]", "\"2\"", "0ns to 10s"]),
        (&["set", "grace", "11s"], &["[TIME]", "11s", "0ns", "10s"]),
        (&["set", "weight", "7", "some"], &["[WEIGHT]", "\"some\"", "0.001 to 1000"]),
        (&["set", "weight", "some"], &["<PID>", "\"some\"", "1 to 2147483647"]),
        (&["set", "team", "7", "some"], &["[TEAM]", "some", "fixed"]),
        (&["set", "min", "7", "some"], &["[PROCESSORS]", "\"some\"", "1 to 4294967295"]),
        (&["set", "min", "7", "0"], &["[PROCESSORS]", "\"0\"", "1 to 4294967295"]),
        (&["set", "max", "7", "0"], &["PROCESSORS | any", "\"0\"", "1 to 4294967295, or any"]),
        (&["policy", "step=some"], &["step cannot be \"some\"", "a whole number from 1 to"]),
        (&["policy", "step=0"], &["step cannot be 0", "a whole number from 1 to"]),
        (&["policy", "colour=some"], &["\"colour\"", "there are:", "step"]),
        (&["policy", "dss", "colour=some"], &["\"colour\"", "there are: none"]),
        (&["attach", "some"], &["<PID>", "\"some\"", "1 to 2147483647"]),
        (&["attach", "-1"], &["<PID>", "\"-1\"", "1 to 2147483647"]),
        (&["mpl", "-1"], &["N | any", "\"-1\"", "0 to 4294967295, or any"]),
        (&["set", "weight", "7", "-1"], &["[WEIGHT]", "\"-1\"", "0.001 to 1000"]),
        (&["drain", "-1"], &["[LIST]", "\"-1\"", "0-3,8"]),
        (&["run", ""], &["the name of the program is empty"]),
        (&["submit", ""], &["the name of the program is empty"]),
        (&["jobserver", ""], &["the name of the program is empty"]),
        (&["doctor", "--", ""], &["the name of the program is empty"]),
        (&["jobserver", "--jobs", "some", "make"], &["--jobs", "\"some\"", "1 to 4096"]),
        (&["cancel", "some"], &["<ID>", "\"some\"", "`cpumgr queue` shows them"]),
        (&["run", "--min", "3", "--max", "2", "true"], &["--min 3 with --max 2", "at most"]),
        (&["submit", "--min", "3", "--max", "2", "true"], &["--min 3 with --max 2", "at most"]),
        (&["run", "--label", &long, "true"], &["--label", "1 to 64 bytes, not 65"]),
        (&["submit", "--label", "", "true"], &["--label", "1 to 64 bytes, not 0"]),
        (
            &["daemon", "--policy", "pdpa", "--parameter", "step=x"],
            &["--parameter step=x", "step cannot be \"x\"", "a whole number from 1 to"],
        ),
        (&["daemon", "--parameter", "step"], &["--parameter", "\"step\"", "KEY=VALUE"]),
        (&["daemon", "--trace-size", "1K"], &["--trace-size", "\"1K\"", "64K or more"]),
        (&["daemon", "--listen", "some"], &["--listen", "\"some\"", "127.0.0.1:9477"]),
    ] {
        let output = on(&manager, words);
        let error = errors(&output);
        // That of a policy's parameters is the manager's to say.
        let code = if words[0] == "policy" { 6 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert!(says.iter().all(|it| error.contains(it)), "{words:?}: {error}");
    }
    for (variable, value, says) in [
        ("CPUMGR_MPL", "some", "\"some\" is no number of programs; it is 0 to 4294967295, or any"),
        ("CPUMGR_QUANTUM", "some", "1ms to 10s"),
        ("CPUMGR_TRACE_SIZE", "1K", "\"1K\""),
        ("CPUMGR_HISTORY_SIZE", "1K", "\"1K\""),
        ("CPUMGR_LISTEN", "some", "\"some\""),
    ] {
        let output = cpumgr().arg("check-config").env(variable, value).output().unwrap();
        let error = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{variable}: {error}");
        assert!(error.contains(variable) && error.contains(says), "{error}");
    }
}

#[test]
fn a_doctor_of_what_is_not_there_says_so_and_what_it_may_be() {
    for (program, says) in [("no-such-program", "in the directories of PATH"), ("./no/such", "; ")]
    {
        let output = cpumgr().args(["doctor", "--", program]).output().unwrap();
        let error = errors(&output);
        assert_eq!(output.status.code(), Some(127), "{error}");
        assert!(error.contains(program) && error.contains(says), "{error}");
        assert!(error.contains("there is no such program") && error.contains("number"), "{error}");
    }
}

/// An OpenMP program; `None`, with a printed reason, where it cannot be made.
fn openmp_program(dir: &tempfile::TempDir, options: &[&str]) -> Option<PathBuf> {
    let (source, program) = (dir.path().join("x.c"), dir.path().join("x"));
    let text = "int main(void) {\n#pragma omp parallel\n{ }\nreturn 0;\n}\n";
    std::fs::write(&source, text).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.arg("-fopenmp").args(options).arg(&source).arg("-o").arg(&program);
    if gcc.output().is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    platform::skip!("no gcc here that links with {options:?}");
    None
}

fn doctor_of(program: &PathBuf) -> String {
    let output = cpumgr().args(["doctor", "--"]).arg(program).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_doctor_knows_an_openmp_library_that_is_linked_into_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = openmp_program(&dir, &["-static"]) else { return };
    let said = doctor_of(&program);
    assert!(said.contains("keeps size OpenMP") && said.contains("libnanos_omp.a"), "{said}");
}

#[test]
fn a_doctor_knows_programs_that_take_no_library_from_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = openmp_program(&dir, &[]) else { return };
    assert!(doctor_of(&program).contains("follows    OpenMP"));
    if !nix::unistd::geteuid().is_root() {
        return platform::skip!("giving a file away needs privilege");
    }
    chown(&program, Some(65_433), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let said = doctor_of(&program);
    assert!(said.contains("keeps size OpenMP") && said.contains("nothing follows"), "{said}");
}

#[test]
fn a_command_at_what_is_no_socket_says_so_and_does_not_advise_to_start_a_manager_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = cpumgr().arg("status").arg("--socket").arg(&file).output().unwrap();
    let error = errors(&output);
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert!(error.contains("no socket") && !error.contains("starts a manager"), "{error}");
}
