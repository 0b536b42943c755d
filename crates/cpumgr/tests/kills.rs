//! Programs that are killed at each step of the protocol: the others have their processors at once,
//! and nothing is left.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use arena::hook::{ALL, Step};
use support::{Manager, Program, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// How often each step is died at; `CPUMGR_KILLS` says more for a stress run.
fn rounds() -> usize {
    std::env::var("CPUMGR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// How often the manager is killed while programs run; `CPUMGR_MANAGER_KILLS` says more for a
/// stress run.
fn manager_kills() -> usize {
    std::env::var("CPUMGR_MANAGER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// What leads a registered program to a step.
fn way_to(step: Step) -> &'static [&'static str] {
    match step {
        Step::Connected | Step::RegisterSent | Step::Answered | Step::Mapped => &["register 2 2"],
        Step::Asked | Step::Rung => &["request 1", "request 2", "request 1"],
        Step::Released => &["release 0", "release 1"],
        Step::Resumed => &["release 0", "release 1", "resume"],
        Step::ParkPrepared => &["park"],
        Step::Reported => &["report 1 1000 1000"],
        Step::AnsweredAgain | Step::HalfReplaced | Step::Replaced => &[],
    }
}

fn descriptors(manager: &Manager) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", manager.pid())).unwrap().count()
}

#[test]
fn a_program_killed_at_any_step_leaves_its_processors_and_nothing_else() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut survivor = manager.program(2, 2);
    survivor.until("it has both", |seen| seen.processors == 2);
    let before = descriptors(&manager);
    let (mut slowest, mut kills) = (Duration::ZERO, 0);
    for round in 0..rounds() {
        for (index, step) in
            ALL.into_iter().enumerate().filter(|(_, step)| !way_to(*step).is_empty())
        {
            let early = way_to(step) == ["register 2 2"];
            let mut victim = Program::unregistered(&manager.socket());
            if !early {
                assert_eq!(victim.ask("register 2 2"), "registered");
            }
            victim.ask(&format!("die-at {index}"));
            let status = victim.dies_of(way_to(step));
            assert_eq!(status.signal(), Some(9), "{step:?} in round {round}");
            let begin = Instant::now();
            survivor.until("the survivor has both", |seen| seen.processors == 2 && !seen.shared);
            slowest = slowest.max(begin.elapsed());
            kills += 1;
        }
    }
    println!(
        "{kills} kills; from the death that was seen to the grant that was seen at most {slowest:?}"
    );
    assert!(kills >= 50 || rounds() < 5);
    eventually("only the survivor is known", || {
        (manager.status().programs.len() == 1).then_some(())
    });
    eventually("no descriptor is left", || (descriptors(&manager) <= before).then_some(()));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", manager.pid())).unwrap();
    let shared = maps.lines().filter(|line| line.contains("nanos-up")).count();
    assert_eq!(shared, 1, "the memory of dead programs is left");
}

#[test]
fn a_program_killed_while_the_next_manager_takes_it_in_leaves_nothing() {
    let Some(cpus) = two_processors() else { return };
    for step in [Step::AnsweredAgain, Step::HalfReplaced, Step::Replaced] {
        let mut manager = Manager::start(&["--cpus", &cpus]);
        let mut victim = manager.program(2, 2);
        let mut survivor = manager.program(2, 2);
        let index = ALL.iter().position(|it| *it == step).unwrap();
        victim.ask(&format!("die-at {index}"));
        manager.kill();
        manager.start_again(&["--cpus", &cpus]);
        assert_eq!(victim.dies_of(&[]).signal(), Some(9), "{step:?}");
        survivor.until("the survivor has both", |seen| seen.alive && seen.processors == 2);
        assert_eq!(manager.status().programs.len(), 1);
    }
}

#[test]
fn a_manager_killed_again_and_again_loses_no_program() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus, "--quantum", "5ms"]);
    let mut programs: Vec<Program> = (0..4).map(|_| manager.program(2, 2)).collect();
    let kills = manager_kills();
    for round in 0..kills {
        manager.kill();
        manager.start_again(&["--cpus", &cpus, "--quantum", "5ms"]);
        for program in &mut programs {
            program.until("it is taken in again", |seen| seen.alive && seen.processors >= 1);
        }
        eventually("all are there", || (manager.status().programs.len() == 4).then_some(()));
        println!("round {round}");
    }
    for program in &mut programs {
        assert_eq!(program.ask("registrations"), (kills + 1).to_string());
    }
}
