//! Short regions while another process is pinned to one of the program's processors and always
//! busy.
//!
//! # Question, and what refutes the claim
//! A region of 10 us of work, 5 us for each of two threads, costs at most twice its sequential time
//! on average, with the hog on the worker's or on the master's processor, bound and unbound.
//! Refuted when `x alone` of a row of ours is above 2. Peers, and the sequential program, stand in
//! the same table.
//!
//! The time is the mean of the regions of 0.25 s, so that every time slice for which a thread waits
//! counts, some dozens of them; `p50 us` and `p99 us` say how it is spread. `x alone` is the mean
//! over the time of the same work on one thread without the hog, from the same sample. How samples
//! are taken: `benches/README.md`.

#[path = "../harness/mod.rs"]
mod harness;

use harness::regions::{self, count, counted};
use harness::sample::{Measure, Subject};
use harness::situation::Hog;
use harness::{Bar, Bench, Case, Engine, Runtime, median};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Steps of a part: about 5 us.
const STEPS: u32 = 4500;
/// Time with the hog before what counts: engines learn, and the kernel's scheduler too.
const SETTLE: Duration = Duration::from_millis(100);
const SAMPLE: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    // ORDERING: Relaxed - read by the same thread.
    regions::SHRINKS.store(true, Relaxed);
    let cases = [
        ("no hog", None),
        ("hog on the worker's processor", Some(1)),
        ("hog on the master's processor", Some(0)),
    ];
    let cases = cases.map(|(name, at)| {
        let mut engines = regions::engines(part, || counted(2, 1));
        let sequential = |_| {
            let run = || {
                part(0);
                part(1);
            };
            Ok(Subject::new(run, counted(2, 1)))
        };
        engines.insert(2, Engine::new("sequential", Runtime::Crate, sequential));
        Case {
            name: name.into(),
            measure: beside_hog(at),
            extras: &["x alone", "p50 us", "p99 us"],
            engines,
            bar: at.map(|_| Bar::Extra { index: 1, limit: 2.0 }),
        }
    });
    harness::run(Bench { name: "hog", cases: cases.into(), seconds: 220.0, programs: false })
}

/// A chain of dependent steps, which no compiler can shorten: work, not time.
fn work(seed: u32) {
    let mut state = u64::from(seed) | 1;
    for _ in 0..STEPS {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(state);
}

extern "C" fn part(part: u32) {
    count(part);
    work(part);
}

/// Mean time of a region while a hog runs on the processor of this number.
fn beside_hog(at: Option<usize>) -> Measure {
    Box::new(move |subject| {
        let alone = alone();
        let hog = at.map(Hog::start);
        let begin = Instant::now();
        while begin.elapsed() < SETTLE {
            subject.call();
        }
        let begin = Instant::now();
        let mut times = Vec::new();
        while begin.elapsed() < SAMPLE {
            let start = Instant::now();
            subject.call();
            times.push(start.elapsed().as_secs_f64() * 1e9);
        }
        drop(hog);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let middle = median(&mut times);
        // Sorted by `median`.
        let high = times[times.len() * 99 / 100];
        vec![mean, mean / alone, middle / 1e3, high / 1e3]
    })
}

/// Time of both parts on this thread.
fn alone() -> f64 {
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            let start = Instant::now();
            work(0);
            work(1);
            start.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    median(&mut times)
}
