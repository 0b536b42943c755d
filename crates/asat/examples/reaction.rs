//! How soon a team follows a hog that appears on one processor, and that leaves.
//!
//! `cargo run --release -p nanothreads-asat --example reaction [-- TRIES]`: for each version, in a
//! process of its own, so many times (15): a process that spins, bound to the last processor,
//! begins beside a team of all processors, and ends when the team is smaller or [`LIMIT`] is over.
//! The table has how many times the team was smaller after at most three evaluations, the median
//! and the most evaluations and milliseconds that it took, and the same until it was whole again.
//! The variants of the paper evaluate every 100 ms. The machine has to be idle.

use asat::Settings;
use engine::{Member, Team};
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::env;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const VERSIONS: [&str; 3] = ["asat", "paper", "reset"];
const TRIES: usize = 15;
/// A team that has not followed by then does not follow.
const LIMIT: Duration = Duration::from_secs(5);
/// A team is whole for so long before a hog begins.
const REST: Duration = Duration::from_millis(500);
const EVALUATIONS: u64 = 3;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => all(TRIES),
        ["hog", cpu] => spin(cpu.parse().expect("a processor's number")),
        ["of", version, tries] => measure(version, tries.parse().expect("a number of tries")),
        [tries] if tries.parse().is_ok_and(|tries: usize| tries > 0) => {
            all(tries.parse().expect("parsed just now"))
        }
        _ => {
            eprintln!("reaction: {words:?}: give the number of tries, or nothing");
            ExitCode::from(2)
        }
    }
}

fn again() -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.stdin(Stdio::null());
    command
}

/// Which sizer a process has is settled once: each version has a process.
fn all(tries: usize) -> ExitCode {
    println!(
        "version  smaller in {EVALUATIONS}  evaluations: median, most  ms: median, most  \
         whole again: ms"
    );
    for version in VERSIONS {
        let status = again().args(["of", version, &tries.to_string()]).status();
        if !status.expect("it runs again").success() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Until it is killed.
fn spin(cpu: usize) -> ! {
    let cpu = affinity(None).expect("a mask").iter().find(|one| one.index() == cpu);
    set_affinity(None, &CpuSet::single(cpu.expect("a processor of the mask"))).expect("bound");
    loop {
        std::hint::spin_loop();
    }
}

/// A process that spins on one processor, while this lives.
struct Hog(Child);

impl Hog {
    fn on(cpu: usize) -> Self {
        Self(again().args(["hog", &cpu.to_string()]).spawn().expect("another process"))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Some 200 us of work for each member.
///
/// # Safety
/// - Needs nothing.
unsafe fn work(_: *const (), _: Member) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
}

fn evaluations() -> u64 {
    asat::statistics().map_or(0, |statistics| statistics.evaluations + statistics.blind)
}

/// Forks regions until `is_enough` says so of the size that is granted, at most for `limit`:
/// evaluations and time that it took; `None`: too many.
fn until(
    most: usize,
    limit: Duration,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Option<(u64, Duration)> {
    let (begin, before) = (Instant::now(), evaluations());
    while begin.elapsed() < limit {
        let size = engine::grant_for(most);
        // SAFETY: - takes no data, and does not unwind.
        unsafe { Team::reserve(size).run(work, std::ptr::null()) };
        if is_enough(size) {
            return Some((evaluations() - before, begin.elapsed()));
        }
    }
    None
}

/// Forks regions until all of them had all processors for a while.
fn rest(most: usize) -> bool {
    let mut whole = Instant::now();
    until(most, 4 * LIMIT, |size| {
        if size < most {
            whole = Instant::now();
        }
        whole.elapsed() >= REST
    })
    .is_some()
}

fn measure(version: &str, tries: usize) -> ExitCode {
    let often = Duration::from_millis(100);
    let settings = match version {
        "paper" => Settings::paper().eval_interval(often),
        "reset" => Settings::reset().eval_interval(often),
        _ => Settings::default(),
    };
    assert!(asat::install(settings), "the first one");
    let most = engine::processors();
    let Some(last) = affinity(None).expect("a mask").last().filter(|_| most > 1) else {
        eprintln!("reaction: one processor: there is nothing to take away");
        return ExitCode::FAILURE;
    };
    let (mut smaller, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..tries {
        if !rest(most) {
            eprintln!("reaction: {version}: the team does not become whole: is the machine idle?");
            return ExitCode::FAILURE;
        }
        let hog = Hog::on(last.index());
        smaller.extend(until(most, LIMIT, |size| size < most));
        drop(hog);
        whole.extend(until(most, 4 * LIMIT, |size| size == most));
    }
    let soon = smaller.iter().filter(|(evaluations, _)| *evaluations <= EVALUATIONS).count();
    smaller.sort_unstable();
    let evaluations: Vec<u64> = smaller.iter().map(|(evaluations, _)| *evaluations).collect();
    let sorted = |times: &[(u64, Duration)]| {
        let mut times: Vec<u128> = times.iter().map(|(_, time)| time.as_millis()).collect();
        times.sort_unstable();
        times
    };
    let (times, back) = (sorted(&smaller), sorted(&whole));
    println!(
        "{version:8} {soon:3} of {tries:3}    {:>11}, {:<11} {:>8}, {:<8} {:>8}, {:<8} ({} never)",
        middle(&evaluations),
        last_of(&evaluations),
        middle(&times),
        last_of(&times),
        middle(&back),
        last_of(&back),
        tries - smaller.len(),
    );
    ExitCode::SUCCESS
}

fn middle<T: ToString>(sorted: &[T]) -> String {
    sorted.get(sorted.len() / 2).map_or("-".to_owned(), ToString::to_string)
}

fn last_of<T: ToString>(sorted: &[T]) -> String {
    sorted.last().map_or("-".to_owned(), ToString::to_string)
}
