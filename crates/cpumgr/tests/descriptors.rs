//! Programs that close the descriptors of their registration and use the numbers for their own
//! things.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::{Manager, Program, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

const KINDS: [&str; 5] = ["files", "pipes", "full-pipes", "sockets", "counters"];

#[test]
fn requests_of_a_program_that_closed_all_its_descriptors_touch_nothing_of_its_own() {
    let manager = Manager::start(&[]);
    for kind in KINDS {
        let mut program = manager.program(2, 2);
        assert_eq!(program.ask(&format!("reuse {kind}")), "unharmed", "{kind}");
        eventually("the manager has forgotten it", || {
            manager.status().programs.is_empty().then_some(())
        });
    }
}

#[test]
fn the_watcher_of_a_program_that_closed_all_its_descriptors_receives_nothing_of_its_own() {
    let manager = Manager::start(&[]);
    let mut programs = KINDS.map(|kind| (kind, manager.program(2, 2)));
    for (kind, program) in &mut programs {
        assert_eq!(program.ask(&format!("reuse-quietly {kind}")), "unharmed", "{kind}");
    }
    eventually("the manager has forgotten them", || {
        manager.status().programs.is_empty().then_some(())
    });
}

#[test]
fn a_program_without_standard_streams_prints_nothing_to_the_manager() {
    let manager = Manager::start(&["--domain"]);
    let mut program = Program::unregistered(&manager.socket());
    assert_eq!(program.ask("register-without-streams"), "registered joined []");
    assert_eq!(program.seen().processors, 1);
}
