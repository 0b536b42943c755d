//! Programs that are built with a sanitizer.

use crate::drop_in::{clean, finish, fresh, must_be_ok, shim, sources};
use std::process::{Command, Stdio};

/// The sanitizers' libraries know threads by the call that makes them: theirs, whether it is in a
/// library or in the program.
#[test]
fn programs_that_are_built_with_a_sanitizer_run() {
    let Some(shim) = shim() else { return };
    let builds: [(&str, &[&str]); 8] = [
        ("gcc", &["-fsanitize=thread"]),
        ("gcc", &["-fsanitize=thread", "-static-libtsan"]),
        ("gcc", &["-fsanitize=leak"]),
        ("gcc", &["-fsanitize=address"]),
        ("gcc", &["-fsanitize=address", "-static-libasan"]),
        ("clang-19", &["-fsanitize=thread"]),
        ("clang-19", &["-fsanitize=leak"]),
        ("clang-19", &["-fsanitize=address"]),
    ];
    for (compiler, options) in builds {
        let program = fresh("sanitized");
        // Clang's calls of its own OpenMP library would be others.
        let openmp = if compiler == "gcc" { "-fopenmp" } else { "-fopenmp=libgomp" };
        let mut build = Command::new(compiler);
        build
            .arg("-O1")
            .arg(openmp)
            .args(options)
            .arg(sources().join("sanitized.c"))
            .arg("-o")
            .arg(&program);
        if !build.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success()) {
            println!("skipped: {compiler} {} does not link here", options.join(" "));
            continue;
        }
        // Without our library it says why such a program cannot run on this machine at all.
        // What ThreadSanitizer reports of the original is another matter.
        let mut original = clean(&program, None);
        original.env("TSAN_OPTIONS", "exitcode=0");
        let original = finish(original);
        if !original.status.success() {
            println!("skipped: {compiler} {} does not run here", options.join(" "));
        } else {
            let mut run = clean(&program, Some(&shim));
            // The library finds ThreadSanitizer where the program shows it (its own library does):
            // else it reports what uninstrumented code does.
            if options != ["-fsanitize=thread"] || compiler != "gcc" {
                run.env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
            }
            must_be_ok(run);
        }
    }
}
