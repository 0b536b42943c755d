//! A forked child uses parallel regions of its own (D13): outside a region, and from inside one.
#![cfg(all(not(loom), unix))]

use nanothreads::sizer::Fixed;
use nanothreads::{Config, Supply, broadcast, groups, par_for};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// Runs `child` in a forked process; returns its exit status.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: - the child only uses what the test allows, then leaves by _exit.
    match unsafe { fork() } {
        -1 => panic!("fork failed"),
        0 => {
            let status = child();
            // SAFETY: - ends the child without running the parent's destructors.
            unsafe { _exit(status) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: - `status` outlives the call; `pid` is our child.
            assert_eq!(unsafe { waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!(status & 0x7f, 0, "the child was ended by a signal");
            status >> 8
        }
    }
}

fn members() -> u32 {
    let count = AtomicU32::new(0);
    broadcast(|_| {
        count.fetch_add(1, Relaxed);
    });
    count.into_inner()
}

// One test: what it forks would otherwise be a copy of a process in which another test is amid a region.
#[test]
fn a_child_has_regions_of_its_own() {
    let supply = if module_path!().starts_with("forked_child_broadcast") { Supply::Global } else { Supply::Local };
    assert!(nanothreads::configure(Config { supply, ..Config::default() }));
    assert!(nanothreads::set_team_sizer(Box::new(Fixed::new(3))));
    assert_eq!(members(), 3);
    for _ in 0..10 {
        let status = in_child(|| i32::try_from(members()).unwrap());
        assert_eq!(status, 3, "the child has the settings that the parent was given");
        assert_eq!(members(), 3, "the parent's team is untouched");
    }
    // From inside a region the child is a lone thread that may fork regions, too.
    broadcast(|member| {
        if member.id == 0 {
            assert_eq!(in_child(|| i32::try_from(members()).unwrap()), 3);
        }
    });
    // So is the child of a group's master, be it the caller or a virtual processor; it may divide its own processors.
    for forking in 0..2 {
        let sizes = groups().weights(&[2, 1]).map(|group| {
            if group.index() == forking {
                let child = || {
                    let outer = members();
                    let inner: u32 = groups().equal(2).map(|_| members()).into_iter().sum();
                    i32::from(outer >= 1 && inner >= outer.max(2))
                };
                assert_eq!(in_child(child), 1, "the child of group {forking}'s master");
            }
            members()
        });
        assert_eq!(sizes, [2, 1], "the parent's groups are untouched");
        assert_eq!(members(), 3);
    }
    // A reduction out of which parent and child come: the child must not take what stands in other members' lines.
    let parent = std::process::id();
    let forked = AtomicI32::new(0);
    let sum = par_for(0..3).reduce(
        0,
        |i| {
            if i == 0 {
                // SAFETY: - both sides go on as single callers; the child leaves by _exit below.
                forked.store(unsafe { fork() }, Relaxed);
            }
            1
        },
        |a, b| a + b,
    );
    if std::process::id() != parent {
        // SAFETY: - ends the child without running the parent's destructors.
        unsafe { _exit(sum) };
    }
    let child = forked.into_inner();
    let mut status = 0;
    // SAFETY: - as in `in_child`.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((status, sum), (1 << 8, 3), "the child has its own result, the parent all three");
}
