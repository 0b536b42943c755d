//! Domain mode: programs that pass processors to each other without asking, and a manager that
//! writes down what it believes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::{Manager, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

#[test]
fn a_pass_that_the_books_do_not_allow_is_taken_back() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--domain", "--cpus", &cpus, "--quantum", "20ms"]);
    let mut giver = manager.program(2, 2);
    let mut taker = manager.program(2, 2);
    let last = giver.until("it has one", |seen| seen.processors == 1).cpus.first().unwrap();
    let own = taker.until("it has one", |seen| seen.processors == 1 && !seen.shared).cpus;
    for program in [&mut giver, &mut taker] {
        assert_eq!(program.ask("join"), "joined");
    }
    // The first in the work-list is offered to; the giver's last processor is not its to give.
    let passed = eventually("a program wants one", || {
        let passed = giver.ask(&format!("pass {}", last.0)) == "true";
        (passed || taker.ask(&format!("pass {}", own.first().unwrap().0)) == "true")
            .then_some(passed)
    });
    let receiver = if passed { &mut taker } else { &mut giver };
    eventually("it was received", || (receiver.ask("taken") != "none").then_some(()));
    for program in [&mut giver, &mut taker] {
        program
            .until("each keeps its own", |seen| seen.processors == 1 && !seen.shared && seen.alive);
    }
    assert!(manager.status().programs.iter().all(|it| it.granted == 1));
}

#[test]
fn a_processor_that_is_passed_is_the_receivers() {
    let mask = platform::affinity::affinity(None).unwrap();
    if mask.len() < 3 {
        platform::skip!(
            "needs three processors, this process may use {mask}; the books alone are tested in \
             `ledger`"
        );
        return;
    }
    let cpus: platform::affinity::CpuSet = mask.iter().take(3).collect();
    let manager = Manager::start(&["--domain", "--cpus", &cpus.to_string(), "--quantum", "10s"]);
    let mut programs = [manager.program(3, 3), manager.program(3, 3)];
    for program in &mut programs {
        assert_eq!(program.ask("join"), "joined");
    }
    let [first, second] = &mut programs;
    let (giver, taker) = if first.until("it has its share", |seen| !seen.shared).processors == 2 {
        (first, second)
    } else {
        (second, first)
    };
    let cpu = giver.until("it has two", |seen| seen.processors == 2).cpus.first().unwrap();
    assert_eq!(giver.ask(&format!("pass {}", cpu.0)), "true");
    assert_eq!(taker.ask("taken"), cpu.0.to_string());
    // Anything that wakes the manager makes it write that down.
    assert_eq!(manager.status().programs.len(), 2);
    taker.until("its grant names it", |seen| seen.cpus.contains(cpu));
    giver.until("the giver has one", |seen| seen.processors == 1);
}

#[test]
fn a_manager_without_a_domain_says_so() {
    let manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    let answer = program.ask("join");
    assert!(answer.contains("this manager has no domain"), "{answer}");
    assert!(program.seen().alive);
}
