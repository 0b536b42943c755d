//! Threads of the program, children of it, and its end.

use crate::drop_in::{clean, finish, fresh, must_be_ok, shim};
use crate::{Subject, run};
use std::path::Path;

/// The ways in which a thread leaves a region for good.
const MEMBERS_LEAVE: [&str; 8] = [
    "cancelled",
    "cancelled later",
    "exits",
    "exits after a loop",
    "exits in a task",
    "exits in an inner region",
    "master exits",
    "master is cancelled",
];

#[test]
fn a_master_that_is_cancelled_leaves_no_region_half_done() {
    run("cancelled", &[]);
    run("cancelled", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "3")]);
}

#[test]
fn a_member_that_is_cancelled_or_exits_ends_alone_and_all_others_go_on() {
    let Some(subject) = Subject::new("cancelled_member", &["-lpthread"]) else { return };
    for way in MEMBERS_LEAVE {
        for policy in ["active", "passive"] {
            let mut command = subject.command();
            command.arg(way).env("OMP_WAIT_POLICY", policy);
            must_be_ok(command);
        }
    }
}

#[test]
fn threads_of_the_program_are_masters_of_their_own_teams() {
    run("foreign", &[]);
}

#[test]
fn a_forked_child_has_regions_of_its_own() {
    run("forked", &[]);
}

#[test]
fn programs_that_a_region_starts_have_the_original_mask_and_the_region_goes_on() {
    run("spawned", &[]);
}

#[test]
fn many_threads_that_come_and_go_leave_no_memory_and_no_threads() {
    run("many", &[]);
}

#[test]
fn a_program_ends_well_while_threads_wait() {
    let Some(subject) = Subject::new("ending", &["-lpthread"]) else { return };
    for way in [
        "return",
        "exit",
        "_exit",
        "thread",
        "region",
        "main leaves",
        "main leaves last",
        "main leaves unseen",
    ] {
        let mut command = subject.command();
        command.arg(way);
        must_be_ok(command);
    }
}

/// What `cpumgr run --preload` makes of a shell script: each of its commands loads the library,
/// needed or not.
#[test]
fn a_program_that_inherits_the_preload_and_needs_none_of_it_is_what_it_was() {
    let Some(shim) = shim() else { return };
    // Of the last command: its threads, its descriptors, where it may run, and what it is blocked
    // from.
    let state = "grep -E '^(Threads|Cpus_allowed_list|Sig(Blk|Ign|Cgt)|Seccomp):' \
                 /proc/self/status; ls /proc/self/fd; exit 7";
    let run = |preload: Option<&Path>, script: &str| {
        let mut command = clean("sh", None);
        // A manager to look for: a program that used the library would say that there is none.
        command.args(["-c", script]).env("NANOS_CPUMGR", fresh("no-manager"));
        command.envs(preload.map(|library| ("LD_PRELOAD", library)));
        finish(command)
    };
    let library = shim.join("libgomp.so.1");
    let maps = run(Some(&library), "cat /proc/self/maps | grep libgomp; true");
    assert!(!maps.stdout.is_empty(), "the children load it");
    let (without, with) = (run(None, state), run(Some(&library), state));
    assert!(String::from_utf8_lossy(&with.stdout).contains("Threads:\t1\n"), "{with:?}");
    assert_eq!(with, without);
}
