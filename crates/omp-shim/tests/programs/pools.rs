//! Libraries with threads of their own. Under a manager: `cargo xtask flip pools`.

use crate::Subject;
use crate::drop_in::{clean, compile, fresh, must_be_ok};

#[test]
fn without_a_manager_a_pool_is_left_as_it_is() {
    let Some(subject) = Subject::new("pools", &["-ldl", "-lpthread"]) else { return };
    let built = compile("pool_library", &["-fno-openmp", "-shared", "-fPIC", "-lpthread"]);
    // Pools are known by the names of their files.
    let library = fresh("libopenblas-of-a-test.so");
    std::fs::rename(&*built, &*library).unwrap();
    for preload in [None, Some(subject.library.join("libgomp.so.1"))] {
        let mut command = clean(&subject.program, Some(&subject.library));
        command.arg(&library).arg("alone");
        command.envs(preload.map(|file| ("LD_PRELOAD", file)));
        must_be_ok(command);
    }
}

/// A library that begins with one thread, without a manager.
fn single(mode: &str) {
    let Some(subject) = Subject::new("pools", &["-ldl", "-lpthread"]) else { return };
    let options = ["-fno-openmp", "-DSINGLE", "-shared", "-fPIC", "-lpthread"];
    let built = compile("pool_library", &options);
    let library = fresh("libopenblas-of-a-test-single.so");
    std::fs::rename(&*built, &*library).unwrap();
    let mut command = clean(&subject.program, Some(&subject.library));
    command.arg(&library).arg(mode);
    must_be_ok(command);
}

#[test]
fn a_library_with_one_thread_is_not_looked_for_at_each_thread() {
    single("single");
}

#[test]
fn a_library_with_one_thread_can_be_closed() {
    single("closed");
}

#[test]
fn a_library_that_has_more_threads_than_processors_later_follows() {
    single("grown");
}

#[test]
fn a_library_is_known_by_the_file_that_a_link_leads_to() {
    let Some(subject) = Subject::new("pools", &["-ldl", "-lpthread"]) else { return };
    let built = compile("pool_library", &["-fno-openmp", "-shared", "-fPIC", "-lpthread"]);
    let library = fresh("libopenblas-of-a-link.so");
    std::fs::rename(&*built, &*library).unwrap();
    // As conda has it.
    let link = fresh("libcblas-of-a-test.so.3");
    std::os::unix::fs::symlink(&*library, &*link).unwrap();
    let mut command = clean(&subject.program, Some(&subject.library));
    command.arg(&link).arg("found");
    must_be_ok(command);
}

#[test]
fn without_a_manager_arenas_are_left_to_themselves() {
    let Some(subject) = Subject::new("arenas", &["-ldl", "-lpthread"]) else { return };
    let mut command = clean(&subject.program, Some(&subject.library));
    command.arg(subject.library.join("libtcm.so.1")).arg("alone");
    must_be_ok(command);
}
