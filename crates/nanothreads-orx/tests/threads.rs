//! No thread is created beside the engine's. One test, so that no other test's threads come and go.

use std::io::Write as _;

use nanothreads::Team;
use orx_parallel::*;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the kernel lists threads").count()
}

/// As `platform::skip` says it; a companion crate uses the engine alone.
fn skip(reason: &str) {
    let line = format!("skipped: {reason} [{}]\n", file!());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
    let Some(path) = std::env::var_os("NANOS_SKIPS").filter(|path| !path.is_empty()) else {
        return;
    };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the file of skips can be written");
}

#[test]
fn iterators_create_no_thread_beside_the_engines() {
    nanothreads::builder().threads(3).install().expect("nothing was forked before");
    let before = threads();
    assert_eq!(Team::available().map(|_| ()).len(), 3);
    assert_eq!(threads(), before + 2, "virtual processors");
    let sum: usize =
        (0..10_000_usize).into_par().runner(nanothreads_orx::runner()).filter(|n| n % 2 == 1).sum();
    assert_eq!(sum, 25_000_000);
    let default_pool = std::any::type_name_of_val(&Pool::global());
    if default_pool.ends_with("SequentialPool") {
        assert_eq!(threads(), before + 2, "orx-parallel started threads of its own");
    } else {
        skip(
            "another crate of this build switches orx-parallel's own pool on, which starts threads \
             unasked",
        );
    }
}
