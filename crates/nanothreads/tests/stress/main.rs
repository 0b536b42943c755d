//! Random programs of everything that the engine has, each against a sequential oracle: regions,
//! groups and loops in any nesting, joins, tasks with dependences, several masters, panics, sizes
//! that change, forks, teams larger than the machine.
//!
//! A program is a tree of steps, made from a seed before it runs. Each step has a value that does
//! not depend on the schedule: once computed by recursion on one thread, once by the engine.
//!
//! Settings: `NANOS_STRESS_SEED` (the first program's seed; the next ones count up),
//! `NANOS_STRESS_SECONDS` (default 3), `NANOS_STRESS_PROGRAMS` (at most this many),
//! `NANOS_STRESS_LONGEST` (seconds after which a program hangs, default 120), `NANOS_STRESS_SUPPLY`
//! (`lines` or `broadcast` for all teams that say nothing else). The seed of a program that fails
//! or hangs is printed; another schedule may still pass with it.
#![cfg(not(loom))]

mod faults;
mod loops;
mod outside;
mod overlapped;
mod process;
mod random;
mod recursion;
mod region;
mod sizer;
mod slots;
mod step;
mod tasks;
mod teams;
mod watched;

use nanothreads::papers::Dispatch;
use random::Random;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use step::{Budget, Step};

/// A program that takes more seconds hangs; the slowest machine of the proof lanes is an emulated
/// one.
const LONGEST: u64 = 120;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}; give a whole number")))
}

/// Ends the test program when one stress program takes too long: threads that wait for each other
/// cannot be unwound.
#[derive(Clone, Default)]
struct Watchdog(Arc<(Mutex<Option<u64>>, Condvar)>);

impl Watchdog {
    fn start(&self, longest: Duration) {
        let Self(shared) = self.clone();
        std::thread::spawn(move || {
            let (seed, changed) = &*shared;
            let mut now = seed.lock().expect("no thread panics with the lock");
            while let Some(seed) = *now {
                let is_same = |other: &mut Option<u64>| *other == Some(seed);
                let (next, late) =
                    changed.wait_timeout_while(now, longest, is_same).expect("as above");
                if late.timed_out() {
                    eprintln!("hangs for {} s: NANOS_STRESS_SEED={seed}", longest.as_secs());
                    watched::report();
                    std::process::abort();
                }
                now = next;
            }
        });
    }

    fn note(&self, seed: Option<u64>) {
        *self.0.0.lock().expect("no thread panics with the lock") = seed;
        self.0.1.notify_all();
    }
}

// One test in this program: what it forks would otherwise be a copy of a process in which another
// test is at work.
#[test]
fn random_programs_compute_what_one_thread_computes() {
    sizer::remember_mask();
    let dispatch = match std::env::var("NANOS_STRESS_SUPPLY").as_deref() {
        Ok("lines") => Dispatch::Lines,
        Ok("broadcast") => Dispatch::Broadcast,
        Ok(other) => panic!("NANOS_STRESS_SUPPLY={other}: give lines or broadcast"),
        Err(_) => Dispatch::Lines,
    };
    assert!(nanothreads::builder().dispatch(dispatch).sizer(sizer::Changing).install().is_ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    // Short enough to be typed.
    let first = number("NANOS_STRESS_SEED").unwrap_or(now / 1000 % 1_000_000_000);
    let time = Duration::from_secs(number("NANOS_STRESS_SECONDS").unwrap_or(3));
    let most = number("NANOS_STRESS_PROGRAMS").unwrap_or(u64::MAX);
    println!("NANOS_STRESS_SEED={first}");
    let (watchdog, begin) = (Watchdog::default(), Instant::now());
    watchdog.note(Some(first));
    watchdog.start(Duration::from_secs(number("NANOS_STRESS_LONGEST").unwrap_or(LONGEST)));
    let (mut programs, mut steps, mut slowest) = (0, 0, (Duration::ZERO, first));
    while programs < most && (programs == 0 || begin.elapsed() < time) {
        let seed = first.wrapping_add(programs);
        watchdog.note(Some(seed));
        let program = Step::program(&mut Random::new(seed), Budget::WHOLE);
        steps += program.count();
        let (start, expected) = (Instant::now(), program.expected());
        assert_eq!(
            program.run(),
            expected,
            "wrong result: NANOS_STRESS_SEED={seed} NANOS_STRESS_PROGRAMS=1\n{program:#?}"
        );
        slowest = slowest.max((start.elapsed(), seed));
        programs += 1;
    }
    watchdog.note(None);
    println!(
        "{programs} programs of {steps} steps right in {:.1} s; the slowest, seed {}, took {:.0} \
         ms",
        begin.elapsed().as_secs_f64(),
        slowest.1,
        slowest.0.as_secs_f64() * 1e3
    );
}
