//! Processors that are taken from real programs, given back by them, and a manager that is told
//! otherwise meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::process::Output;

use platform::affinity::{CpuSet, Tid, affinity};
use support::{Manager, Program, cpumgr, errors, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn masks(program: &mut Program) -> Vec<CpuSet> {
    program.ask("masks").split(' ').map(|list| CpuSet::parse_list(list).unwrap()).collect()
}

/// A program with one spinning virtual processor besides its initial thread, and its masks while it
/// is alone.
fn with_a_spinner(manager: &Manager) -> (Program, Vec<CpuSet>) {
    let mut program = manager.program(2, 2);
    program.until("it has both", |seen| seen.processors == 2);
    assert_eq!(program.ask("spinners 2"), "spinning");
    let masks = masks(&mut program);
    assert_eq!(masks[1].len(), 1);
    (program, masks)
}

fn control(manager: &Manager, words: &[&str]) -> Output {
    cpumgr()
        .args(&words[..1])
        .arg("--socket")
        .arg(manager.socket())
        .args(&words[1..])
        .output()
        .unwrap()
}

#[test]
fn a_virtual_processor_that_ignores_its_request_is_squeezed_and_set_free_again() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let (mut program, alone) = with_a_spinner(&manager);
    let other = manager.program(2, 2);
    let kept = program.until("it keeps one", |seen| seen.processors == 1).cpus;
    eventually("the spinner is bound to what is kept", || {
        (masks(&mut program)[1] == kept).then_some(())
    });
    assert_eq!(masks(&mut program)[0], alone[0], "the initial thread is not touched");
    eventually("the program is told", || (program.ask("notice") == "0 1 Squeezed").then_some(()));
    let status = eventually("the report says so", || {
        let status = manager.status().programs.remove(0);
        ((status.preempted, status.asked) == (1, 0)).then_some(status)
    });
    assert!(status.squeezes >= 1);

    other.kill();
    program.until("it has both again", |seen| seen.processors == 2);
    eventually("the spinner has a processor of its own", || {
        let mask = masks(&mut program).remove(1);
        (mask.len() == 1 && mask.is_disjoint(&kept)).then_some(())
    });
    eventually("the program is told", || (program.ask("notice") == "0 0 Run").then_some(()));

    // What the manager did is undone when it ends.
    let _other = manager.program(2, 2);
    let kept = program.until("it keeps one", |seen| seen.processors == 1).cpus;
    eventually("the spinner is bound to what is kept", || {
        (masks(&mut program)[1] == kept).then_some(())
    });
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success());
    assert_eq!(masks(&mut program), alone, "the masks before the first squeeze");
}

#[test]
fn a_virtual_processor_that_follows_is_left_alone() {
    let Some(cpus) = two_processors() else { return };
    // Longer than this test takes from the request to its answer.
    let manager = Manager::start(&["--cpus", &cpus, "--grace", "5s"]);
    let (mut program, _) = with_a_spinner(&manager);
    let _other = manager.program(2, 2);
    let kept = program.until("it keeps one", |seen| seen.processors == 1).cpus;
    eventually("it is asked", || (program.ask("notice") == "1 0 Asked").then_some(()));
    program.ask(&format!("bind 1 {kept}"));
    eventually("the grace is over", || (program.ask("notice").starts_with("0 ")).then_some(()));
    let status = &manager.status().programs[0];
    assert_eq!((status.squeezes, status.preempted), (0, 0));
}

#[test]
fn a_stranger_that_a_program_calls_its_own_is_not_touched() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--grace", "1ms"]);
    let mut program = manager.program(2, 2);
    let (victim, before) =
        (manager.program(1, 1), |pid: u32| affinity(Some(Tid(pid.cast_signed()))).unwrap());
    program.until("it keeps one", |seen| seen.processors == 1);
    for (index, pid) in [manager.pid(), victim.pid(), std::process::id(), 1].into_iter().enumerate()
    {
        program.ask(&format!("publish {} {pid}", index + 1));
    }
    let masks = [manager.pid(), victim.pid(), std::process::id()].map(before);
    // Gives a processor and takes it again.
    let victim_pid = victim.pid();
    let other = manager.program(2, 2);
    program.until("it shares", |seen| seen.shared);
    drop(other);
    program.until("it has its own", |seen| !seen.shared);
    eventually("the grace is over", || (program.ask("notice").starts_with("0 ")).then_some(()));
    assert_eq!([manager.pid(), victim_pid, std::process::id()].map(before), masks);
    assert!(manager.status().programs.iter().all(|program| program.squeezes == 0));
}

#[test]
fn what_was_given_back_is_had_again_when_it_is_wanted_again() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--quantum", "10s"]);
    let mut program = manager.program(2, 2);
    let seen = program.until("it has both", |seen| seen.processors == 2);
    program.ask(&format!("release {}", seen.cpus.first().unwrap().0));
    let left = program.until("the other one is left", |seen| seen.processors == 1);
    assert_eq!(manager.status().programs[0].request, 2, "its request stays as it is");
    assert_eq!(program.ask("wanted"), "false", "a program that gave back does not wait for it");
    assert_eq!(left.cpus.first(), seen.cpus.last(), "the one that was given back is gone");
    // What one does not hold one cannot give.
    program.ask("release 900");
    program.ask("resume");
    program.until("it has both again", |seen| seen.processors == 2);
    for cpu in seen.cpus.iter() {
        program.ask(&format!("release {}", cpu.0));
    }
    program.until("the last one stays", |seen| seen.processors == 1);
}

#[test]
fn quantum_grace_and_policy_change_while_programs_run() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--quantum", "10s"]);
    let mut programs = [manager.program(2, 2), manager.program(2, 2), manager.program(2, 2)];
    for program in &mut programs {
        program.until("all share", |seen| seen.shared);
    }
    let place = programs[0].seen().cpus;
    // With the quantum of ten seconds no program moves within the patience of a test.
    for words in [&["set", "quantum", "5ms"][..], &["set", "grace", "1ms"]] {
        let output = control(&manager, words);
        assert!(output.status.success(), "{}", errors(&output));
    }
    programs[0].until("it moves on", |seen| seen.cpus != place);
    let status = manager.status().status;
    assert_eq!((status.quantum_ns, status.grace_ns), (5_000_000, 1_000_000));

    let output = control(&manager, &["policy", "rr", "quantum=3ms"]);
    let text = errors(&output);
    assert!(!output.status.success() || manager.status().status.policy == "rr", "{text}");
    let output = control(&manager, &["policy", "equip"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(manager.status().status.policy, "equip");
    let output = control(&manager, &["policy"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("* equip") && text.contains("  dss-ts") && text.contains("pdpa"),
        "{text}"
    );
    let output = control(&manager, &["policy", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["in_force"].as_str(), json["policies"][0]["name"].is_string()),
        (Some("equip"), true)
    );
    for program in &mut programs {
        assert!(program.seen().alive);
    }
}

#[test]
fn a_weight_is_set_by_process() {
    let manager = Manager::start(&["--policy", "dss"]);
    let program = manager.program(1, 1);
    let pid = program.pid().to_string();
    let weight = |manager: &Manager| manager.status().programs[0].weight;
    assert_eq!(weight(&manager), 1.0);
    let output = control(&manager, &["set", "weight", &pid, "2.5"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(weight(&manager), 2.5);
    // Init is no program of a manager.
    let output = control(&manager, &["set", "weight", "1", "2"]);
    assert!(
        output.status.code() == Some(6) && errors(&output).contains("process 1 is no program"),
        "{}",
        errors(&output)
    );
    assert_eq!(weight(&manager), 2.5);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let manager = Manager::start(&["--policy", "cluster"]);
    let before = manager.status().status;
    let long = format!("{}=1", "k".repeat(40_000));
    for (words, code, hint) in [
        (&["policy", "just"][..], 2, "there are: "),
        (&["policy", "cluster", "colour=3"], 6, "colour"),
        (&["policy", "colour=red"], 6, "colour"),
        (&["policy", "equip", "dss"], 2, "second policy"),
        (&["policy", "vtq-dss", &long], 2, "our message to the manager"),
        (&["policy", "vtq-dss", &long[10_000..]], 6, "kkk"),
        (&["set", "quantum", "1us"], 2, "1us"),
        (&["set", "grace", "1h"], 2, "1h"),
        (&["set", "weight", "1", "0"], 2, "0.001 to 1000"),
    ] {
        let output = control(&manager, words);
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(hint), "{words:?}: {text}");
    }
    let after = manager.status().status;
    assert_eq!((after.policy, after.parameters), (before.policy, before.parameters));
    assert_eq!((after.quantum_ns, after.grace_ns), (before.quantum_ns, before.grace_ns));
}

#[test]
fn a_reported_speed_is_checked_and_smoothed_and_a_policy_acts_upon_it() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--policy", "pdpa", "--quantum", "20ms"]);
    let mut program = manager.program(2, 2);
    program.until("it has both", |seen| seen.processors == 2);
    let reported = |manager: &Manager| manager.status().programs[0].speedup;
    // A hundred times faster on two processors, and times of a program that could never use nine.
    program.ask("report 2 10 1000");
    program.ask("report 9 500 1000");
    assert_eq!(reported(&manager), None);
    program.ask("report 2 1000 1600");
    eventually("the report is there", || reported(&manager).filter(|it| *it == (1.6, 2)));
    program.ask("report 2 1000 1000");
    eventually("the next one counts for half", || reported(&manager).filter(|it| *it == (1.3, 2)));
}
