//! The library as one of several that a program loads, and several copies of it.

use crate::Subject;
use crate::drop_in::{Fresh, clean, compile, finish, fresh, must_be_ok, must_say, said, shim};
use std::path::Path;

/// A program without OpenMP, which loads what it is told to.
fn loader(name: &str) -> Fresh {
    compile(name, &["-fno-openmp", "-ldl", "-lpthread"])
}

/// A library with OpenMP.
fn plugin(options: &[&str]) -> Fresh {
    compile("plugin", &[&["-shared", "-fPIC"], options].concat())
}

#[test]
fn a_library_with_openmp_can_be_loaded_late_and_unloaded() {
    let Some(shim) = shim() else { return };
    let (program, plugin) = (loader("late"), plugin(&[]));
    let mut command = clean(&program, Some(&shim));
    command.arg(&plugin);
    must_be_ok(command);
}

#[test]
fn a_program_whose_library_alone_has_openmp_runs_after_the_c_library() {
    let Some(shim) = shim() else { return };
    let plugin = plugin(&[]);
    let program = compile("by_library", &["-fno-openmp", plugin.to_str().unwrap(), "-ldl"]);
    must_be_ok(clean(&program, Some(&shim)));
}

/// The library's thread-local data stands in the loader's reserve for libraries that come late
/// (1664 bytes unless `GLIBC_TUNABLES` says otherwise), as the original's does, which takes 136
/// bytes of it.
#[test]
fn the_library_can_be_loaded_late_while_192_bytes_of_the_loaders_reserve_are_left() {
    let Some(shim) = shim() else { return };
    let (program, plugin) = (loader("reserve"), plugin(&[]));
    let data = compile("thread_data", &["-shared", "-fPIC", "-fno-openmp"]);
    let copies: Vec<Fresh> = (0..60).map(|_| fresh("thread_data")).collect();
    for copy in &copies {
        std::fs::copy(&data, copy).unwrap();
    }
    for (left, expected) in [("3", "ok\n"), ("0", "no room\n")] {
        let mut command = clean(&program, Some(&shim));
        command.arg(left).arg(&plugin).args(&copies);
        let output = finish(command);
        if output.status.code() == Some(3) {
            platform::skip!("this loader's reserve is not what is tested ({})", said(&output).0);
            break;
        }
        must_say(&output, expected, &format!("{left} pieces left"));
    }
}

/// A directory with a copy of the drop-in library.
fn copy_of(shim: &Path, name: &str) -> Fresh {
    let folder = fresh(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(shim.join("libgomp.so.1"), folder.join("libgomp.so.1")).unwrap();
    folder
}

#[test]
fn the_library_under_two_paths_has_one_pool_of_threads() {
    let Some(shim) = shim() else { return };
    let program = loader("copies");
    let folders = [copy_of(&shim, "first"), copy_of(&shim, "second")];
    let mut command = clean(&program, None);
    command.args(folders.iter().map(|folder| folder.join("libgomp.so.1")));
    must_be_ok(command);
}

#[test]
fn a_plugin_on_the_drop_in_library_uses_the_threads_of_the_static_one() {
    let Some(shim) = shim() else { return };
    let archive = shim.join("libnanos_omp.a");
    let program = compile("host", &[archive.to_str().unwrap(), "-lpthread", "-ldl", "-lm"]);
    let plugin = plugin(&[]);
    let mut command = clean(&program, Some(&shim));
    command.arg(&plugin);
    must_be_ok(command);
}

#[test]
fn a_plugin_with_the_static_library_inside_can_be_loaded_late_and_unloaded() {
    let Some(shim) = shim() else { return };
    let archive = shim.join("libnanos_omp.a");
    // Its symbols must not be taken from elsewhere, nor given to others.
    let plugin = plugin(&[archive.to_str().unwrap(), "-lm", "-Wl,--exclude-libs,ALL"]);
    let program = loader("late");
    let mut command = clean(&program, None);
    command.arg(&plugin);
    must_be_ok(command);
}

#[test]
fn beside_another_version_of_itself_the_library_runs_serially_and_says_so_once() {
    let Some(subject) = Subject::new("settings", &[]) else { return };
    let other = compile("older", &["-shared", "-fPIC"]);
    let other = other.to_str().unwrap();
    let (out, err) = subject.says(&[("OMP_NUM_THREADS", "3"), ("LD_PRELOAD", other)]);
    assert!(out.contains("threads=3 members=1 "), "{out}{err}");
    assert_eq!(
        err.lines().filter(|line| line.contains("another version of this library")).count(),
        1,
        "{err}"
    );
}
