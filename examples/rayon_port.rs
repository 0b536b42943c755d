//! A rayon program on the engine: what changes, line by line.
//!
//! Each pair of lines does the same, first as rayon's users write it, then on the engine's threads,
//! which follow what the program may use now. `cargo run --release --example rayon_port`.
//!
//! ```text
//! norm of 1000000 numbers: 577.35
//! 78498 primes below 1000000
//! sorted: 1000000 numbers
//! words: 5 different
//! regions 18 (18 of 2 threads); ...
//! ```

use nanothreads::{PerThread, Scope};
use nanothreads_rayon::OnEngine;
use rayon::prelude::*;
use std::collections::BTreeMap;

const SIZE: usize = 1_000_000;

fn main() {
    let numbers: Vec<f64> =
        (0..SIZE).into_par_iter().map(|i| i as f64 / SIZE as f64).on_engine().collect();
    //                                                       rayon: the same without `on_engine()`

    let norm = numbers.par_iter().zip(&numbers).map(|(a, b)| a * b).on_engine().sum::<f64>().sqrt();
    println!("norm of {SIZE} numbers: {norm:.2}");

    // rayon: (2..SIZE).into_par_iter().filter(|&n| is_prime(n)).count()
    let primes = (2..SIZE)
        .into_par_iter()
        .on_engine()
        .fold(|| 0, |count, n| count + usize::from(is_prime(n)));
    println!("{} primes below {SIZE}", primes.into_iter().sum::<usize>());

    let mut shuffled: Vec<usize> = (0..SIZE).map(|i| i * 7_919 % SIZE).collect();
    quicksort(&mut shuffled);
    assert!(shuffled.is_sorted());
    println!("sorted: {} numbers", shuffled.len());

    let text = ["fork", "join", "team", "fork", "group", "team", "fork", "task"];
    // rayon: thread_local::ThreadLocal, or a fold of maps
    let counts = PerThread::new(BTreeMap::new);
    // rayon: rayon::scope(|s| { for .. { s.spawn(|_| ..) } })
    nanothreads::scope(|s: &Scope<'_>| {
        for word in text {
            let counts = &counts;
            s.spawn(move |_| counts.with(|own| *own.entry(word).or_insert(0) += 1));
        }
    });
    let mut all = BTreeMap::new();
    for (word, count) in counts.into_values().flatten() {
        *all.entry(word).or_insert(0) += count;
    }
    assert_eq!(all["fork"], 3);
    println!("words: {} different", all.len());

    println!("{}", nanothreads::statistics());
}

fn is_prime(n: usize) -> bool {
    (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

fn quicksort<T: Ord + Send>(values: &mut [T]) {
    if values.len() < 2_000 {
        return values.sort_unstable();
    }
    let middle = values.len() / 2;
    values.select_nth_unstable(middle);
    let (left, right) = values.split_at_mut(middle);
    // rayon: rayon::join(..)
    nanothreads::join(|| quicksort(left), || quicksort(right));
}
