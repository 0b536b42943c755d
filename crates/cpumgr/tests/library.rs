//! `cpumgr run` and the drop-in library: where it is looked for, and which owner's file may be
//! loaded.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use support::{
    ANSWERS_WITHIN, EndManagers, PATIENCE, copy_program, cpumgr, errors, lengthen_program,
};

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

/// The program, installed below `dir` in a directory of this name.
fn installed(dir: &Path, name: &str) -> Command {
    let place = dir.join(name);
    std::fs::create_dir_all(&place).unwrap();
    let ours = cpumgr();
    let copy = place.join("cpumgr");
    // A manager may run from it already.
    if !copy.exists() {
        copy_program(ours.get_program(), &copy);
    }
    let mut command = Command::new(copy);
    for (variable, _) in ours.get_envs() {
        command.env_remove(variable);
    }
    command.env(ANSWERS_WITHIN, PATIENCE.as_secs().to_string());
    command.arg("run").arg("--socket").arg(dir.join("m/app.sock"));
    command
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_library_that_others_may_change_is_refused_and_named_and_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let script = ["--", "sh", "-c", "echo \"ran <$LD_LIBRARY_PATH>\""];
    let library = dir.path().join("target/shim");
    std::fs::create_dir_all(&library).unwrap();
    std::fs::write(library.join("libgomp.so.1"), "").unwrap();
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();

    let output = installed(dir.path(), "target/release").args(script).output().unwrap();
    assert_eq!(
        said(&output),
        format!("ran <{}>\n", library.canonicalize().unwrap().display()),
        "{}",
        errors(&output)
    );
    for (part, mode) in [
        (library.join("libgomp.so.1"), 0o666),
        (library.clone(), 0o777),
        (dir.path().to_owned(), 0o777),
    ] {
        let before = std::fs::metadata(&part).unwrap().permissions().mode() & 0o7777;
        set_mode(&part, mode);
        let beside = installed(dir.path(), "target/release").args(script).output().unwrap();
        let named = shell(dir.path(), script[3]).env("NANOS_SHIM_DIR", &library).output().unwrap();
        set_mode(&part, before);
        for output in [beside, named] {
            assert_eq!(said(&output), "ran <>\n");
            let warning = errors(&output);
            let part = part.canonicalize().unwrap().display().to_string();
            assert!(
                warning.contains(&part) && warning.contains("is not used: every user may write"),
                "{warning}"
            );
        }
    }
}

#[test]
fn what_stands_beside_a_program_that_was_copied_somewhere_is_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let planted = dir.path().join("shim");
    std::fs::create_dir(&planted).unwrap();
    std::fs::write(planted.join("libgomp.so.1"), "").unwrap();
    let mut command = installed(dir.path(), "app");
    let output =
        command.args(["--", "sh", "-c", "echo \"ran <$LD_LIBRARY_PATH>\""]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran <>\n");
    assert!(errors(&output).contains("--lib"), "{}", errors(&output));
}

#[test]
fn a_huge_program_starts_without_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let library = dir.path().join("shim");
    std::fs::create_dir(&library).unwrap();
    std::fs::copy(cpumgr().get_program(), library.join("libgomp.so.1")).unwrap();
    let huge = dir.path().join("huge");
    copy_program("/bin/true", &huge);
    // Sparse: it takes no place on the disk.
    lengthen_program(&huge, 1 << 30);
    let mut command = run(dir.path());
    assert!(command.arg("--lib").arg(&library).arg("--").arg(&huge).output().is_ok());
    let most = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)
        .unwrap()
        .max_rss();
    assert!(most < 500 * 1024, "a child took {most} kB");
}
