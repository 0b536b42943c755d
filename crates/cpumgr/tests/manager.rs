//! The manager with real programs: what each gets when programs come, ask, leave and die.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use support::{Manager, PATIENCE, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

#[test]
fn an_arrival_shrinks_the_first_program_and_a_leave_gives_back() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut first = manager.program(2, 2);
    let alone = first.seen();
    assert_eq!((alone.processors, alone.dedicated, alone.cpus.len()), (2, true, 2));
    let mut second = manager.program(2, 2);
    let shrunk = first.until("the first shrinks", |seen| seen.processors == 1 && !seen.dedicated);
    let other = second.until("the second has its own", |seen| seen.processors == 1 && !seen.shared);
    assert!(shrunk.cpus.is_disjoint(&other.cpus), "{shrunk:?} {other:?}");
    assert!(!shrunk.shared && shrunk.epoch > alone.epoch);
    assert_eq!(second.ask("leave"), "left");
    first.until("the first gets all back", |seen| seen.processors == 2 && seen.dedicated);
}

#[test]
fn a_killed_programs_processors_go_to_the_others() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut first = manager.program(2, 2);
    let second = manager.program(2, 2);
    first.until("both have one", |seen| seen.processors == 1);
    let begin = Instant::now();
    second.kill();
    first.until("the survivor has both", |seen| seen.processors == 2);
    println!("from kill to grant, through two processes: {:?}", begin.elapsed());
    assert_eq!(manager.status().programs.len(), 1);
}

#[test]
fn a_request_is_answered_at_once() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--quantum", "10s"]);
    let mut program = manager.program(1, 2);
    assert_eq!(program.seen().processors, 1);
    program.ask("request 2");
    program.until("two are granted", |seen| seen.processors == 2);
    program.ask("request 1");
    program.until("one is left", |seen| seen.processors == 1);
    program.ask("request 4000000000");
    program.until("the request is clamped to what it said it can use", |seen| seen.processors == 2);
    assert_eq!(manager.status().programs[0].request, 2);
}

#[test]
fn three_programs_on_two_processors_share_and_take_turns() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--quantum", "20ms"]);
    let mut programs = [manager.program(2, 2), manager.program(2, 2), manager.program(2, 2)];
    for program in &mut programs {
        program
            .until("all share", |seen| seen.shared && seen.processors == 1 && seen.cpus.len() == 1);
    }
    // Over some turns every program is seen on both processors.
    for program in &mut programs {
        let mut places = BTreeSet::new();
        eventually("a program is on each processor in turn", || {
            places.insert(program.seen().cpus.first());
            (places.len() == 2).then_some(())
        });
    }
    let [mut first, mut second, third] = programs;
    third.kill();
    for program in [&mut first, &mut second] {
        program.until("two have their own again", |seen| !seen.shared && seen.processors == 1);
    }
}

#[test]
fn a_killed_manager_is_noticed_promptly_and_programs_live_on() {
    let mut manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    assert!(program.seen().alive);
    manager.kill();
    let begin = Instant::now();
    let seen = program.until("the manager is missed", |seen| !seen.alive);
    println!("noticed within {:?}", begin.elapsed());
    assert_eq!(seen.processors, 1, "the last grant stays readable");
    // The dead manager's socket file is there; the next one takes it over, and programs register
    // again.
    assert!(manager.socket().exists());
    manager.start_again(&[]);
    let adopted = program.until("the next manager takes the program in", |seen| seen.alive);
    assert!(
        adopted.epoch > seen.epoch,
        "its grants go on from where they were: {seen:?} {adopted:?}"
    );
    assert_eq!(program.ask("registrations"), "2");
}

#[test]
fn a_request_made_without_a_manager_reaches_the_next_one() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus]);
    let mut program = manager.program(1, 2);
    manager.kill();
    program.until("the manager is missed", |seen| !seen.alive);
    program.ask("request 2");
    manager.start_again(&["--cpus", &cpus]);
    program.until("two are granted", |seen| seen.alive && seen.processors == 2);
    let report = manager.status();
    assert_eq!((report.programs[0].request, report.programs[0].vps), (2, 1), "{report:?}");
}

#[test]
fn a_virtual_processor_that_sleeps_for_want_of_a_processor_is_woken_when_the_manager_dies() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus, "--quantum", "10s"]);
    let mut sleeper = manager.program(2, 2);
    let _other = manager.program(2, 2);
    sleeper.until("it has one", |seen| seen.processors == 1);
    assert_eq!(sleeper.ask("park"), "parked");
    manager.kill();
    let begin = Instant::now();
    let answer = sleeper.ask("unparked");
    println!("{answer} after {:?}", begin.elapsed());
    assert_eq!(answer, "unparked without a manager");
}

#[test]
fn a_virtual_processor_that_sleeps_for_want_of_a_processor_is_woken_by_its_grant() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--quantum", "10s"]);
    let mut sleeper = manager.program(2, 2);
    let other = manager.program(2, 2);
    sleeper.until("it has one", |seen| seen.processors == 1);
    assert_eq!(sleeper.ask("park"), "parked");
    other.kill();
    assert_eq!(sleeper.ask("unparked"), "unparked with 2");
}

#[test]
fn a_stopped_manager_is_not_alive_until_it_goes_on() {
    let manager = Manager::start(&["--quantum", "10ms"]);
    let mut program = manager.program(1, 1);
    manager.signal(nix::libc::SIGSTOP);
    program.until("the silence is noticed", |seen| !seen.alive);
    manager.signal(nix::libc::SIGCONT);
    program.until("it is back", |seen| seen.alive);
}

#[test]
fn an_idle_manager_leaves_and_takes_its_socket_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("cpumgr.toml");
    let mut manager = Manager::start_to_stay(&config);
    let program = manager.program(1, 1);
    manager.may_leave_after(&config, "100ms");
    // Longer than the idle time: a manager with a program stays.
    let pidfd =
        platform::process::pidfd_open(platform::process::Pid(manager.pid().cast_signed())).unwrap();
    assert!(
        platform::process::wait_readable(
            &[std::os::fd::AsFd::as_fd(&pidfd)],
            Some(Duration::from_millis(500))
        )
        .unwrap()
        .is_empty()
    );
    assert!(program.exit(0).success());
    assert!(manager.wait().success());
    assert!(!manager.socket().exists());
}

#[test]
fn a_manager_without_programs_never_wakes_up() {
    let manager = Manager::start(&[]);
    drop(manager.program(2, 2));
    eventually("the program is gone", || manager.status().programs.is_empty().then_some(()));
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", manager.pid())).unwrap();
        let line = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        line("voluntary_ctxt_switches")
    };
    // It may still be on its way to sleep after the report. One that woke up by itself would do so
    // more often than that: its signs of life are due four times a second.
    eventually("it does not wake up while no program is there", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(1200));
        (switches() == before).then_some(())
    });
}

#[test]
fn sigterm_ends_a_manager_cleanly() {
    let mut manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success());
    assert!(!manager.socket().exists());
    program.until("the program knows", |seen| !seen.alive);
}

/// Rings that a program has at once, and how long it takes until it has one more
/// (`server::program`).
const RINGS: u32 = 100;
const RING: Duration = Duration::from_millis(3);

/// Counted in grants: each ring that is heard changes the flooder's.
#[test]
fn a_flood_of_requests_costs_the_flooder_only() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut flooder = manager.program(1, 2);
    let before = flooder.until("it has its processor", |seen| seen.processors == 1).epoch;
    let begin = Instant::now();
    let answer = flooder.ask("flood 1000");
    let rings: u32 = answer.strip_prefix("flooded ").unwrap().parse().unwrap();
    let grants = flooder.seen().epoch.wrapping_sub(before);
    // One more that was on its way, and one for the last word that is read late.
    let allowed = RINGS + u32::try_from(begin.elapsed().as_nanos() / RING.as_nanos()).unwrap() + 2;
    println!("{rings} requests in a second: {grants} grants, {allowed} allowed");
    assert!(grants <= allowed, "{grants} grants, {allowed} are allowed");
    if rings / 10 <= allowed {
        platform::skip!(busy: "{rings} requests in a second are no flood");
    }
    let mut other = manager.program(1, 1);
    assert!(other.seen().alive);
    flooder.ask("request 1");
    eventually("the last request is heard", || {
        let programs = manager.status().programs;
        programs
            .iter()
            .any(|program| program.pid == flooder.pid().cast_signed() && program.request == 1)
            .then_some(())
    });
}

#[test]
fn the_trace_tells_the_story() {
    let Some(cpus) = two_processors() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.jsonl");
    let mut manager = Manager::start(&["--cpus", &cpus, "--trace", path.to_str().unwrap()]);
    let mut first = manager.program(2, 2);
    let second = manager.program(2, 2);
    first.until("both have one", |seen| seen.processors == 1);
    let pids = (first.pid(), second.pid());
    second.kill();
    first.until("the survivor has both", |seen| seen.processors == 2);
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let story: Vec<(String, u64, usize)> = lines
        .iter()
        .map(|line| {
            let event = line["event"].as_str().unwrap().to_owned();
            (event, line["pid"].as_u64().unwrap(), line["cpus"].as_array().unwrap().len())
        })
        .collect();
    let at = |event: &str, pid: u32, cpus: usize| {
        let wanted = (event.to_owned(), u64::from(pid), cpus);
        story
            .iter()
            .position(|line| *line == wanted)
            .unwrap_or_else(|| panic!("no {wanted:?} in\n{text}"))
    };
    let order = [
        at("start", manager.pid(), 2),
        at("arrival", pids.0, 0),
        at("allocation", pids.0, 2),
        at("arrival", pids.1, 0),
        at("allocation", pids.0, 1),
        at("exit", pids.1, 0),
        at("stop", manager.pid(), 2),
    ];
    assert!(order.is_sorted(), "{order:?} in\n{text}");
    let times: Vec<u64> = lines.iter().map(|line| line["t_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    assert!(lines.iter().all(|line| line["shared"].is_boolean() && line["name"].is_string()));
}

#[test]
fn many_programs_come_and_go() {
    let manager = Manager::start(&["--quantum", "5ms"]);
    let programs: Vec<_> = (0..24).map(|n| manager.program(1 + n % 3, 4)).collect();
    assert_eq!(manager.status().programs.len(), 24);
    for (n, program) in programs.into_iter().enumerate() {
        if n % 2 == 0 { program.kill() } else { assert!(program.exit(0).success()) }
    }
    eventually("all are gone", || manager.status().programs.is_empty().then_some(()));
    let begin = Instant::now();
    assert_eq!(manager.program(1, 1).seen().processors, 1);
    assert!(begin.elapsed() < PATIENCE);
}
