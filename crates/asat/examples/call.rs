//! What the call in front of each region costs while no evaluation is due.
//!
//! `cargo run --release -p nanothreads-asat --example call`: nanoseconds of one call, the median
//! and the quartiles of [`ROUNDS`] rounds of [`CALLS`] calls each, in turn with an empty loop,
//! which is subtracted. Rows: the look that the engine makes before a region
//! ([`asat::Asat::is_due`]), and the call of programs with threads of their own
//! ([`asat::adjust_threads`]).

use asat::{Asat, Settings};
use std::hint::black_box;
use std::time::{Duration, Instant};

const CALLS: u32 = 100_000;
const ROUNDS: usize = 101;

/// Nanoseconds of one of [`CALLS`] calls.
fn time(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn main() {
    // No evaluation falls due while it measures.
    let settings = || Settings::default().eval_interval(Duration::from_secs(3600));
    let asat = Asat::new(settings());
    assert!(asat::adjust_threads(2, settings) >= 1);
    let mut rows = [("is_due", Vec::new()), ("adjust_threads", Vec::new())];
    for _ in 0..ROUNDS {
        let empty = time(|| {
            black_box(());
        });
        rows[0].1.push(
            time(|| {
                black_box(black_box(&asat).is_due());
            }) - empty,
        );
        rows[1].1.push(
            time(|| {
                black_box(asat::adjust_threads(black_box(2), settings));
            }) - empty,
        );
    }
    for (name, times) in &mut rows {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[part * (ROUNDS - 1) / 4];
        println!("{name:16} {:6.2} ns ({:.2} to {:.2})", at(2), at(1), at(3));
    }
}
