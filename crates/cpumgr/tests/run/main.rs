//! `cpumgr run`: the program is itself, finds a manager, and runs whatever is missing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod starting;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use support::{EndManagers, Manager, cpumgr, errors, processes_of};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// `cpumgr run` on a socket below `dir`.
fn run(dir: &Path) -> Command {
    let mut command = cpumgr();
    command.arg("run").arg("--socket").arg(dir.join("m/app.sock"));
    command
}

fn shell(dir: &Path, script: &str) -> Command {
    let mut command = run(dir);
    command.args(["--", "sh", "-c", script]);
    command
}

#[test]
fn exit_codes_signals_and_arguments_are_the_programs_own() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    assert_eq!(shell(dir.path(), "exit 7").output().unwrap().status.code(), Some(7));
    assert_eq!(shell(dir.path(), "kill -9 $$").output().unwrap().status.signal(), Some(9));
    let output =
        run(dir.path()).args(["--", "printf", "%s|", "--socket", "a b", "-x"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--socket|a b|-x|");
    let child = shell(dir.path(), "echo $$").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), pid, "the process is the program's");
}

#[test]
fn processors_that_are_not_to_be_had_are_named_and_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let mut command = run(dir.path());
    let output = command.args(["--cpus", "1023", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    let said = errors(&output);
    assert!(said.contains("--cpus 1023") && said.contains("this process may use"), "{said}");
    // The kernel would leave the second out.
    let here = platform::affinity::affinity(None).unwrap().first().unwrap();
    let list = format!("{here},1023");
    let output = run(dir.path()).args(["--cpus", &list, "--", "echo", "ran"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert!(errors(&output).contains("processors 1023 are offline"), "{}", errors(&output));
}

#[test]
fn where_no_terminal_can_hear_a_warning_the_program_runs_and_exit_codes_are_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    // There is something to warn about: no library.
    let output = shell(dir.path(), "echo ran")
        .env("NANOS_SHIM_DIR", &empty)
        .stderr(full())
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()),
        (Some(0), "ran\n")
    );
    let missing = run(dir.path()).args(["--", "/no/such/program"]).stderr(full()).status().unwrap();
    assert_eq!(missing.code(), Some(127));
    let second = cpumgr()
        .args(["daemon", "--socket"])
        .arg(dir.path().join("m/app.sock"))
        .stderr(full())
        .status();
    assert_eq!(second.unwrap().code(), Some(4), "a manager runs there already");
}

#[test]
fn pipes_in_place_of_the_managers_own_files_delay_nothing() {
    for ending in ["lock", "log", "start", "settings", "masks"] {
        let dir = tempfile::tempdir().unwrap();
        let _end = EndManagers(dir.path());
        let place = dir.path().join("m");
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o700)).unwrap();
        let pipe = place.join(format!("app.sock.{ending}"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let output = shell(dir.path(), "echo ran").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{}", errors(&output));
        if ["settings", "masks"].contains(&ending) {
            // Nothing of a manager is in them: a manager does without, and says so in its log.
            let log = std::fs::read_to_string(place.join("app.sock.log")).unwrap();
            assert!(log.contains(pipe.to_str().unwrap()), "{ending}: {log}");
            continue;
        }
        assert!(errors(&output).contains("is no regular file"), "{}", errors(&output));
        assert!(errors(&output).contains(pipe.to_str().unwrap()), "{}", errors(&output));
    }
}

#[test]
fn a_word_in_the_variable_that_names_no_place_starts_no_manager() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let mut command = cpumgr();
    command.current_dir(dir.path()).env("NANOS_CPUMGR", "on").args(["run", "--", "true"]);
    let output = command.output().unwrap();
    assert!(errors(&output).contains("NANOS_CPUMGR=on: neither `off`"), "{}", errors(&output));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was made there");
}

#[test]
fn a_help_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = cpumgr().arg("help").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("cannot write to standard output"), "{}", errors(&output));
    assert!(cpumgr().arg("--version").output().unwrap().status.success());
    assert_eq!(cpumgr().arg("--nonsense").output().unwrap().status.code(), Some(2));
}

#[test]
fn a_pipe_signal_that_is_ignored_is_ignored_by_the_program_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let ignored = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(cpumgr().get_program());
        command.args(["run", "--socket"]).arg(dir.path().join("m/app.sock"));
        let output = command.args(["--", "grep", "SigIgn", "/proc/self/status"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let set = u64::from_str_radix(said.split_whitespace().last().unwrap(), 16).unwrap();
        set & 1 << (nix::libc::SIGPIPE - 1) != 0
    };
    assert!(ignored("trap '' PIPE; exec \"$0\" \"$@\""));
    assert!(!ignored("exec \"$0\" \"$@\""));
}

#[test]
fn a_missing_program_is_127_and_a_file_that_is_none_126() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let output = run(dir.path()).args(["--", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(errors(&output).contains("cannot run /no/such/program"), "{}", errors(&output));
    let file = dir.path().join("text");
    std::fs::write(&file, "text").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = run(dir.path()).arg("--").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(errors(&output).contains("cannot run"), "{}", errors(&output));
}

#[test]
fn the_program_finds_manager_and_library() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let library = dir.path().join("shim");
    std::fs::create_dir(&library).unwrap();
    std::fs::write(library.join("libgomp.so.1"), "").unwrap();
    let script = "echo $NANOS_CPUMGR; echo $LD_LIBRARY_PATH";
    let mut command = run(dir.path());
    command.arg("--lib").arg(&library).args(["--", "/bin/echo"]);
    // The library is an empty file: a program that is linked against it would not start, echo is
    // not.
    assert!(command.output().unwrap().status.success());
    let output = shell(dir.path(), script)
        .env("NANOS_SHIM_DIR", &library)
        .env("LD_LIBRARY_PATH", "/old")
        .output()
        .unwrap();
    let expected = format!(
        "{}\n{}:/old\n",
        dir.path().join("m/app.sock").display(),
        library.canonicalize().unwrap().display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(errors(&output), "", "nothing to warn about");
}

#[test]
fn a_library_whose_path_the_loader_would_split_is_left_out_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    // A library of this machine by its head: another one is not preloaded in any case.
    let own = std::fs::read(cpumgr().get_program()).unwrap();
    let script = "echo \"path <$LD_LIBRARY_PATH> preload <$LD_PRELOAD>\"";
    for name in ["a:b", "a;b", "a b"] {
        let library = dir.path().join(name);
        std::fs::create_dir(&library).unwrap();
        std::fs::write(library.join("libgomp.so.1"), &own).unwrap();
        let mut command = run(dir.path());
        command
            .arg("--lib")
            .arg(&library)
            .args(["--", "sh", "-c", script])
            .env_remove("LD_PRELOAD");
        let output = command.output().unwrap();
        let path = if name == "a b" {
            library.canonicalize().unwrap().display().to_string()
        } else {
            String::new()
        };
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("path <{path}> preload <>\n"));
        let warning = errors(&output);
        let list = if name == "a b" { "LD_PRELOAD" } else { "LD_LIBRARY_PATH is" };
        assert!([name, list, "symbolic link"].iter().all(|it| warning.contains(it)), "{warning}");

        // What it advises.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&library, &link).unwrap();
        let mut command = run(dir.path());
        command
            .arg("--lib")
            .arg(&link)
            .args(["--preload", "never", "--", "sh", "-c", script])
            .env_remove("LD_PRELOAD");
        let output = command.output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("path <{}> preload <>\n", link.display())
        );
        assert_eq!(errors(&output), "");
        std::fs::remove_file(link).unwrap();
    }
}

#[test]
fn without_the_library_the_program_runs_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = shell(dir.path(), "echo ran $LD_LIBRARY_PATH")
        .env("NANOS_SHIM_DIR", &empty)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n");
    let warning = errors(&output);
    assert!(
        warning.contains(empty.to_str().unwrap()) && warning.contains("cargo xtask shim"),
        "{warning}"
    );
}

#[test]
fn without_a_manager_the_program_runs_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("m");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = shell(dir.path(), "echo ran $NANOS_CPUMGR; exit 3").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran off\n");
    let warning = errors(&output);
    assert!(
        warning.contains("others may write there") && warning.contains("without a manager"),
        "{warning}"
    );
    assert!(processes_of(dir.path()).is_empty());
}

#[test]
fn off_means_no_manager() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = cpumgr();
    command.args(["run", "--", "sh", "-c", "echo $NANOS_CPUMGR"]).env("NANOS_CPUMGR", "off");
    let output = command.env("NANOS_SHIM_DIR", dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "off\n");
    assert!(!errors(&output).contains("without a manager"), "{}", errors(&output));
}

#[test]
fn an_unknown_policy_is_a_usage_error_that_names_the_known_ones() {
    for (verb, rest) in [("daemon", None), ("run", Some("true"))] {
        let output = cpumgr().arg(verb).args(["--policy", "just"]).args(rest).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = errors(&output);
        assert!(text.contains("\"just\"") && text.contains("dss-ts, equip"), "{text}");
    }
}

#[test]
fn another_policy_than_the_running_managers_is_mentioned() {
    let manager = Manager::start(&["--policy", "equip"]);
    let mut command = cpumgr();
    command
        .arg("run")
        .arg("--socket")
        .arg(manager.socket())
        .args(["--policy", "dss", "--", "true"]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert!(errors(&output).contains("runs policy equip"), "{}", errors(&output));
}
