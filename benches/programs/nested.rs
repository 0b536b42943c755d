//! Loops inside loops, and loops inside the halves of a join.

use crate::harness::Case;
use crate::program::{Form, Program, cases, equal, grain, halves};
use nanothreads::{Schedule, groups, par_for};
use nanothreads_rayon::OnEngine;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::num::NonZero;
use std::ops::Range;

/// Iterations of the outer loops, one after the other, and of each inner one.
const OUTER: [usize; 3] = [2, 4, 8];
const INNER: usize = 12_000;

fn inner(outer: usize) -> Range<usize> {
    outer * INNER..(outer + 1) * INNER
}

fn add(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

pub(crate) fn loops() -> [Case; 3] {
    type Rows = Vec<Vec<u64>>;
    /// `all` runs an outer loop.
    fn rows(all: impl Fn(usize) -> Vec<u64>) -> Rows {
        OUTER.into_iter().map(all).collect()
    }
    fn loops(range: Range<usize>) -> u64 {
        par_for(range).reduce(0, grain, add)
    }
    fn on_engine(range: Range<usize>) -> u64 {
        range.into_par_iter().map(grain).on_engine().reduce(|| 0, add)
    }
    fn theirs(range: Range<usize>) -> u64 {
        range.into_par_iter().map(grain).reduce(|| 0, add)
    }
    cases(Program {
        name: "nested loops",
        input: || (),
        one: |()| rows(|n| (0..n).map(|row| inner(row).map(grain).fold(0, add)).collect()),
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|()| rows(|n| par_for(0..n).collect(|row| loops(inner(row))))),
            ),
            (
                "nanothreads groups",
                Form::Ours(|()| {
                    rows(|n| groups().equal(n).map(|group| loops(inner(group.index()))))
                }),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|()| {
                    rows(|n| {
                        let rows = (0..n).into_par_iter().map(|row| on_engine(inner(row)));
                        rows.on_engine().collect()
                    })
                }),
            ),
            (
                "rayon",
                Form::Rayon(|()| {
                    rows(|n| {
                        let rows = (0..n).into_par_iter().map(|row| theirs(inner(row)));
                        rows.collect()
                    })
                }),
            ),
        ],
    })
}

/// Iterations of both halves, and of the first of them.
const ALL: usize = 72_000;
const FIRST: usize = ALL / 8;

pub(crate) fn in_join() -> [Case; 3] {
    /// One of sixteen iterations has sixteen times the work of the others.
    fn uneven(i: usize) -> u64 {
        let count = if i.is_multiple_of(16) { 16 } else { 1 };
        (i..i + count).map(grain).fold(0, add)
    }
    fn one(range: Range<usize>) -> u64 {
        range.map(uneven).fold(0, add)
    }
    fn guided(range: Range<usize>) -> u64 {
        let guided = Schedule::Guided(NonZero::<usize>::MIN);
        par_for(range).schedule(guided).reduce(0, uneven, add)
    }
    fn on_engine(range: Range<usize>) -> u64 {
        range.into_par_iter().map(uneven).on_engine().reduce(|| 0, add)
    }
    fn ours(range: Range<usize>) -> u64 {
        par_for(range).reduce(0, uneven, add)
    }
    fn theirs(range: Range<usize>) -> u64 {
        range.into_par_iter().map(uneven).reduce(|| 0, add)
    }
    cases(Program {
        name: "uneven loops in a join",
        input: || (),
        one: |()| (one(0..FIRST), one(FIRST..ALL)),
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|()| nanothreads::join(|| ours(0..FIRST), || ours(FIRST..ALL))),
            ),
            (
                "nanothreads guided",
                Form::Ours(|()| nanothreads::join(|| guided(0..FIRST), || guided(FIRST..ALL))),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|()| {
                    nanothreads::join(|| on_engine(0..FIRST), || on_engine(FIRST..ALL))
                }),
            ),
            ("rayon", Form::Rayon(|()| rayon::join(|| theirs(0..FIRST), || theirs(FIRST..ALL)))),
            (
                "chili",
                Form::Chili(|scope, ()| {
                    scope.join(
                        |scope| halves(scope, 0..FIRST, 64, &one, &add),
                        |scope| halves(scope, FIRST..ALL, 64, &one, &add),
                    )
                }),
            ),
        ],
    })
}
