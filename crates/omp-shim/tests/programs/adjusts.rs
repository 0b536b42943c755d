//! `asat_adjust_threads` for programs with threads of their own: by each of the libraries.

use crate::drop_in::{Fresh, clean, exists, finish, fresh, must_succeed, said, shim, sources};
use std::path::Path;
use std::process::Command;

/// The program of a source, linked with `libraries` of folder `shim`.
fn built(source: &str, shim: &Path, libraries: &[&str]) -> Fresh {
    let program = fresh("adjusts");
    let mut compile = Command::new("gcc");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    compile.args(["-O1", "-Wall", "-Werror", "-I"]).arg(include);
    compile.arg(sources().join(source)).arg("-o").arg(&*program);
    compile.args(libraries.iter().map(|library| shim.join(library)));
    must_succeed(compile.args(["-lpthread", "-ldl", "-lm"]));
    program
}

/// Runs the program with `libraries` of folder `shim`, there.
fn run(shim: &Path, libraries: &[&str]) {
    let program = built("adjusts.c", shim, libraries);
    let mut command = clean(&*program, Some(shim));
    command.env("NANOS_CPUMGR", "off").env("ASAT_REPORT", "on");
    let output = finish(command);
    let (out, err) = said(&output);
    println!("{libraries:?}: {out}{err}");
    assert!(output.status.success() && out.ends_with("ok\n"), "{libraries:?}: {out}{err}");
    let reports = err.lines().any(|line| line.contains("asat: ") && line.contains("evaluations"));
    assert!(reports, "{libraries:?}: {err}");
    // One processor has nothing to find out.
    let is_alone = std::thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    assert!(is_alone || !err.contains("evaluations 0"), "{libraries:?}: {err}");
}

#[test]
fn programs_with_threads_of_their_own_ask_each_library_how_many_to_have() {
    let Some(shim) = shim() else { return };
    if !shim.join("libnanos_asat.so").exists() || !exists("gcc") {
        return platform::skip!("no libnanos_asat.so (run `cargo xtask shim`), or no gcc");
    }
    run(&shim, &["libgomp.so.1"]);
    run(&shim, &["libnanos_omp.a"]);
    // The thin one alone finds the library beside it; with another one it takes that.
    run(&shim, &["libnanos_asat.so"]);
    run(&shim, &["libnanos_asat.so", "libgomp.so.1"]);
}

#[test]
fn the_library_for_programs_without_openmp_finds_the_engine_of_a_program_that_opens_it() {
    let Some(shim) = shim() else { return };
    let thin = shim.join("libnanos_asat.so");
    if !thin.exists() || !exists("gcc") {
        return platform::skip!("no libnanos_asat.so (run `cargo xtask shim`), or no gcc");
    }
    let program = built("adjusts_opened.c", &shim, &["libgomp.so.1"]);
    let mut command = clean(&*program, Some(&shim));
    command.arg(&thin);
    let output = finish(command);
    let (out, err) = said(&output);
    assert!(output.status.success() && out.ends_with("ok\n"), "{out}{err}");
}

#[test]
fn fortran_asks_by_each_library_too() {
    let Some(shim) = shim() else { return };
    if !shim.join("libnanos_asat.so").exists() || !exists("gfortran") {
        return platform::skip!("no libnanos_asat.so (run `cargo xtask shim`), or no gfortran");
    }
    for library in ["libgomp.so.1", "libnanos_omp.a", "libnanos_asat.so"] {
        let program = fresh("adjusts");
        let mut compile = Command::new("gfortran");
        compile.args(["-O1", "-Wall", "-Werror"]).arg(sources().join("adjusts.f90"));
        compile.arg("-o").arg(&*program).arg(shim.join(library));
        must_succeed(compile.args(["-lpthread", "-ldl", "-lm"]));
        let output = finish(clean(&*program, Some(&shim)));
        let (out, err) = said(&output);
        assert!(output.status.success() && out.trim() == "ok", "{library}: {out}{err}");
    }
}
