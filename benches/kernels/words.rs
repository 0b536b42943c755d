//! Counting words: a map for each part of a text, joined at the end.

use criterion::Criterion;
use nanothreads::{Schedule, par_for};
use rayon::prelude::*;
use std::collections::HashMap;

const WORDS: usize = 200_000;
/// Lines that a thread takes at a time.
const PART: usize = 256;

type Counts<'a> = HashMap<&'a str, u32>;

fn input() -> Vec<String> {
    let word = |i: usize| format!("word{}", (i * i + i / 3) % 1009 % (1 + i % 400));
    let line = |line: usize| (0..10).map(|k| word(line * 10 + k)).collect::<Vec<_>>().join(" ");
    (0..WORDS / 10).map(line).collect()
}

fn count(lines: &[String]) -> Counts<'_> {
    let mut counts = Counts::new();
    for word in lines.iter().flat_map(|line| line.split(' ')) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

fn add<'a>(mut a: Counts<'a>, mut b: Counts<'a>) -> Counts<'a> {
    if a.len() < b.len() {
        std::mem::swap(&mut a, &mut b);
    }
    for (word, number) in b {
        *a.entry(word).or_default() += number;
    }
    a
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let lines = input();
    let lines = &lines[..];
    let one = || count(lines);
    let ours = || {
        let part = |chunk: std::ops::Range<usize>| count(&lines[chunk]);
        let parts = par_for(0..lines.len()).schedule(Schedule::guided(PART));
        parts.reduce_chunks(Counts::new(), part, add)
    };
    let theirs = || lines.par_chunks(PART).map(count).reduce(Counts::new, add);
    super::compare(
        criterion,
        "word count",
        &[("one thread", &one), ("nanothreads", &ours), ("rayon", &theirs)],
        |a, b| a == b,
    );
}
