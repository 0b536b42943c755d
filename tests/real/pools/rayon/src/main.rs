//! Loops on rayon's global pool, as large as rayon makes it.
//!
//! What it computes and how it is spoken to is said in `spin.rs`.

use std::io::BufRead;
use std::time::Instant;

use rayon::prelude::*;

const ITEMS: u32 = 8000;
const STEPS: u32 = 64;

fn value(phase: u32, item: u32) -> u32 {
    let mut x = phase * ITEMS + item + 1;
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    x
}

fn work(phases: u32) -> u32 {
    let of = |phase| {
        let values = (0..ITEMS).into_par_iter().map(|item| value(phase, item));
        values.reduce(|| 0, u32::wrapping_add)
    };
    (0..phases).fold(0, |sum, phase| sum.wrapping_add(of(phase)))
}

fn main() {
    let phases: u32 = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    if std::env::var("OMP_NUM_THREADS").is_ok_and(|value| value == "1") {
        rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    }
    // The pool is made by its first use.
    work(1);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line.unwrap();
        let begin = Instant::now();
        let sum = work(phases);
        let seconds = begin.elapsed().as_secs_f64();
        println!("{{\"seconds\": {seconds:.6}, \"result\": [{sum}]}}");
    }
}
