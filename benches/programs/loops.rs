//! Loops over a range: a sum, vectors, rows of uneven cost, a table.

use crate::bytes::{self, Table, add, count};
use crate::escape::row;
use crate::harness::Case;
use crate::program::{Form, Program, cases, equal, halves};
use nanothreads::{PerThread, Schedule, par_chunks_mut, par_for};
use nanothreads_rayon::OnEngine;
use orx_parallel::{IntoParIter, IterIntoParIter, Par};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

const TERMS: usize = 8 << 20;

fn term(i: usize) -> u64 {
    let mixed = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) ^ (mixed & 0xFFFF)
}

fn terms(range: Range<usize>) -> u64 {
    range.map(term).sum()
}

pub(crate) fn sum() -> [Case; 3] {
    cases(Program {
        name: "sum of a range",
        input: || TERMS,
        one: |n| terms(0..n),
        is_right: equal,
        forms: vec![
            ("nanothreads reduce", Form::Ours(|n| par_for(0..n).reduce(0, term, |a, b| a + b))),
            (
                "nanothreads reduce_chunks",
                Form::Ours(|n| par_for(0..n).reduce_chunks(0, terms, |a, b| a + b)),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|n| (0..n).into_par_iter().map(term).on_engine().sum()),
            ),
            ("rayon", Form::Rayon(|n| (0..n).into_par_iter().map(term).sum())),
            ("orx-parallel", Form::Plain(|n| (0..n).into_par().num_threads(2).map(term).sum())),
            ("chili", Form::Chili(|scope, n| halves(scope, 0..n, n / 16, &terms, &|a, b| a + b))),
            (
                "fork_union",
                Form::ForkUnion(|pool, n| {
                    let sum = AtomicU64::new(0);
                    drop(pool.for_slices(n, |prong, count| {
                        let range = prong.task_index..prong.task_index + count;
                        // ORDERING: Relaxed - read after the pool has joined its threads.
                        sum.fetch_add(terms(range), Relaxed);
                    }));
                    sum.into_inner()
                }),
            ),
            (
                "std threads",
                Form::Plain(|n| {
                    thread::scope(|s| {
                        let upper = s.spawn(|| terms(n / 2..n));
                        terms(0..n / 2) + upper.join().expect("a sum does not panic")
                    })
                }),
            ),
        ],
    })
}

fn wave(i: usize) -> f64 {
    (i as f64).sqrt().sin()
}

pub(crate) fn map() -> [Case; 3] {
    cases(Program {
        name: "map to a Vec",
        input: || 400_000,
        one: |n: usize| (0..n).map(wave).collect::<Vec<f64>>(),
        is_right: equal,
        forms: vec![
            ("nanothreads", Form::Ours(|n| par_for(0..n).collect(wave))),
            (
                "nanothreads-rayon",
                Form::Ours(|n| (0..n).into_par_iter().map(wave).on_engine().collect()),
            ),
            ("rayon", Form::Rayon(|n| (0..n).into_par_iter().map(wave).collect())),
            ("orx-parallel", Form::Plain(|n| (0..n).into_par().num_threads(2).map(wave).collect())),
        ],
    })
}

fn chosen(i: usize) -> Option<u64> {
    Some(term(i)).filter(|value| value % 3 == 0)
}

pub(crate) fn filter() -> [Case; 3] {
    cases(Program {
        name: "filter to a Vec",
        input: || 2_000_000,
        one: |n: usize| (0..n).filter_map(chosen).collect::<Vec<u64>>(),
        is_right: equal,
        forms: vec![
            ("nanothreads", Form::Ours(|n| par_for(0..n).filter_map(chosen))),
            (
                "nanothreads-rayon",
                Form::Ours(|n| (0..n).into_par_iter().on_engine().filter_map(chosen)),
            ),
            ("rayon", Form::Rayon(|n| (0..n).into_par_iter().filter_map(chosen).collect())),
            (
                "orx-parallel",
                Form::Plain(|n| (0..n).into_par().num_threads(2).filter_map(chosen).collect()),
            ),
        ],
    })
}

const WIDTH: usize = 256;
const HEIGHT: usize = 192;

pub(crate) fn mandelbrot() -> [Case; 3] {
    fn paint(y: usize, pixels: &mut [u16]) {
        row(y, HEIGHT, pixels);
    }
    cases(Program {
        name: "mandelbrot",
        input: || vec![0; WIDTH * HEIGHT],
        one: |mut image| {
            image.chunks_mut(WIDTH).enumerate().for_each(|(y, pixels)| paint(y, pixels));
            image
        },
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|mut image| {
                    par_chunks_mut(&mut image, WIDTH).run(paint);
                    image
                }),
            ),
            (
                "nanothreads pure",
                Form::Ours(|mut image| {
                    par_chunks_mut(&mut image, WIDTH).schedule(Schedule::PURE).run(paint);
                    image
                }),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|mut image| {
                    let rows = image.par_chunks_mut(WIDTH).enumerate();
                    rows.on_engine().for_each(|(y, pixels)| paint(y, pixels));
                    image
                }),
            ),
            (
                "rayon",
                Form::Rayon(|mut image| {
                    let rows = image.par_chunks_mut(WIDTH).enumerate();
                    rows.for_each(|(y, pixels)| paint(y, pixels));
                    image
                }),
            ),
            (
                "orx-parallel",
                Form::Plain(|mut image| {
                    let rows = image.chunks_mut(WIDTH).enumerate();
                    let rows = rows.iter_into_par().num_threads(2);
                    rows.for_each(|(y, pixels)| paint(y, pixels));
                    image
                }),
            ),
        ],
    })
}

const BYTES: usize = 8 << 20;
/// Bytes that a thread takes at a time where the engine does not say.
const PART: usize = 64 << 10;

pub(crate) fn histogram() -> [Case; 3] {
    static INPUT: LazyLock<Vec<u8>> = LazyLock::new(|| bytes::input(BYTES));
    cases(Program {
        name: "histogram",
        input: || INPUT.as_slice(),
        one: count,
        is_right: equal,
        forms: vec![
            (
                "nanothreads reduce_chunks",
                Form::Ours(|bytes| {
                    let part = |chunk| count(&bytes[chunk]);
                    par_for(0..bytes.len()).reduce_chunks(Table::new(), part, add)
                }),
            ),
            (
                "nanothreads PerThread",
                Form::Ours(|bytes| {
                    let tables = PerThread::new(|| vec![0; 256]);
                    par_for(0..bytes.len()).run_chunks(|chunk| {
                        tables.with(|own: &mut Table| {
                            bytes[chunk].iter().for_each(|&byte| own[usize::from(byte)] += 1);
                        });
                    });
                    tables.into_values().fold(Table::new(), add)
                }),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|bytes| {
                    bytes.par_chunks(PART).map(count).on_engine().reduce(Table::new, add)
                }),
            ),
            (
                "rayon",
                Form::Rayon(|bytes| bytes.par_chunks(PART).map(count).reduce(Table::new, add)),
            ),
            (
                "orx-parallel",
                Form::Plain(|bytes| {
                    let parts = (0..bytes.len() / PART).into_par().num_threads(2);
                    let tables = parts.map(|at| count(&bytes[at * PART..(at + 1) * PART]));
                    tables.reduce(add).unwrap_or_default()
                }),
            ),
            (
                "chili",
                Form::Chili(|scope, bytes| {
                    halves(scope, 0..bytes.len(), PART, &|part| count(&bytes[part]), &add)
                }),
            ),
        ],
    })
}
