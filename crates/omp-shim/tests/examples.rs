//! The programs of `examples/omp`, built by their own makefile for both routes: the drop-in library
//! and the static one.
//!
//! The libraries are made by `cargo xtask shim`. Where they, make or a compiler are missing, the
//! tests say so and end.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Program, its compiler, and a size and an amount of work that keep a run short.
const PROGRAMS: [(&str, &str, [&str; 4]); 4] = [
    ("cg", "cc", ["--size", "3000", "--work", "3"]),
    ("lu", "cc", ["--size", "24", "--work", "8"]),
    ("sort", "c++", ["--size", "30000", "--work", "3"]),
    ("heat", "gfortran", ["--size", "60", "--work", "20"]),
];

#[derive(Clone, Copy, PartialEq)]
enum Route {
    Shared,
    Static,
}

fn exists(tool: &str) -> bool {
    Command::new(tool)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The folder of the libraries, or a printed reason why there is none. `NANOS_TEST_SHIM` may name
/// another one.
fn shim() -> Option<PathBuf> {
    let shipped = || Some(Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("shim"));
    let folder = std::env::var_os("NANOS_TEST_SHIM").map(PathBuf::from).or_else(shipped)?;
    if !folder.join("libgomp.so.1").exists() || !folder.join("libnanos_omp.a").exists() {
        platform::skip!("no libraries in {} (run `cargo xtask shim`)", folder.display());
        return None;
    }
    if !exists("make") {
        platform::skip!("no make here");
        return None;
    }
    Some(folder)
}

/// What the program says, without its time and its number of threads.
fn result_of(mut command: Command, threads: u32) -> String {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            ["OMP_", "GOMP_", "NANOS_"].iter().any(|start| name.starts_with(start))
        }) {
            command.env_remove(name);
        }
    }
    command
        .env("OMP_NUM_THREADS", threads.to_string())
        .env("NANOS_CPUMGR", "off")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{command:?}: {}\n{text}{errors}",
        output.status
    );
    assert!(text.contains("\"correct\":true}"), "{command:?}: {text}");
    assert!(!text.contains(":."), "no number for JSON: {command:?}: {text}");
    assert!(text.contains(&format!("\"threads\":{threads},")), "{command:?}: {text}");
    text.split("\"fingerprint\":").nth(1).unwrap_or_default().to_owned()
}

fn run_all(route: Route) {
    let Some(shim) = shim() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/omp");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-examples-{}",
        std::process::id(),
        if route == Route::Static { "static" } else { "shared" }
    ));
    for (name, compiler, arguments) in PROGRAMS {
        if !exists(compiler) {
            platform::skip!("{name} needs {compiler}, which is not here");
            continue;
        }
        let make = |target: &Path| {
            let mut make = Command::new("make");
            make.arg("-C").arg(&folder).arg(format!("BUILD={}", build.display()));
            make.arg(format!("SHIM={}", shim.display())).arg(target).stdin(Stdio::null());
            let output = make.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{make:?}: {said}{}",
                String::from_utf8_lossy(&output.stdout)
            );
            assert!(!said.contains("warning"), "{make:?}: {said}");
            let mut command = Command::new(target);
            command.args(arguments).env_remove("LD_LIBRARY_PATH");
            command
        };
        // One thread on the system's runtime says what is right.
        let expected = result_of(make(&build.join(name)), 1);
        for threads in [1, 2, 4] {
            let command = match route {
                Route::Static => make(&build.join("static").join(name)),
                Route::Shared => {
                    let mut command = make(&build.join(name));
                    command.env("LD_LIBRARY_PATH", &shim);
                    command
                }
            };
            assert_eq!(result_of(command, threads), expected, "{name}, {threads} threads");
        }
    }
    std::fs::remove_dir_all(build).unwrap();
}

#[test]
fn examples_run_on_the_drop_in_library() {
    run_all(Route::Shared);
}

#[test]
fn examples_run_with_the_static_library_inside() {
    run_all(Route::Static);
}

#[test]
fn pkg_config_says_how_to_link_the_static_library() {
    let Some(shim) = shim() else { return };
    if !exists("pkg-config") || !exists("cc") {
        return platform::skip!("no pkg-config or no cc here");
    }
    let ask = |what: &str| {
        let output = Command::new("pkg-config")
            .args([what, "nanos_omp"])
            .env("PKG_CONFIG_PATH", &shim)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/omp/lu.c");
    // Also as a static position-independent program, which has no loader to bring a library.
    for extra in [&[][..], &["-static-pie", "-fPIE"]] {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
            "{}-pkg{}",
            std::process::id(),
            extra.len()
        ));
        let mut link = Command::new("cc");
        link.args(ask("--cflags").split_whitespace())
            .args(extra)
            .arg(&source)
            .arg("-o")
            .arg(&program);
        let output = link.args(ask("--libs").split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{link:?}: {}", String::from_utf8_lossy(&output.stderr));
        let mut listing = Command::new("ldd");
        let listed = String::from_utf8(listing.arg(&program).output().unwrap().stdout).unwrap();
        assert!(!listed.contains("libgomp"), "{link:?}: {listed}");
        let mut command = Command::new(&program);
        command.args(["--size", "24", "--work", "8"]);
        result_of(command, 3);
        std::fs::remove_file(program).unwrap();
    }
}
