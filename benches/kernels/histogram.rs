//! A histogram of bytes: a table for each chunk, added at the end.

use crate::bytes::{self, Table, add, count};
use criterion::Criterion;
use nanothreads::{PerThread, par_for};
use rayon::prelude::*;

const LENGTH: usize = 8 << 20;
const PART: usize = 64 << 10;

pub(crate) fn bench(criterion: &mut Criterion) {
    let bytes = bytes::input(LENGTH);
    let one = || count(&bytes);
    let ours = || par_for(0..LENGTH).reduce_chunks(Table::new(), |chunk| count(&bytes[chunk]), add);
    let stored = || {
        let tables = PerThread::new(|| vec![0; 256]);
        par_for(0..LENGTH).run_with(&tables, |own, i| own[usize::from(bytes[i])] += 1);
        tables.into_values().fold(Table::new(), add)
    };
    let theirs = || bytes.par_chunks(PART).map(count).reduce(Table::new, add);
    super::compare(
        criterion,
        "histogram",
        &[
            ("one thread", &one),
            ("nanothreads", &ours),
            ("nanothreads PerThread", &stored),
            ("rayon", &theirs),
        ],
        |a, b| a == b,
    );
}
