//! What the engine says on stderr, and that nothing depends on whether it can be read. Each case
//! runs in a process of its own, which this program is again.

use crate::process::{again, is_again, name_of, output_of};
#[cfg(not(any(tsan, asan)))]
use nanothreads::{Team, broadcast, builder};
use nanothreads::{join, par_for, scope};
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn the_engine_works_where_its_warnings_cannot_be_written() {
    let test = name_of(&|| ());
    if is_again(test) {
        assert_eq!(par_for(0..10).reduce(0, |i| i, |a, b| a + b), 45);
        let done = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..10 {
                s.spawn(|s| {
                    s.yield_now();
                    done.fetch_add(1, Relaxed);
                });
            }
            s.yield_now();
        });
        assert_eq!((done.into_inner(), join(|| 1, || 2)), (10, (1, 2)));
        return;
    }
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return platform::skip!("there is no /dev/full");
    };
    let mut command = again(test);
    // Both are worth a warning.
    command.env("NANOS_STACK", "abc").env("NANOS_CPUMGR", "/nowhere/at/all");
    let heard = {
        let mut command = again(test);
        command.env("NANOS_STACK", "abc").env("NANOS_CPUMGR", "/nowhere/at/all");
        output_of(command)
    };
    let text = String::from_utf8_lossy(&heard.stderr);
    assert!(
        heard.status.success()
            && text.contains("NANOS_STACK=abc")
            && text.contains("/nowhere/at/all"),
        "{text}"
    );
    command.stderr(full);
    let mute = output_of(command);
    assert!(mute.status.success(), "{}: {}", mute.status, String::from_utf8_lossy(&mute.stdout));
}

/// Room for the program, not for the stacks.
#[cfg(not(any(tsan, asan)))]
fn limit_addresses(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: - reads `limit`, which lives through the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[cfg(not(any(tsan, asan)))]
#[test]
fn a_system_that_refuses_threads_is_named_once_with_the_remedies() {
    let test = name_of(&|| ());
    const STACK: usize = 1 << 40;
    const HINTS: [&str; 4] = ["stack_size", "ulimit -v", "ulimit -u", "pids.max"];
    if is_again(test) {
        limit_addresses(8 << 30);
        builder().adapt(false).stack_size(STACK).install().expect("the first settings");
        let refused = Team::exact(3).expect_err("no stack is so large").to_string();
        assert!(
            refused.contains("a team of 3 threads")
                && HINTS.iter().all(|hint| refused.contains(hint)),
            "{refused}"
        );
        for _ in 0..3 {
            broadcast(|member| assert_eq!(member.size, 1));
            assert!(Team::exact(2).is_err());
        }
        assert_eq!(par_for(0..10).reduce(0, |i| i, |a, b| a + b), 45);
        return;
    }
    let output = output_of(again(test));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {text}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    let lines: Vec<_> =
        text.lines().filter(|line| line.contains("the system refuses a thread")).collect();
    let [line] = lines.as_slice() else { panic!("said once: {text}") };
    // All that the processors could use, at once.
    assert!(line.contains("a master asked for ") && line.contains(" beside its own"), "{line}");
    assert!(
        line.contains(&format!("stacks of {STACK} bytes")) && line.contains("os error"),
        "{line}"
    );
    assert!(HINTS.iter().all(|hint| line.contains(hint)), "{line}");
}
