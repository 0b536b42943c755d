//! What programs hold and do not use goes to those that could use it (`cpumgr::unused`): real
//! processes that work, sleep, are stopped.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::libc::{SIGCONT, SIGSTOP};
use support::{Manager, Program, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// What one test uses another one waits for.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A manager of two processors; `None`, with a printed reason, where there are fewer.
fn manager() -> Option<Manager> {
    Some(Manager::start(&["--cpus", &two_processors()?]))
}

/// A program that wants two processors and keeps two threads busy.
fn working(manager: &Manager) -> Program {
    let mut program = manager.program(2, 2);
    assert_eq!(program.ask("hogs 2"), "hogging");
    program
}

fn has_both(program: &mut Program) {
    program.until("it has both processors, no other waits", |seen| {
        seen.processors == 2 && seen.dedicated
    });
}

#[test]
fn a_program_that_asks_for_everything_and_sleeps_takes_nothing_from_one_that_works() {
    let (_alone, Some(manager)) = (alone(), manager()) else { return };
    let mut liar = manager.program(u32::MAX, u32::MAX);
    liar.until("it is alone", |seen| seen.processors == 2);
    let mut program = working(&manager);
    // For some windows, in which this test may not have run.
    program.until("they share first", |seen| {
        !seen.shared && (seen.processors == 1 || seen.processors == 2 && seen.dedicated)
    });
    has_both(&mut program);
    assert!(liar.seen().shared && liar.seen().processors == 1);

    // Now it works: it is no liar any more.
    assert_eq!(liar.ask("hogs 2"), "hogging");
    liar.until("it has its part", |seen| seen.processors == 1 && !seen.shared);
    program.until("and the other one its own", |seen| seen.processors == 1 && !seen.shared);
}

#[test]
fn a_sleeper_that_asks_anew_has_its_part_at_once() {
    let (_alone, Some(manager)) = (alone(), manager()) else { return };
    let mut program = working(&manager);
    let _sleeper = support::eventually("it has its part", || {
        let mut sleeper = manager.program(2, 2);
        sleeper.until("it sleeps", |seen| seen.shared);
        has_both(&mut program);
        sleeper.ask("request 1");
        // Less and more between two looks of the manager would be no wish at all.
        let pid = sleeper.pid().cast_signed();
        let seen = |request: u32| {
            let report = cpumgr::status::Report::glance(&manager.socket()).unwrap();
            report.programs.iter().any(|it| it.pid == pid && it.request == request)
        };
        support::eventually("the manager knows", || seen(1).then_some(()));
        sleeper.ask("request 2");
        support::eventually("the manager knows", || seen(2).then_some(()));
        // It uses none of it: it has it for a window, in which this test may not have run.
        let seen = sleeper.seen();
        (seen.processors == 1 && !seen.shared).then_some(sleeper)
    });
    // And again it does not use it.
    has_both(&mut program);
}

#[test]
fn what_a_stopped_program_held_is_others_until_it_goes_on() {
    let (_alone, Some(manager)) = (alone(), manager()) else { return };
    let mut first = working(&manager);
    let mut second = working(&manager);
    second.until("each has one", |seen| seen.processors == 1 && !seen.shared);
    first.signal(SIGSTOP);
    has_both(&mut second);
    first.signal(SIGCONT);
    second.until("the first one has its part", |seen| seen.processors == 1 && !seen.shared);
    first.until("its own", |seen| seen.processors == 1 && !seen.shared);
}

#[test]
fn many_sleepers_do_not_leave_one_processor_in_turns_to_a_working_program() {
    let (_alone, Some(manager)) = (alone(), manager()) else { return };
    let sleepers: Vec<Program> = (0..12).map(|_| manager.program(u32::MAX, u32::MAX)).collect();
    let mut program = working(&manager);
    has_both(&mut program);
    drop(sleepers);
}

#[test]
fn a_sleeper_beside_no_working_program_loses_nothing() {
    let (_alone, Some(manager)) = (alone(), manager()) else { return };
    let mut programs = [manager.program(2, 2), manager.program(2, 2)];
    for program in &mut programs {
        program.until("each has one", |seen| seen.processors == 1 && !seen.shared);
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1_500) {
        for program in &mut programs {
            let seen = program.seen();
            assert!(seen.processors == 1 && !seen.shared, "{seen:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
