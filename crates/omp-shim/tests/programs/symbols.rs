//! What the libraries export, and what hot calls are made of.

use crate::drop_in::{clean, exists, fresh, must_be_ok, must_succeed, shim, sources};
use std::path::Path;
use std::process::Command;

/// Dynamic symbols with their versions, sorted; `@@` is the default version. Version nodes
/// themselves are left out.
fn exported(library: &Path) -> Vec<String> {
    let output =
        must_succeed(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library));
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

/// Calls of the C library that the shared library stands in front of (`src/abi/front.rs`), in no
/// version node: else programs that ask for the C library's version would pass it by.
const IN_FRONT: [&str; 13] = [
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "fexecve",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "pthread_create",
    "system",
];

/// What the compiler's library does not have, in a version node of its own.
const OURS: [&str; 33] = [
    "asat_adjust_threads@@NANOS_1.0",
    "asat_adjust_threads_@@NANOS_1.0",
    "num_migrations@@NANOS_1.0",
    "num_migrations_@@NANOS_1.0",
    "tcmActivatePermit@@NANOS_1.0",
    "tcmConnect@@NANOS_1.0",
    "tcmDeactivatePermit@@NANOS_1.0",
    "tcmDisconnect@@NANOS_1.0",
    "tcmGetPermitData@@NANOS_1.0",
    "tcmGetVersionInfo@@NANOS_1.0",
    "tcmIdlePermit@@NANOS_1.0",
    "tcmRegisterThread@@NANOS_1.0",
    "tcmReleasePermit@@NANOS_1.0",
    "tcmRequestPermit@@NANOS_1.0",
    "tcmUnregisterThread@@NANOS_1.0",
    "upmlib_compare_counters@@NANOS_1.0",
    "upmlib_compare_counters_@@NANOS_1.0",
    "upmlib_init@@NANOS_1.0",
    "upmlib_init_@@NANOS_1.0",
    "upmlib_loop@@NANOS_1.0",
    "upmlib_loop_@@NANOS_1.0",
    "upmlib_memrefcnt@@NANOS_1.0",
    "upmlib_memrefcnt_@@NANOS_1.0",
    "upmlib_migrate_memory@@NANOS_1.0",
    "upmlib_migrate_memory_@@NANOS_1.0",
    "upmlib_record@@NANOS_1.0",
    "upmlib_record_@@NANOS_1.0",
    "upmlib_replay@@NANOS_1.0",
    "upmlib_replay_@@NANOS_1.0",
    "upmlib_touched@@NANOS_1.0",
    "upmlib_touched_@@NANOS_1.0",
    "upmlib_undo@@NANOS_1.0",
    "upmlib_undo_@@NANOS_1.0",
];

#[test]
fn the_shared_library_exports_exactly_the_golden_set() {
    let Some(shim) = shim() else { return };
    if !exists("nm") {
        return platform::skip!("no nm here");
    }
    let golden = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/libgomp.symbols"),
    )
    .unwrap();
    let expected: Vec<&str> = golden.lines().chain(IN_FRONT).chain(OURS).collect();
    let found = exported(&shim.join("libgomp.so.1"));
    let missing: Vec<_> =
        expected.iter().filter(|name| !found.iter().any(|f| f == *name)).collect();
    let extra: Vec<_> = found.iter().filter(|name| !expected.contains(&name.as_str())).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:?}; not in the golden file: {extra:?}"
    );
}

/// The instructions of function `name` in the library, as objdump shows them. By its addresses:
/// objdump knows only one name of a function that has several.
fn instructions(library: &Path, name: &str) -> String {
    let symbols = must_succeed(
        Command::new("nm").args(["--dynamic", "--defined-only", "--print-size"]).arg(library),
    );
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let place =
        symbols.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [start, size, _, symbol] if symbol.split('@').next() == Some(name) => Some((
                u64::from_str_radix(start, 16).unwrap(),
                u64::from_str_radix(size, 16).unwrap(),
            )),
            _ => None,
        });
    let (start, size) = place.unwrap_or_else(|| panic!("{name} is not exported"));
    let range = [format!("--start-address={start}"), format!("--stop-address={}", start + size)];
    let output = must_succeed(
        Command::new("objdump").args(["-d", "--no-show-raw-insn"]).args(range).arg(library),
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hot_calls_find_their_thread_without_a_call() {
    let Some(shim) = shim() else { return };
    if !exists("objdump") || !exists("nm") || !cfg!(target_arch = "x86_64") {
        return platform::skip!("no objdump here, or another kind of processor");
    }
    let library = shim.join("libgomp.so.1");
    for name in [
        "omp_get_thread_num",
        "omp_get_num_threads",
        "GOMP_loop_dynamic_next",
        "GOMP_loop_nonmonotonic_dynamic_next",
    ] {
        let text = instructions(&library, name);
        assert!(text.contains("%fs:"), "{name} reads no thread-local word:\n{text}");
        assert!(!text.contains("__tls_get_addr"), "{name} calls the loader for its word:\n{text}");
    }
}

#[test]
fn the_static_library_shows_openmp_names_only_and_links_beside_another_rust_library() {
    let Some(shim) = shim() else { return };
    if !exists("nm") || !exists("rustc") {
        return platform::skip!("no nm or no rustc here");
    }
    let archive = shim.join("libnanos_omp.a");
    let output =
        must_succeed(Command::new("nm").args(["--extern-only", "--defined-only"]).arg(&archive));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(names.contains(&"GOMP_parallel") && names.contains(&"omp_set_lock_"), "{names:?}");
    let foreign: Vec<_> = names
        .iter()
        .filter(|name| {
            let ours = ["omp_", "GOMP_", "asat_", "upmlib_", "num_migrations"];
            !ours.iter().any(|ours| name.starts_with(ours))
        })
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");

    let (other, object, program) = (fresh("libother.a"), fresh("plugin.o"), fresh("static"));
    let source = fresh("other.rs");
    std::fs::write(&source, OTHER).unwrap();
    must_succeed(
        Command::new("rustc")
            .args(["--edition", "2024", "--crate-type", "staticlib", "-o"])
            .arg(&other)
            .arg(&source),
    );
    must_succeed(
        Command::new("gcc")
            .args(["-O1", "-fopenmp", "-c"])
            .arg(sources().join("plugin.c"))
            .arg("-o")
            .arg(&object),
    );
    let main = fresh("main.c");
    std::fs::write(&main, MAIN).unwrap();
    let mut link = Command::new("gcc");
    link.arg(&main).arg(&object).arg(&archive).arg(&other).arg("-o").arg(&program).args([
        "-lpthread",
        "-ldl",
        "-lm",
    ]);
    must_succeed(&mut link);
    must_be_ok(clean(&program, None));
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
