//! Masks that are changed from outside while a program runs are followed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::process::{Child, Command};

use platform::affinity::{CpuSet, Tid, affinity, set_affinity};
use support::{Manager, cpumgr, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// As `taskset -a -p` does.
fn bind_all(pid: u32, cpus: &CpuSet) {
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let tid = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        set_affinity(Some(Tid(tid)), cpus).unwrap();
    }
}

fn within(manager: &Manager, pid: u32) -> Option<String> {
    let report = manager.status();
    let program = report.programs.iter().find(|it| it.pid.unsigned_abs() == pid).unwrap();
    program.within.clone()
}

#[test]
fn a_program_gets_no_processor_on_which_it_may_not_run_any_more() {
    let Some(cpus) = two_processors() else { return };
    let all = CpuSet::parse_list(&cpus).unwrap();
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut program = manager.program(2, 2);
    assert_eq!(program.ask("spinners 2"), "spinning");
    program.until("it has both", |seen| seen.processors == 2);
    let last: CpuSet = all.iter().skip(1).collect();
    let first = all.difference(&last);
    bind_all(program.pid(), &last);
    program.until("it has the one that is left", |seen| seen.cpus == last);
    assert_eq!(within(&manager, program.pid()), Some(last.to_string()));
    // The other one is there for another program, alone.
    let mut other = manager.program(2, 2);
    other.until("it has what the first one cannot use", |seen| seen.cpus == first && !seen.shared);
    assert!(!program.seen().shared);
    drop(other);
    // More room is followed, too.
    bind_all(program.pid(), &all);
    program.until("it has both again", |seen| seen.processors == 2);
    assert_eq!(within(&manager, program.pid()), None);
}

#[test]
fn a_program_that_binds_its_initial_thread_alone_keeps_its_processors() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut program = manager.program(2, 2);
    assert_eq!(program.ask("spinners 2"), "spinning");
    let mut witness = manager.program(2, 2);
    let place = witness.until("both have one", |it| it.processors == 1 && !it.shared).cpus;
    let own = program.until("both have one", |it| it.processors == 1 && !it.shared).cpus;
    eventually("its other thread is where it may be", || {
        (program.place_of_the_spinner() == own).then_some(())
    });
    set_affinity(Some(Tid(program.pid().cast_signed())), &place).unwrap();
    // All are looked at in the same round.
    bind_all(witness.pid(), &own);
    eventually("a round is over", || {
        (within(&manager, witness.pid()) == Some(own.to_string())).then_some(())
    });
    assert_eq!(within(&manager, program.pid()), None);
}

/// A process that knows of no manager, and is gone with its test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }
}

#[test]
fn an_attached_process_follows_its_mask_and_gets_that_one_back() {
    let Some(cpus) = two_processors() else { return };
    let all = CpuSet::parse_list(&cpus).unwrap();
    let manager = Manager::start(&["--cpus", &cpus]);
    let sleeper = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeper.0.id();
    let said =
        cpumgr().args(["attach", &pid.to_string(), "--socket"]).arg(manager.socket()).status();
    assert!(said.unwrap().success());
    let last: CpuSet = all.iter().skip(1).collect();
    eventually("it is managed", || {
        manager.status().programs.iter().any(|it| it.pid.unsigned_abs() == pid).then_some(())
    });
    bind_all(pid, &last);
    eventually("it stays there", || {
        (within(&manager, pid) == Some(last.to_string())).then_some(())
    });
    let mut other = manager.program(1, 1);
    other.until("the other one is free", |seen| seen.cpus == all.difference(&last));
    let said =
        cpumgr().args(["detach", &pid.to_string(), "--socket"]).arg(manager.socket()).status();
    assert!(said.unwrap().success());
    assert_eq!(affinity(Some(Tid(pid.cast_signed()))).unwrap(), last);
}
