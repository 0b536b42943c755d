//! Cholesky's factorisation by tiles: on one thread, as a graph of tasks with dependences, and by
//! phases of rayon's.

use nanothreads::{DataCell, scope};
use rayon::prelude::*;

/// Edge of a tile, and tiles on an edge of the matrix.
const EDGE: usize = 32;
const TILES: usize = 12;

pub(crate) type Tile = Vec<f64>;

pub(crate) fn input() -> Vec<Tile> {
    let value = |i: usize, j: usize| {
        if i == j { (EDGE * TILES) as f64 } else { 1.0 / (1 + i.abs_diff(j)) as f64 }
    };
    let tile = |number: usize| {
        let (row, column) = (number / TILES * EDGE, number % TILES * EDGE);
        (0..EDGE * EDGE).map(|e| value(row + e / EDGE, column + e % EDGE)).collect()
    };
    (0..TILES * TILES).map(tile).collect()
}

/// The factor of a tile on the diagonal.
fn factor(a: &mut Tile) {
    for k in 0..EDGE {
        let root = a[k * EDGE + k].sqrt();
        a[k * EDGE + k] = root;
        (k + 1..EDGE).for_each(|i| a[i * EDGE + k] /= root);
        for i in k + 1..EDGE {
            for j in k + 1..=i {
                a[i * EDGE + j] -= a[i * EDGE + k] * a[j * EDGE + k];
            }
        }
    }
}

/// A tile below the diagonal, by the factor above it.
fn solve(factor: &Tile, a: &mut Tile) {
    for r in 0..EDGE {
        for j in 0..EDGE {
            let known: f64 = (0..j).map(|k| a[r * EDGE + k] * factor[j * EDGE + k]).sum();
            a[r * EDGE + j] = (a[r * EDGE + j] - known) / factor[j * EDGE + j];
        }
    }
}

/// What two solved tiles take from the one where they meet.
fn update(x: &Tile, y: &Tile, a: &mut Tile) {
    for i in 0..EDGE {
        for j in 0..EDGE {
            a[i * EDGE + j] -= (0..EDGE).map(|k| x[i * EDGE + k] * y[j * EDGE + k]).sum::<f64>();
        }
    }
}

pub(crate) fn one(mut a: Vec<Tile>) -> Vec<Tile> {
    for k in 0..TILES {
        factor(&mut a[k * TILES + k]);
        let diagonal = a[k * TILES + k].clone();
        (k + 1..TILES).for_each(|i| solve(&diagonal, &mut a[i * TILES + k]));
        for i in k + 1..TILES {
            for j in k + 1..=i {
                let (x, y) = (a[i * TILES + k].clone(), a[j * TILES + k].clone());
                update(&x, &y, &mut a[i * TILES + j]);
            }
        }
    }
    a
}

pub(crate) fn ours(a: Vec<Tile>) -> Vec<Tile> {
    let a: Vec<DataCell<Tile>> = a.into_iter().map(DataCell::new).collect();
    let at = |i: usize, j: usize| &a[i * TILES + j];
    scope(|s| {
        for k in 0..TILES {
            let diagonal = at(k, k);
            s.task().writes(diagonal).spawn(move |_| factor(&mut diagonal.write()));
            for i in k + 1..TILES {
                let x = at(i, k);
                let task = s.task().reads(diagonal).writes(x);
                task.spawn(move |_| solve(&diagonal.read(), &mut x.write()));
            }
            for i in k + 1..TILES {
                for j in k + 1..=i {
                    let (x, y, z) = (at(i, k), at(j, k), at(i, j));
                    let task = s.task().reads(x).reads(y).writes(z);
                    task.spawn(move |_| update(&x.read(), &y.read(), &mut z.write()));
                }
            }
        }
    });
    a.into_iter().map(DataCell::into_inner).collect()
}

pub(crate) fn theirs(mut a: Vec<Tile>) -> Vec<Tile> {
    for k in 0..TILES {
        factor(&mut a[k * TILES + k]);
        let diagonal = std::mem::take(&mut a[k * TILES + k]);
        a.par_chunks_mut(TILES).skip(k + 1).for_each(|row| solve(&diagonal, &mut row[k]));
        a[k * TILES + k] = diagonal;
        let mut column: Vec<Tile> = (0..TILES).map(|_| Tile::new()).collect();
        for (i, x) in column.iter_mut().enumerate().skip(k + 1) {
            *x = std::mem::take(&mut a[i * TILES + k]);
        }
        a.par_iter_mut().enumerate().for_each(|(number, z)| {
            let (i, j) = (number / TILES, number % TILES);
            if i > k && j > k && j <= i {
                update(&column[i], &column[j], z);
            }
        });
        for (i, x) in column.into_iter().enumerate().skip(k + 1) {
            a[i * TILES + k] = x;
        }
    }
    a
}
