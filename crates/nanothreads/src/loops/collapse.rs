//! Loops over two or three dimensions, dealt as one.

use super::{ParFor, Schedule, par_for};
use std::ops::Range;

/// A pair of nested loops to be run in parallel; made by [`par_for_2d`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct ParFor2d {
    rows: Range<usize>,
    columns: Range<usize>,
    flat: ParFor,
}

/// A pair of nested loops whose iterations are dealt as one range, the last dimension running
/// fastest: also loops of few rows keep all members busy.
///
/// ```
/// use nanothreads::{Schedule, par_for_2d};
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let product: Vec<AtomicUsize> = (0..3 * 500).map(|_| AtomicUsize::new(0)).collect();
/// par_for_2d(0..3, 0..500).schedule(Schedule::Factoring).run(|i, j| product[i * 500 + j].store(i * j, Relaxed));
/// assert_eq!(product[2 * 500 + 499].load(Relaxed), 998);
/// ```
///
/// # Panics
/// When there are more iterations than `usize` counts.
#[track_caller]
pub fn par_for_2d(rows: Range<usize>, columns: Range<usize>) -> ParFor2d {
    let flat = par_for(0..iterations("par_for_2d", &[&rows, &columns]));
    ParFor2d { rows, columns, flat }
}

impl ParFor2d {
    /// Deals the iterations by `schedule`.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { flat: self.flat.schedule(schedule), ..self }
    }

    /// Runs `body` once for each pair.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run<F: Fn(usize, usize) + Sync>(self, body: F) {
        self.run_rows(|i, columns| columns.for_each(|j| body(i, j)));
    }

    /// Runs `body` for each row, or part of a row, with the columns that are dealt together: an
    /// inner loop of the program's own.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run_rows<F: Fn(usize, Range<usize>) + Sync>(self, body: F) {
        let Self { rows, columns, flat } = self;
        flat.run_chunks(|chunk| {
            for_each_row(chunk, columns.len(), |row, part| {
                body(rows.start + row, columns.start + part.start..columns.start + part.end);
            });
        });
    }
}

/// Three nested loops to be run in parallel; made by [`par_for_3d`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct ParFor3d {
    outer: Range<usize>,
    middle: Range<usize>,
    inner: Range<usize>,
    flat: ParFor,
}

/// Three nested loops whose iterations are dealt as one range, the last dimension running fastest.
///
/// ```
/// use nanothreads::par_for_3d;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let volume = AtomicUsize::new(0);
/// par_for_3d(0..10, 5..10, 0..100).run_rows(|_, _, inner| {
///     volume.fetch_add(inner.len(), Relaxed);
/// });
/// assert_eq!(volume.into_inner(), 5_000);
/// ```
///
/// # Panics
/// When there are more iterations than `usize` counts.
#[track_caller]
pub fn par_for_3d(outer: Range<usize>, middle: Range<usize>, inner: Range<usize>) -> ParFor3d {
    let flat = par_for(0..iterations("par_for_3d", &[&outer, &middle, &inner]));
    ParFor3d { outer, middle, inner, flat }
}

impl ParFor3d {
    /// Deals the iterations by `schedule`.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { flat: self.flat.schedule(schedule), ..self }
    }

    /// Runs `body` once for each triple.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run<F: Fn(usize, usize, usize) + Sync>(self, body: F) {
        self.run_rows(|i, j, inner| inner.for_each(|k| body(i, j, k)));
    }

    /// Runs `body` for each row, or part of a row, of the inner loop.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run_rows<F: Fn(usize, usize, Range<usize>) + Sync>(self, body: F) {
        let Self { outer, middle, inner, flat } = self;
        flat.run_chunks(|chunk| {
            for_each_row(chunk, inner.len(), |row, part| {
                let (i, j) = (outer.start + row / middle.len(), middle.start + row % middle.len());
                body(i, j, inner.start + part.start..inner.start + part.end);
            });
        });
    }
}

/// Iterations of all dimensions together.
#[track_caller]
fn iterations(called: &str, ranges: &[&Range<usize>]) -> usize {
    // An empty dimension makes an empty loop, however long the others are.
    if ranges.iter().any(|range| range.is_empty()) {
        return 0;
    }
    let product =
        ranges.iter().try_fold(1_usize, |product, range| product.checked_mul(range.len()));
    let Some(product) = product else {
        panic!("{called}: {ranges:?} are more than {} iterations: split the loop", usize::MAX)
    };
    product
}

/// Splits a chunk of the flat range into rows of `width`.
fn for_each_row(chunk: Range<usize>, width: usize, mut body: impl FnMut(usize, Range<usize>)) {
    let mut begin = chunk.start;
    let (mut row, mut column) = (begin / width, begin % width);
    while begin < chunk.end {
        let part = (width - column).min(chunk.end - begin);
        body(row, column..column + part);
        begin += part;
        (row, column) = (row + 1, 0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_of_a_chunk_are_its_iterations(begin in 0_usize..200, length in 0_usize..200, width in 1_usize..30) {
            let mut flat = Vec::new();
            for_each_row(begin..begin + length, width, |row, columns| {
                assert!(!columns.is_empty() && columns.end <= width);
                flat.extend(columns.map(|column| row * width + column));
            });
            prop_assert_eq!(flat, (begin..begin + length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn dimensions_that_overflow_are_refused_and_empty_ones_are_not() {
        assert_eq!(iterations("test", &[&(0..usize::MAX), &(0..3), &(5..5)]), 0);
        let refused = std::panic::catch_unwind(|| par_for_2d(0..usize::MAX, 0..2));
        let text = refused.expect_err("too many iterations");
        let text = text.downcast_ref::<String>().expect("formatted");
        assert!(text.contains("par_for_2d") && text.contains("split the loop"), "{text}");
    }
}
