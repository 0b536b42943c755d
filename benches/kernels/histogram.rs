//! A histogram of bytes: a table for each chunk, added at the end.

use criterion::Criterion;
use nanothreads::{PerThread, par_for};
use rayon::prelude::*;

const LENGTH: usize = 8 << 20;
const PART: usize = 64 << 10;

type Table = Vec<u32>;

fn count(bytes: &[u8]) -> Table {
    let mut table = vec![0; 256];
    bytes.iter().for_each(|&byte| table[usize::from(byte)] += 1);
    table
}

fn add(mut a: Table, b: Table) -> Table {
    if a.is_empty() {
        return b;
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let bytes: Vec<u8> =
        (0..LENGTH as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as u8).collect();
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
