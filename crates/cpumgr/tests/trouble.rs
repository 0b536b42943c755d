//! Programs and machines that misbehave while others work: stopped ones, a crowd of hogs, random
//! bytes at full speed.
//!
//! `CPUMGR_HOGS=60` lets the hogs spin for a minute (the stress lane); otherwise it is some
//! seconds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::{Duration, Instant};

use nix::libc::{SIGCONT, SIGSTOP};
use platform::affinity::{CpuSet, Tid, affinity};
use support::{Manager, Program, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// Rings that a program has at once, and how long it takes until it has one more
/// (`server::program`).
const RINGS: u64 = 100;
const RING: Duration = Duration::from_millis(3);
/// How often a ring wakes the manager at most: it is heard, and the grace of processors that move
/// ends; after each fourth one the program has rung too often, and may ring again.
const PASSES: u64 = 3;
/// What wakes it besides: quanta, looks at what is used, signs of life, this test.
const PASSES_A_SECOND: u64 = 100;

/// The state letter of a process.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn tids(pid: u32) -> Vec<Tid> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Tid)).collect()
}

/// Threads of a process that may run on processors outside `kept` and are bound at all.
fn outside(pid: u32, kept: &CpuSet, all: &CpuSet) -> usize {
    let masks = tids(pid).into_iter().filter_map(|tid| affinity(Some(tid)).ok());
    masks.filter(|mask| mask != all && !mask.difference(kept).is_empty()).count()
}

#[test]
fn a_stopped_program_gives_way_and_is_well_when_it_goes_on() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let all = affinity(None).unwrap();
    let mut stopped = manager.program(2, 2);
    stopped.until("it has both", |seen| seen.processors == 2);
    stopped.ask("spinners 2");
    let pid = stopped.pid();
    stopped.signal(SIGSTOP);
    eventually("it is stopped", || (state(pid) == 'T').then_some(()));

    let begin = Instant::now();
    let mut other = manager.program(2, 2);
    let seen =
        other.until("the other has its own processor", |seen| !seen.shared && seen.processors == 1);
    let kept = CpuSet::parse_list(&cpus).unwrap().difference(&seen.cpus);
    // It cannot follow: after the grace its virtual processor is bound to what it keeps, as if it
    // ignored the request.
    eventually("the stopped one's thread has left that processor", || {
        (outside(pid, &kept, &all) == 0).then_some(())
    });
    println!("given way after {:?}, through several processes", begin.elapsed());
    assert_eq!(state(pid), 'T', "a stopped process is not woken");
    // The manager talks to it as to any program, and is not held up.
    other.ask("request 1");
    assert_eq!(manager.status().programs.len(), 2);

    // Longer than the silence after which programs take a manager for hung: it must not blame the
    // manager.
    std::thread::sleep(Duration::from_millis(1500));
    stopped.signal(SIGCONT);
    assert_eq!(stopped.ask("misses 500"), "missed 0");
    assert_eq!(stopped.ask("registrations"), "1");
    drop(other);
    stopped.until("it has both again", |seen| seen.processors == 2 && seen.alive);
    let own = seen.cpus;
    eventually("its thread is on the processor that came back", || {
        let masks = stopped.ask("masks");
        masks.split(' ').skip(1).all(|mask| CpuSet::parse_list(mask).unwrap() == own).then_some(())
    });
}

#[test]
fn a_program_that_ends_before_it_is_taken_in_is_no_fault_of_the_manager() {
    let manager = Manager::start(&[]);
    manager.signal(SIGSTOP);
    let mut short = Program::unregistered(&manager.socket());
    assert_eq!(short.ask("send-registration"), "sent");
    let pid = short.pid();
    short.kill();
    manager.signal(SIGCONT);
    let _later = manager.program(1, 1);
    let field = format!("pid={pid}");
    let ended =
        |line: &str| line.contains("ended") && line.split_whitespace().any(|word| word == field);
    eventually("the log says that it ended", || manager.log().lines().any(ended).then_some(()));
    let log = manager.log();
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn sixteen_hogs_make_no_program_take_the_manager_for_dead() {
    let seconds: u32 =
        std::env::var("CPUMGR_HOGS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let mut manager = Manager::start(&[]);
    let mut programs: Vec<Program> = (0..4).map(|_| manager.program(2, 2)).collect();
    let mut hogs = Program::unregistered(&manager.socket());
    assert_eq!(hogs.ask("hogs 16"), "hogging");
    let watchers: Vec<_> = programs
        .drain(..)
        .map(|mut program| {
            std::thread::spawn(move || {
                let answer = program.ask(&format!("misses {}", seconds * 1000));
                (program, answer)
            })
        })
        .collect();
    for watcher in watchers {
        let (program, answer) = watcher.join().unwrap();
        assert_eq!(answer, "missed 0", "a false leave");
        programs.push(program);
    }
    for program in &mut programs {
        assert_eq!(program.ask("registrations"), "1");
    }
    // The same eyes see a manager that really stops, hogs or not.
    manager.signal(SIGSTOP);
    for program in &mut programs {
        program.until("the stopped manager is missed", |seen| !seen.alive);
    }
    manager.signal(SIGCONT);
    for program in &mut programs {
        program.until("it is heard of again", |seen| seen.alive);
    }
    hogs.kill();
    drop(programs);
    manager.kill();
}

#[test]
fn random_bytes_at_full_speed_leave_two_others_alone() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus]);
    let mut neighbours = [manager.program(1, 2), manager.program(1, 2)];
    for neighbour in &mut neighbours {
        neighbour.until("it has one", |seen| seen.processors == 1);
        neighbour.ask("spinners 2");
    }
    let before = neighbours.each_mut().map(|neighbour| neighbour.ask("masks"));
    let mut scribbler = Program::unregistered(&manager.socket());
    assert_eq!(scribbler.ask("scribble"), "scribbling");
    let used = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", manager.pid())).unwrap();
        stat.split(' ').next().unwrap().parse().unwrap()
    };
    let passes = || cpumgr::metrics::ask(&manager.socket()).unwrap().passes.count();
    let (begin, cpu, passes_before) = (Instant::now(), used(), passes());
    let mut answered = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        for neighbour in &mut neighbours {
            neighbour.ask("request 2");
            assert!(neighbour.seen().alive);
            neighbour.ask("request 1");
            let seen = neighbour.until("it has what it asked for", |seen| seen.processors == 1);
            assert!(seen.cpus.difference(&CpuSet::parse_list(&cpus).unwrap()).is_empty());
            answered += 1;
        }
    }
    let (passes, elapsed) = (passes() - passes_before, begin.elapsed());
    let share = (used() - cpu) as f64 / elapsed.as_nanos() as f64;
    // Not the time that it used, which is the machine's: how often it was woken. The neighbours
    // ring as often as they may, too. Without the limit it is woken all the time.
    let rings = 3 * (RINGS + u64::try_from(elapsed.as_nanos() / RING.as_nanos()).unwrap());
    let allowed = PASSES * rings + PASSES_A_SECOND * (elapsed.as_secs() + 1);
    println!(
        "measured: {answered} requests answered; the manager was woken {passes} times, {allowed} \
         are allowed, and used {:.1} % of a processor",
        share * 100.0
    );
    assert!(passes <= allowed, "the manager was woken {passes} times, {allowed} are allowed");
    for program in manager.status().programs {
        assert!((1..=2).contains(&program.request) && program.granted >= 1, "{program:?}");
        assert_eq!(program.speedup, None, "random bytes are no report: {program:?}");
    }
    scribbler.kill();
    eventually("it is gone", || (manager.status().programs.len() == 2).then_some(()));
    for (neighbour, before) in neighbours.iter_mut().zip(before) {
        neighbour.until("it has its own", |seen| !seen.shared && seen.alive);
        let initial = |masks: &str| masks.split(' ').next().unwrap().to_owned();
        assert_eq!(
            initial(&neighbour.ask("masks")),
            initial(&before),
            "a neighbour's initial thread was touched"
        );
        assert_eq!(neighbour.ask("registrations"), "1");
    }
}
