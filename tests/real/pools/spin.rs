//! `std::thread`s that wait for each other by spinning: as many as there are processors, by
//! `available_parallelism`.
//!
//! As the other programs of this folder: the argument is the number of phases, each of which adds
//! up numbers that xorshift leads to, and ends when all threads are done. For each line on standard
//! input it prints one line of JSON, the seconds of the work and the sum, the same for any number
//! of threads. `OMP_NUM_THREADS=1`, which means nothing to it, makes it a program of one thread.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

const ITEMS: u32 = 8000;
const STEPS: u32 = 64;

fn part(phase: u32, index: u32, count: u32) -> u32 {
    let bound = |index: u32| (u64::from(ITEMS) * u64::from(index) / u64::from(count)) as u32;
    (bound(index)..bound(index + 1)).fold(0, |sum, item| sum.wrapping_add(value(phase, item)))
}

fn value(phase: u32, item: u32) -> u32 {
    let mut x = phase * ITEMS + item + 1;
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    x
}

/// A barrier at which threads spin, and nothing but that.
struct Barrier {
    count: usize,
    here: AtomicUsize,
    turn: AtomicUsize,
}

impl Barrier {
    fn wait(&self) {
        // Acquire: pairs with the Release store of the last thread of the barrier before.
        let turn = self.turn.load(Ordering::Acquire);
        // AcqRel: the last one to come sees what the others did before they came.
        if self.here.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            // Relaxed: the others look at it only after the store below.
            self.here.store(0, Ordering::Relaxed);
            // Release: pairs with the Acquire loads here.
            self.turn.store(turn + 1, Ordering::Release);
            return;
        }
        // Acquire: pairs with the Release store of the last thread.
        while self.turn.load(Ordering::Acquire) == turn {
            std::hint::spin_loop();
        }
    }
}

fn work(index: u32, phases: u32, count: u32, barrier: &Barrier, sum: &AtomicU32) {
    for phase in 0..phases {
        // Relaxed: the barrier orders it.
        sum.fetch_add(part(phase, index, count), Ordering::Relaxed);
        barrier.wait();
    }
}

fn main() {
    let phases: u32 = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let is_one = std::env::var("OMP_NUM_THREADS").is_ok_and(|value| value == "1");
    let most = std::thread::available_parallelism().unwrap().get();
    let count = if is_one { 1 } else { most as u32 };
    let barrier =
        Barrier { count: count as usize, here: AtomicUsize::new(0), turn: AtomicUsize::new(0) };
    let shared = Arc::new((barrier, AtomicU32::new(0)));
    // They sleep until there is work: only waits within the work spin.
    let words: Vec<_> = (1..count)
        .map(|index| {
            let (word, words) = std::sync::mpsc::channel::<()>();
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                while words.recv().is_ok() {
                    work(index, phases, count, &shared.0, &shared.1);
                }
            });
            word
        })
        .collect();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line.unwrap();
        let begin = Instant::now();
        // Relaxed: the channels order it.
        shared.1.store(0, Ordering::Relaxed);
        words.iter().for_each(|word| word.send(()).unwrap());
        work(0, phases, count, &shared.0, &shared.1);
        // Relaxed: the last barrier orders it.
        let sum = shared.1.load(Ordering::Relaxed);
        let seconds = begin.elapsed().as_secs_f64();
        println!("{{\"seconds\": {seconds:.6}, \"result\": [{sum}]}}");
    }
}
