//! Processors on which programs run that are not managed are left to those (D9): real threads, real
//! time slices.
//!
//! Any other program on this machine is a stranger, too: then what a test waits for may never come,
//! and it says so and ends.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod support;

use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cpumgr::status::Report;
use platform::affinity::{CpuId, CpuSet, Tid, set_affinity};
use support::{Manager, Program, eventually, eventually_alone, is_low, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// The programs of one test are strangers to those of another: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that is not managed and keeps a processor busy.
struct Stranger(Child);

impl Stranger {
    fn on(cpu: CpuId) -> Self {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        set_affinity(Some(Tid(child.id().cast_signed())), &CpuSet::single(cpu)).unwrap();
        Self(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A program of two virtual processors, of which the second spins, wherever strangers let it.
fn spinning(manager: &Manager) -> Option<Program> {
    let mut program = manager.program(2, 2);
    let ours = [manager.pid(), program.pid()];
    eventually_alone("two processors are there", &ours, || {
        (program.seen().processors == 2).then_some(())
    })?;
    assert_eq!(program.ask("spinners 2"), "spinning");
    Some(program)
}

fn left(manager: &Manager) -> String {
    Report::ask(&manager.socket()).unwrap().status.left
}

#[test]
fn a_processor_with_a_stranger_is_left_to_it_and_comes_back_when_it_has_gone() {
    if two_processors().is_none() || is_low() {
        return;
    }
    let _alone = alone();
    let manager = Manager::start(&["--strangers", "leave"]);
    let Some(mut program) = spinning(&manager) else { return };
    let cpu = program.place_of_the_spinner().first().unwrap();
    let stranger = Stranger::on(cpu);
    let ours = [manager.pid(), program.pid(), stranger.0.id()];
    let is_left =
        eventually_alone("the stranger has its processor, and the status says so", &ours, || {
            let seen = program.seen();
            let gone = seen.processors == 1 && !seen.cpus.contains(cpu);
            (gone && left(&manager) == cpu.0.to_string()).then_some(())
        });
    drop(stranger);
    if is_left.is_none() {
        return;
    }
    let _back =
        eventually_alone("the processor is back, and the status says so", &ours[..2], || {
            (program.seen().processors == 2 && left(&manager).is_empty()).then_some(())
        });
}

#[test]
fn strangers_are_looked_for_when_the_threads_of_a_program_begin_and_not_when_one_is_replaced() {
    if two_processors().is_none() || is_low() {
        return;
    }
    let _alone = alone();
    let manager = Manager::start(&["--strangers", "leave"]);
    let looks = || manager.log().matches("a close look for strangers").count();
    let mut program = manager.program(2, 2);
    let ours = [manager.pid(), program.pid()];
    let both = eventually_alone("two processors are there", &ours, || {
        (program.seen().processors == 2).then_some(())
    });
    if both.is_none() {
        return;
    }
    // The initial thread is one of two.
    assert!(looks() <= 1, "{}", manager.log());
    let before = looks();
    assert_eq!(program.ask("spinners 2"), "spinning");
    eventually("the manager looks closely", || (looks() == before + 1).then_some(()));
    // The same seat with another thread: nothing that was not there.
    assert_eq!(program.ask("spinners 2"), "spinning");
    drop(manager.status());
    assert_eq!(looks(), before + 1, "{}", manager.log());
}

#[test]
fn programs_of_two_managers_part() {
    if two_processors().is_none() || is_low() {
        return;
    }
    let _alone = alone();
    let managers = [(); 2].map(|()| Manager::start(&["--strangers", "leave"]));
    let [Some(first), Some(second)] = [&managers[0], &managers[1]].map(spinning) else { return };
    let mut programs = [first, second];
    let ours = [managers[0].pid(), managers[1].pid(), programs[0].pid(), programs[1].pid()];
    let _parted = eventually_alone("each spinner has a processor to itself", &ours, || {
        let places = programs.each_mut().map(Program::place_of_the_spinner);
        let apart = places.iter().all(|it| it.len() == 1) && places[0] != places[1];
        apart.then_some(())
    });
}
