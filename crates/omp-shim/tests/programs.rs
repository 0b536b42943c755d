//! C programs, compiled by gcc against its own OpenMP, run on the drop-in library; and what that library exports.
//!
//! The library is made by `cargo xtask shim`. Where it, gcc or nm is missing, the tests say so and end.

#![expect(clippy::unwrap_used, reason = "a step of a test that fails is a failed test, in the helpers, too")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A program that runs longer than this hangs.
const LIMIT: Duration = Duration::from_secs(50);

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// The folder of the drop-in library, or a printed reason why there is none.
fn shim() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let folder = target.join("shim");
    if !folder.join("libgomp.so.1").exists() {
        eprintln!("skipped: no {}/libgomp.so.1 (run `cargo xtask shim`)", folder.display());
        return None;
    }
    if !exists("gcc") {
        eprintln!("skipped: no gcc here");
        return None;
    }
    Some(folder)
}

fn exists(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// A name in the tests' folder that no other test uses.
fn fresh(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{number}-{name}", std::process::id()))
}

fn must_succeed(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Compiles `name`.c against the compiler's own OpenMP.
fn compile(name: &str, options: &[&str]) -> PathBuf {
    let program = fresh(name);
    must_succeed(
        Command::new("gcc")
            .args(["-O1", "-Wall", "-Wextra", "-fopenmp"])
            .arg(sources().join(format!("{name}.c")))
            .arg("-o")
            .arg(&program)
            .args(options),
    );
    program
}

/// A program that starts without OpenMP variables and without a manager.
fn clean(program: impl AsRef<OsStr>, library: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| ["OMP_", "GOMP_", "NANOS_"].iter().any(|start| name.starts_with(start))) {
            command.env_remove(name);
        }
    }
    match library {
        Some(folder) => command.env("LD_LIBRARY_PATH", folder),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    command.env("NANOS_CPUMGR", "off");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program to its end, or kills it after [`LIMIT`]. Its output must be short: nobody reads it meanwhile.
fn finish(mut command: Command) -> Output {
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("{command:?} hangs; it said: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a program that must end well and say "ok" and nothing else.
fn must_be_ok(command: Command) {
    let shown = format!("{command:?}");
    let output = finish(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out == "ok\n" && err.is_empty(), "{shown}: {}\n{out}{err}", output.status);
}

/// Runs test program `name` with these variables.
fn run(name: &str, variables: &[(&str, &str)]) {
    let Some(shim) = shim() else { return };
    let program = compile(name, &["-lpthread"]);
    let mut command = clean(&program, Some(&shim));
    command.envs(variables.iter().copied());
    must_be_ok(command);
    std::fs::remove_file(program).unwrap();
}

#[test]
fn regions_have_the_size_and_the_threads_that_they_ask_for() {
    run("regions", &[]);
}

#[test]
fn regions_behave_the_same_bound_and_waiting_actively_or_passively() {
    run("regions", &[("OMP_PROC_BIND", "true")]);
    run("regions", &[("OMP_WAIT_POLICY", "active"), ("OMP_NUM_THREADS", "1")]);
    run("regions", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "64")]);
}

#[test]
fn loops_run_each_iteration_once() {
    run("loops", &[]);
}

#[test]
fn synchronisation_excludes_elects_separates_and_adds_up() {
    run("synchronisation", &[]);
}

#[test]
fn tasks_run_once_and_in_the_order_of_their_dependences() {
    run("tasks", &[]);
}

#[test]
fn cancelled_constructs_end_early_and_the_next_ones_are_whole() {
    run("cancellation", &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn threads_of_the_program_are_masters_of_their_own_teams() {
    run("foreign", &[]);
}

#[test]
fn a_forked_child_has_regions_of_its_own() {
    run("forked", &[]);
}

#[test]
fn programs_of_old_compilers_run() {
    run("old", &[]);
}

#[test]
fn allocators_leagues_and_target_regions_work_on_the_host() {
    run("memory", &[]);
}

#[test]
fn a_library_with_openmp_can_be_loaded_late_and_unloaded() {
    let Some(shim) = shim() else { return };
    let plugin = compile("plugin", &["-shared", "-fPIC"]);
    let program = fresh("late");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Wextra"])
        .arg(sources().join("late.c"))
        .arg("-o")
        .arg(&program)
        .args(["-ldl", "-lpthread"]);
    must_succeed(&mut gcc);
    let mut command = clean(&program, Some(&shim));
    command.arg(&plugin);
    must_be_ok(command);
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(plugin).unwrap();
}

/// What the program `settings` prints on stdout and stderr under these variables.
fn settings(program: &Path, shim: &Path, variables: &[(&str, &str)]) -> (String, String) {
    let mut command = clean(program, Some(shim));
    command.envs(variables.iter().copied());
    let output = finish(command);
    assert!(output.status.success(), "{variables:?}: {}", output.status);
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_environment_sets_the_control_variables() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    for (variables, expected) in [
        (&[("OMP_NUM_THREADS", "3")][..], "threads=3 members=3 dynamic=0"),
        (&[("OMP_NUM_THREADS", "3,2")], "levels=255"),
        (&[("OMP_NUM_THREADS", "8"), ("OMP_THREAD_LIMIT", "3")], "threads=8 members=3"),
        (&[("OMP_SCHEDULE", "guided,4")], "schedule=3,4"),
        (&[("OMP_SCHEDULE", "static")], "schedule=80000001,0"),
        (&[("OMP_NESTED", "true")], "levels=255"),
        (&[("OMP_MAX_ACTIVE_LEVELS", "7")], "levels=7"),
        (&[("OMP_CANCELLATION", "true")], "cancel=1"),
        (&[("OMP_DYNAMIC", "true")], "dynamic=1"),
        (&[("OMP_PROC_BIND", "spread")], "bind=4"),
    ] {
        let (out, err) = settings(&program, &shim, variables);
        assert!(out.contains(expected) && err.is_empty(), "{variables:?}: {out}{err}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn wrong_variables_are_named_and_the_program_runs_with_the_default() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (default, quiet) = settings(&program, &shim, &[]);
    assert_eq!(quiet, "");
    for (name, value) in [
        ("OMP_NUM_THREADS", "garbage"),
        ("OMP_NUM_THREADS", "0"),
        ("OMP_NUM_THREADS", "99999999999"),
        ("OMP_SCHEDULE", "sometimes"),
        ("OMP_STACKSIZE", "12q"),
        ("OMP_PROC_BIND", "glue"),
        ("NANOS_ADAPT", "perhaps"),
    ] {
        let (out, err) = settings(&program, &shim, &[(name, value)]);
        assert_eq!(out, default, "{name}={value}");
        assert!(err.contains("libgomp: ") && err.contains(name) && err.contains(value), "{name}={value}: {err}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_team_that_cannot_be_had_runs_with_what_there_is_and_says_so() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (out, err) = settings(&program, &shim, &[("OMP_NUM_THREADS", "1000000"), ("OMP_STACKSIZE", "64k")]);
    assert!(out.starts_with("threads=1000000 members=") && !out.contains("members=1000000"), "{out}");
    assert!(err.contains("a team of 1000000 threads was asked for and has "), "{err}");
    std::fs::remove_file(program).unwrap();
}

#[test]
fn display_env_shows_every_variable_when_the_library_is_loaded() {
    let Some(shim) = shim() else { return };
    let program = compile("settings", &[]);
    let (_, err) = settings(&program, &shim, &[("OMP_DISPLAY_ENV", "verbose"), ("OMP_NUM_THREADS", "3")]);
    for line in ["OMP_NUM_THREADS = '3'", "OMP_SCHEDULE = 'DYNAMIC'", "NANOS_ADAPT = 'default'"] {
        assert!(err.contains(line), "{line} is missing: {err}");
    }
    std::fs::remove_file(program).unwrap();
}

/// Dynamic symbols with their versions, sorted; `@@` is the default version. Version nodes themselves are left out.
fn exported(library: &Path) -> Vec<String> {
    let output = must_succeed(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, "A", _] => None,
            [_, _, name] => Some(name.to_owned()),
            _ => None,
        })
        .collect();
    names.sort();
    names
}

#[test]
fn the_shared_library_exports_exactly_the_golden_set() {
    let Some(shim) = shim() else { return };
    if !exists("nm") {
        return eprintln!("skipped: no nm here");
    }
    let golden =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/libgomp.symbols")).unwrap();
    let expected: Vec<&str> = golden.lines().collect();
    let found = exported(&shim.join("libgomp.so.1"));
    let missing: Vec<_> = expected.iter().filter(|name| !found.iter().any(|f| f == *name)).collect();
    let extra: Vec<_> = found.iter().filter(|name| !expected.contains(&name.as_str())).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing: {missing:?}; not in the golden file: {extra:?}");
}

#[test]
fn the_static_library_shows_openmp_names_only_and_links_beside_another_rust_library() {
    let Some(shim) = shim() else { return };
    if !exists("nm") || !exists("rustc") {
        return eprintln!("skipped: no nm or no rustc here");
    }
    let archive = shim.join("libnanos_omp.a");
    let output = must_succeed(Command::new("nm").args(["--extern-only", "--defined-only"]).arg(&archive));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(names.contains(&"GOMP_parallel") && names.contains(&"omp_set_lock_"), "{names:?}");
    let strangers: Vec<_> =
        names.iter().filter(|name| !name.starts_with("omp_") && !name.starts_with("GOMP_")).collect();
    assert!(strangers.is_empty(), "{strangers:?}");

    let (other, object, program) = (fresh("libother.a"), fresh("plugin.o"), fresh("static"));
    let source = fresh("other.rs");
    std::fs::write(&source, OTHER).unwrap();
    must_succeed(
        Command::new("rustc").args(["--edition", "2024", "--crate-type", "staticlib", "-o"]).arg(&other).arg(&source),
    );
    must_succeed(
        Command::new("gcc").args(["-O1", "-fopenmp", "-c"]).arg(sources().join("plugin.c")).arg("-o").arg(&object),
    );
    let main = fresh("main.c");
    std::fs::write(&main, MAIN).unwrap();
    let mut link = Command::new("gcc");
    link.arg(&main).arg(&object).arg(&archive).arg(&other).arg("-o").arg(&program).args(["-lpthread", "-ldl", "-lm"]);
    must_succeed(&mut link);
    must_be_ok(clean(&program, None));
    for file in [other, object, program, source, main] {
        std::fs::remove_file(file).unwrap();
    }
}

/// A Rust library with panics and threads of its own, so that it brings the whole standard library.
const OTHER: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn other(n: i32) -> i32 {
    std::thread::spawn(move || format!("{n}").parse::<i32>().expect("a number")).join().expect("no panic")
}
"#;

const MAIN: &str = r#"
#include <stdio.h>
int sum_to(int);
int other(int);
int main(void) {
  if (sum_to(100) != 5050 || other(7) != 7) return 1;
  puts("ok");
  return 0;
}
"#;
