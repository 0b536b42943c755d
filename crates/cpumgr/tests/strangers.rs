//! Processors on which others than the managed programs run are left to them (D9): real threads, real time slices.

#![expect(clippy::unwrap_used, reason = "a step of a test that fails is a failed test, in the helpers, too")]

mod support;

use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cpumgr::status::Report;
use platform::affinity::{CpuId, CpuSet, Tid, set_affinity};
use support::{Manager, Program, eventually, two_processors};

#[test]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// The programs of one test are strangers to those of another: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process of nobody's that keeps a processor busy.
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

/// A program of two virtual processors, of which the second spins, and where that is.
fn spinning(manager: &Manager) -> Program {
    let mut program = manager.program(2, 2);
    program.until("two processors are there", |seen| seen.processors == 2);
    assert_eq!(program.ask("spinners 2"), "spinning");
    program
}

fn place_of_the_spinner(program: &mut Program) -> CpuSet {
    let masks = program.ask("masks");
    CpuSet::parse_list(masks.split(' ').nth(1).unwrap()).unwrap()
}

fn left(manager: &Manager) -> String {
    Report::ask(&manager.socket()).unwrap().status.left
}

#[test]
fn a_processor_with_a_stranger_is_left_to_it_and_comes_back_when_it_has_gone() {
    if two_processors().is_none() {
        return;
    }
    let _alone = alone();
    let manager = Manager::start(&["--strangers", "leave"]);
    let mut program = spinning(&manager);
    let cpu = place_of_the_spinner(&mut program).first().unwrap();
    let stranger = Stranger::on(cpu);
    program.until("the stranger has its processor", |seen| seen.processors == 1 && !seen.cpus.contains(cpu));
    eventually("the status says so", || (left(&manager) == cpu.0.to_string()).then_some(()));
    drop(stranger);
    program.until("the processor is back", |seen| seen.processors == 2);
    eventually("the status says so", || left(&manager).is_empty().then_some(()));
}

#[test]
fn programs_of_two_managers_part() {
    if two_processors().is_none() {
        return;
    }
    let _alone = alone();
    let managers = [(); 2].map(|()| Manager::start(&["--strangers", "leave"]));
    let mut programs = [&managers[0], &managers[1]].map(spinning);
    eventually("each spinner has a processor to itself", || {
        let places = programs.each_mut().map(place_of_the_spinner);
        let apart = places.iter().all(|it| it.len() == 1) && places[0] != places[1];
        apart.then_some(())
    });
}
