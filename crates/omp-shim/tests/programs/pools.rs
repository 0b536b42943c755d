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
