//! Quicksort: halves of unequal length, in parallel down to a few thousand elements.

use crate::partition::{SHORT, input, split};
use criterion::Criterion;

const LENGTH: u64 = 400_000;

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
            let mut data = input(LENGTH);
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
