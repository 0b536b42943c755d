//! The sparse matrix: the sum over i of w(i) v(i) v(i)^T, w a geometric sequence from 1 to 0.1,
//! v(i) sparse random vectors whose element i is 1/2; plus (0.1 - shift) on the diagonal.

use std::iter;
use std::ops::Range;

use crate::loops::Loops;
use crate::random::Random;

const SEED: u64 = 314_159_265;
const RCOND: f64 = 0.1;

/// A row, or column, of the matrix: 75,000 at most.
type Index = u32;

/// Rows one after another, each with its columns in ascending order.
pub(super) struct Matrix {
    /// Where each row begins, and the end of the last one.
    row: Vec<usize>,
    column: Vec<Index>,
    value: Vec<f64>,
}

/// Some rows of a matrix.
#[derive(Clone, Default)]
struct Piece {
    counts: Vec<usize>,
    column: Vec<Index>,
    value: Vec<f64>,
}

impl Piece {
    fn append(mut self, mut other: Self) -> Self {
        self.counts.append(&mut other.counts);
        self.column.append(&mut other.column);
        self.value.append(&mut other.value);
        self
    }
}

impl Matrix {
    /// The matrix of a class.
    pub(super) fn new(loops: &impl Loops, n: usize, nonzeros: usize, shift: f64) -> Self {
        // The benchmark drops the first number.
        let mut random = Random::skip(SEED, 1);
        let vectors: Vec<_> = (0..n).map(|own| vector(own, n, nonzeros, &mut random)).collect();
        let ratio = RCOND.powf(1.0 / n as f64);
        let weights: Vec<f64> = iter::successors(Some(1.0), |w| Some(w * ratio)).take(n).collect();
        // Which vectors have an element in each row, and its value.
        let mut holders = vec![Vec::new(); n];
        for (vector, elements) in vectors.iter().enumerate() {
            for &(place, value) in elements {
                holders[place].push((vector, value));
            }
        }
        let make = |rows: Range<usize>| {
            let mut piece = Piece::default();
            let mut sum = vec![0.0; n];
            let mut is_seen = vec![false; n];
            let mut columns = Vec::new();
            for row in rows {
                for &(vector, value) in &holders[row] {
                    let scale = weights[vector] * value;
                    for &(column, value) in &vectors[vector] {
                        if !is_seen[column] {
                            is_seen[column] = true;
                            columns.push(column);
                        }
                        sum[column] += scale * value;
                    }
                }
                columns.sort_unstable();
                piece.counts.push(columns.len());
                for column in columns.drain(..) {
                    let diagonal = if column == row { RCOND - shift } else { 0.0 };
                    piece.column.push(column as Index);
                    piece.value.push(sum[column] + diagonal);
                    sum[column] = 0.0;
                    is_seen[column] = false;
                }
            }
            piece
        };
        let Piece { counts, column, value } =
            loops.reduce(0..n, Piece::default(), make, Piece::append);
        let ends = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        Self { row: iter::once(0).chain(ends).collect(), column, value }
    }

    /// The values and columns of each row from `first` on.
    #[inline(always)]
    fn rows(&self, first: usize, count: usize) -> impl Iterator<Item = (&[f64], &[Index])> {
        let ends = &self.row[first..=first + count];
        let (mut values, mut columns) = (&self.value[ends[0]..], &self.column[ends[0]..]);
        ends.windows(2).map(move |ends| {
            let count = ends[1] - ends[0];
            let value = values.split_off(..count).expect("a row ends where the next one begins");
            let column = columns.split_off(..count).expect("as many columns as values");
            (value, column)
        })
    }

    /// q = A p for the rows from `first`; returns p times q.
    pub(super) fn multiply(&self, first: usize, p: &[f64], q: &mut [f64]) -> f64 {
        let mut along = 0.0;
        let rows = self.rows(first, q.len());
        for ((q, own), (values, columns)) in q.iter_mut().zip(&p[first..]).zip(rows) {
            *q = product(values, columns, p);
            along += own * *q;
        }
        along
    }

    /// The square of x - A z in these rows.
    pub(super) fn distance(&self, rows: Range<usize>, x: &[f64], z: &[f64]) -> f64 {
        let own = &x[rows.clone()];
        own.iter()
            .zip(self.rows(rows.start, rows.len()))
            .map(|(own, (values, columns))| (own - product(values, columns, z)).powi(2))
            .sum()
    }
}

/// A row times x. Two sums, so that one addition need not wait for the other; eight elements at a
/// time, since each column has to be checked.
#[inline(always)]
fn product(values: &[f64], columns: &[Index], x: &[f64]) -> f64 {
    let mut sums = [0.0; 2];
    let mut add = |value: &[f64; 2], column: &[Index; 2]| {
        let x = column.map(|column| x[column as usize]);
        sums = [sums[0] + value[0] * x[0], sums[1] + value[1] * x[1]];
    };
    let (values, last_value) = values.as_chunks::<2>();
    let (columns, last_column) = columns.as_chunks::<2>();
    let (fours, value) = values.as_chunks::<4>();
    let (four_columns, column) = columns.as_chunks::<4>();
    for (value, column) in fours.iter().zip(four_columns) {
        value.iter().zip(column).for_each(|(value, column)| add(value, column));
    }
    value.iter().zip(column).for_each(|(value, column)| add(value, column));
    let [mut even, odd] = sums;
    if let ([value], [column]) = (last_value, last_column) {
        even += value * x[*column as usize];
    }
    even + odd
}

/// A vector with `nonzeros` random elements at random places; what falls outside of the vector or
/// on an element that exists is drawn again. Then element `own` becomes 1/2.
fn vector(own: usize, n: usize, nonzeros: usize, random: &mut Random) -> Vec<(usize, f64)> {
    let span = n.next_power_of_two() as f64;
    let mut elements: Vec<(usize, f64)> = Vec::with_capacity(nonzeros + 1);
    while elements.len() < nonzeros {
        let value = random.next();
        let place = (span * random.next()) as usize;
        if place < n && elements.iter().all(|element| element.0 != place) {
            elements.push((place, value));
        }
    }
    match elements.iter_mut().find(|element| element.0 == own) {
        Some(element) => element.1 = 0.5,
        None => elements.push((own, 0.5)),
    }
    elements
}
