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

    /// One row of A times x. Two sums, so that one addition need not wait for the other.
    #[inline]
    fn times_row(&self, row: usize, x: &[f64]) -> f64 {
        let elements = self.row[row]..self.row[row + 1];
        let (values, columns) = (&self.value[elements.clone()], &self.column[elements]);
        let (values, last_value) = values.as_chunks::<2>();
        let (columns, last_column) = columns.as_chunks::<2>();
        let (mut even, mut odd) = (0.0, 0.0);
        for (value, column) in values.iter().zip(columns) {
            even += value[0] * x[column[0] as usize];
            odd += value[1] * x[column[1] as usize];
        }
        if let ([value], [column]) = (last_value, last_column) {
            even += value * x[*column as usize];
        }
        even + odd
    }

    /// q = A p for the rows from `first`; returns p times q.
    pub(super) fn multiply(&self, first: usize, p: &[f64], q: &mut [f64]) -> f64 {
        let mut along = 0.0;
        for (row, q) in (first..).zip(q) {
            *q = self.times_row(row, p);
            along += p[row] * *q;
        }
        along
    }

    /// The square of x - A z in these rows.
    pub(super) fn distance(&self, rows: Range<usize>, x: &[f64], z: &[f64]) -> f64 {
        rows.map(|row| (x[row] - self.times_row(row, z)).powi(2)).sum()
    }
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
