//! A `TeamSizer` that panics while members use the master's memory: the process ends, with a
//! report.

use crate::process::{again, is_again, name_of, output_of};
use nanothreads::{Team, TeamSizer, broadcast, builder, scope};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Names what a child does.
const CASE: &str = "PANICKING_SIZER_CASE";

/// The thread on which `limit` panics.
static ARMED: Mutex<Option<ThreadId>> = Mutex::new(None);
static PANICKED: AtomicBool = AtomicBool::new(false);

struct Panicking;

impl TeamSizer for Panicking {
    fn limit(&self) -> usize {
        if *ARMED.lock().expect("not held by the thread that panics")
            == Some(thread::current().id())
        {
            PANICKED.store(true, Release);
            panic!("planted in the sizer");
        }
        3
    }
}

fn arm() {
    *ARMED.lock().expect("not held by the thread that panics") = Some(thread::current().id());
}

/// Until the sizer has panicked, somewhere.
fn wait() {
    while !PANICKED.load(Acquire) {
        thread::yield_now();
    }
}

fn child(case: &str) {
    assert_eq!(builder().sizer(Panicking).install(), Ok(()));
    match case {
        "master" => broadcast(|member| if member.id == 0 { arm() } else { wait() }),
        "worker" => Team::exact(3).expect("the system gives threads").run(|member| {
            if member.id() == 1 {
                arm()
            }
        }),
        "scope" => {
            let has_begun = AtomicBool::new(false);
            scope(|s| {
                s.spawn(|_| {
                    has_begun.store(true, Release);
                    wait();
                });
                // On another thread: this one has not left the body.
                while !has_begun.load(Acquire) {
                    thread::yield_now();
                }
                arm();
            });
        }
        _ => panic!("no case {case}"),
    }
    // Workers wait for work, and ask what they may do meanwhile: the process ends long before this.
    thread::sleep(Duration::from_secs(20));
}

#[test]
fn a_sizer_that_panics_while_threads_wait_ends_the_process_with_a_report() {
    let test = name_of(&|| ());
    if is_again(test) {
        let case = std::env::var(CASE).expect("the parent says which");
        let outcome = catch_unwind(AssertUnwindSafe(|| child(&case)));
        println!("went on: {}", outcome.is_err());
        return;
    }
    for case in ["master", "worker", "scope"] {
        let mut command = again(test);
        command.env(CASE, case);
        let child = output_of(command);
        let report = String::from_utf8_lossy(&child.stderr);
        assert_eq!(
            child.status.signal(),
            Some(libc::SIGABRT),
            "{case}: {}, {report}",
            child.status
        );
        assert!(
            report.contains("planted in the sizer") && report.contains("nanos: a panic"),
            "{case}: {report}"
        );
    }
}
