//! Quicksort: halves of unequal length, in parallel down to a few thousand elements.

use criterion::Criterion;

const LENGTH: u64 = 400_000;
/// Shorter parts are sorted by one thread.
const SHORT: usize = 4096;

fn input() -> Vec<u64> {
    (0..LENGTH).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)).collect()
}

/// Puts what is less than a pivot before it, and the pivot between.
fn split(data: &mut [u64]) -> (&mut [u64], &mut [u64]) {
    let (first, middle, last) = (data[0], data[data.len() / 2], data[data.len() - 1]);
    let pivot = first.max(middle).min(first.min(middle).max(last));
    let at = data.iter().position(|&x| x == pivot).unwrap_or(0);
    let end = data.len() - 1;
    data.swap(at, end);
    let mut less = 0;
    for i in 0..end {
        if data[i] < pivot {
            data.swap(i, less);
            less += 1;
        }
    }
    data.swap(less, end);
    let (low, high) = data.split_at_mut(less);
    (low, &mut high[1..])
}

type Join = fn(&mut [u64], &mut [u64]);

fn sort(data: &mut [u64], join: Join) {
    if data.len() <= SHORT {
        return data.sort_unstable();
    }
    let (low, high) = split(data);
    join(low, high);
}

fn one(low: &mut [u64], high: &mut [u64]) {
    sort(low, one);
    sort(high, one);
}

fn ours(low: &mut [u64], high: &mut [u64]) {
    nanothreads::join(|| sort(low, ours), || sort(high, ours));
}

fn theirs(low: &mut [u64], high: &mut [u64]) {
    rayon::join(|| sort(low, theirs), || sort(high, theirs));
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let sorted = |join: Join| {
        move || {
            let mut data = input();
            sort(&mut data, join);
            data
        }
    };
    super::compare(
        criterion,
        "quicksort",
        &[("one thread", &sorted(one)), ("nanothreads", &sorted(ours)), ("rayon", &sorted(theirs))],
        |a, b| a == b && a.is_sorted(),
    );
}
