//! `cpumgr run --tell-share`: what a program hears that asks how many processors there are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Manager, cpumgr};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A folder with the library that answers; `None`, with a printed reason, where it cannot be made,
/// or one processor leaves nothing to share.
fn library(dir: &Path) -> Option<PathBuf> {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        platform::skip!("needs two processors");
        return None;
    }
    let folder = dir.join("library");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("libgomp.so.1"), "").unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../omp-shim/abi/count.c");
    let mut compile = Command::new("gcc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libnanos_count.so"));
    match compile.arg(source).arg("-ldl").status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            platform::skip!("no gcc here: {error}");
            return None;
        }
    }
    Some(folder)
}

/// What a shell's script says that runs under `manager`; `exec` becomes the program.
fn said(manager: &Manager, folder: &Path, script: &str) -> (String, String) {
    let mut command = cpumgr();
    command.args(["run", "--tell-share", "--preload", "never", "--socket"]).arg(manager.socket());
    command.arg("--lib").arg(folder).args(["--", "sh", "-c", script]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_program_hears_what_a_newcomer_gets_and_its_children_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let Some(folder) = library(dir.path()) else { return };
    let manager = Manager::start(&["--cpus", "0,1"]);
    let truth = said(&manager, &folder, "nproc; true").0;
    assert_eq!(said(&manager, &folder, "exec nproc").0, "2", "no other program is here");
    let _other = manager.program(2, 2);
    for count in ["exec nproc", "exec getconf _NPROCESSORS_ONLN", "exec env nproc"] {
        assert_eq!(said(&manager, &folder, count).0, "1", "{count}");
    }
    assert_eq!(said(&manager, &folder, "nproc; true").0, truth, "a child");
    assert_eq!(said(&manager, &folder, "env | grep -c NANOS_COUNT; true").0, "0", "a child");
}

/// Compiled by this tool, with its version's checks; `None`, with a printed reason, without it.
fn made(build: &mut Command) -> bool {
    let name = build.get_program().to_string_lossy().into_owned();
    match build.output() {
        Ok(output) => assert!(output.status.success(), "{name}: {output:?}"),
        Err(error) => {
            platform::skip!("no {name} here: {error}");
            return false;
        }
    }
    true
}

#[test]
fn a_mask_that_was_heard_and_is_put_back_is_what_it_stood_for() {
    let dir = tempfile::tempdir().unwrap();
    let Some(folder) = library(dir.path()) else { return };
    let (source, program) = (dir.path().join("back.c"), dir.path().join("back"));
    let text = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <sched.h>\n#include \
                <stdio.h>\n#include <sys/syscall.h>\n#include <unistd.h>\nstatic int real(void) \
                { cpu_set_t set; CPU_ZERO(&set); syscall(SYS_sched_getaffinity, 0, sizeof set, \
                &set); return CPU_COUNT(&set); }\nint main(void) { cpu_set_t heard, one; \
                sched_getaffinity(0, sizeof heard, &heard); CPU_ZERO(&one); CPU_SET(0, &one); \
                int all = real(); sched_setaffinity(0, sizeof one, &one); \
                sched_setaffinity(0, sizeof heard, &heard); int back = real(); \
                pthread_setaffinity_np(pthread_self(), sizeof heard, &heard); printf(\"%d %d \
                %d\", CPU_COUNT(&heard), back == all, real() == all); }\n";
    std::fs::write(&source, text).unwrap();
    if !made(Command::new("gcc").arg("-pthread").arg(&source).arg("-o").arg(&program)) {
        return;
    }
    assert_eq!(told_of_one(&folder, &program), "1 1 1");
}

/// What `program` says that is told of one processor. A shell which was told of another process
/// would take the library out of the environment.
fn told_of_one(folder: &Path, program: &Path) -> String {
    let library = folder.join("libnanos_count.so");
    let (library, program) = (library.display(), program.display());
    let script = format!("NANOS_COUNT=1:$$ LD_PRELOAD={library} exec {program}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_go_program_with_cgo_hears_its_share() {
    let dir = tempfile::tempdir().unwrap();
    let Some(folder) = library(dir.path()) else { return };
    let (source, program) = (dir.path().join("count.go"), dir.path().join("count"));
    let text = "package main\n\n// int one(void) { return 1; }\nimport \"C\"\nimport (\n\t\"fmt\"\n\
                \t\"runtime\"\n)\n\nfunc main() { fmt.Print(runtime.GOMAXPROCS(0) * int(C.one())) \
                }\n";
    std::fs::write(&source, text).unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source).env("CGO_ENABLED", "1");
    build.env("GOCACHE", dir.path().join("cache")).env("GOTOOLCHAIN", "local");
    if !made(&mut build) {
        return;
    }
    let manager = Manager::start(&["--cpus", "0,1"]);
    let _other = manager.program(2, 2);
    let script = format!("exec {}", program.display());
    let mut command = cpumgr();
    command.args(["run", "--tell-share", "--preload", "never", "--socket"]).arg(manager.socket());
    command.arg("--lib").arg(&folder).arg("--").arg(&program);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1", "{output:?}");
    // A shell is no program in Go, and what it becomes is told as what it was.
    assert_eq!(said(&manager, &folder, &format!("env | grep -c GOMAXPROCS; {script}")).0, "0\n2");
}

#[test]
fn an_openmp_program_hears_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let Some(folder) = library(dir.path()) else { return };
    let (source, program) = (dir.path().join("count.c"), dir.path().join("count"));
    let text = "#include <omp.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(void) {\n\
                printf(\"%ld %d\", sysconf(_SC_NPROCESSORS_ONLN), omp_get_num_procs()); }\n";
    std::fs::write(&source, text).unwrap();
    let mut compile = Command::new("gcc");
    if !compile.arg("-fopenmp").arg(&source).arg("-o").arg(&program).status().unwrap().success() {
        return platform::skip!("gcc has no OpenMP here");
    }
    let alone = Command::new(&program).output().unwrap().stdout;
    assert_eq!(told_of_one(&folder, &program), String::from_utf8_lossy(&alone));
    assert_eq!(told_of_one(&folder, Path::new("nproc")).trim(), "1", "no OpenMP program");
}

#[test]
fn what_cannot_be_told_is_said_and_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let Some(folder) = library(dir.path()) else { return };
    std::fs::remove_file(folder.join("libnanos_count.so")).unwrap();
    let manager = Manager::start(&["--cpus", "0,1"]);
    let (out, err) = said(&manager, &folder, "exec echo ran");
    assert_eq!(out, "ran");
    assert!(
        err.contains("--tell-share: there is no ") && err.contains("libnanos_count.so"),
        "{err}"
    );
    // Nor where there is no drop-in library at all.
    std::fs::remove_file(folder.join("libgomp.so.1")).unwrap();
    let (out, err) = said(&manager, &folder, "exec echo ran");
    assert!(out == "ran" && err.contains("--tell-share: there is no libnanos_count.so"), "{err}");
    std::fs::write(folder.join("libgomp.so.1"), "").unwrap();
    let mut command = cpumgr();
    command.env("NANOS_CPUMGR", "off").args(["run", "--tell-share", "--lib"]).arg(&folder);
    let output = command.args(["--", "echo", "ran"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("no manager says"), "{said}");
}
