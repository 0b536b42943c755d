//! Loops with order: blocks whose output is in order, and a table in which each block needs its
//! neighbours.

use crate::harness::Case;
use crate::program::{Form, Program, cases, equal, grain, halves};
use nanothreads::{par_for, pipeline, scope};
use nanothreads_rayon::OnEngine;
use orx_parallel::{IntoParIter, Par};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

const BLOCKS: usize = 512;

/// The text of a block: some 9 us.
fn block(number: usize) -> String {
    let mut text = String::new();
    for i in 0..200 {
        // A string takes everything.
        let _ = write!(text, "{} ", grain(number * 200 + i) % 10_000);
    }
    text
}

pub(crate) fn ordered() -> [Case; 3] {
    cases(Program {
        name: "ordered loop",
        input: || (),
        one: |()| (0..BLOCKS).map(block).collect::<String>(),
        is_right: equal,
        forms: vec![
            (
                "nanothreads ordered",
                Form::Ours(|()| {
                    let all = Mutex::new(String::new());
                    par_for(0..BLOCKS).ordered(|number, order| {
                        let text = block(number);
                        order.wait_turn(|| {
                            all.lock().expect("no block panics").push_str(&text);
                        });
                    });
                    all.into_inner().expect("no block panics")
                }),
            ),
            ("nanothreads collect", Form::Ours(|()| par_for(0..BLOCKS).collect(block).concat())),
            (
                "nanothreads-rayon",
                Form::Ours(|()| {
                    let blocks = (0..BLOCKS).into_par_iter().map(block).on_engine();
                    blocks.collect::<Vec<String>>().concat()
                }),
            ),
            (
                "rayon",
                Form::Rayon(|()| {
                    let blocks = (0..BLOCKS).into_par_iter().map(block);
                    blocks.collect::<Vec<String>>().concat()
                }),
            ),
            (
                "orx-parallel",
                Form::Plain(|()| {
                    let blocks = (0..BLOCKS).into_par().num_threads(2);
                    let blocks: Vec<String> = blocks.map(block).collect();
                    blocks.concat()
                }),
            ),
        ],
    })
}

/// Length of both sequences, and of the edge of a tile.
const LENGTH: usize = 2048;
const EDGE: usize = 128;
const TILES: usize = LENGTH / EDGE;
/// Of a row of the table, which has one of zeroes before the first.
const WIDTH: usize = LENGTH + 1;

type Cells = Vec<AtomicU16>;

/// One of four letters.
fn letter(sequence: usize, at: usize) -> u64 {
    (((at + 1) * (sequence * 2 + 1)) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62
}

/// Both sequences, and the lengths of the longest common subsequences of their beginnings.
struct Longest {
    sequences: [Vec<u64>; 2],
    cells: Cells,
}

impl Longest {
    fn new() -> Self {
        let sequence = |number| (0..LENGTH).map(|at| letter(number, at)).collect();
        let cells = (0..WIDTH * WIDTH).map(|_| AtomicU16::new(0)).collect();
        Self { sequences: [sequence(0), sequence(1)], cells }
    }

    /// These rows and columns of the table, whose numbers begin with 0.
    fn fill(&self, rows: Range<usize>, columns: Range<usize>) {
        // ORDERING: Relaxed - one thread writes a cell, and the engine orders a tile after those
        // that it needs.
        let at = |row: usize, column: usize| self.cells[row * WIDTH + column].load(Relaxed);
        for row in rows {
            for column in columns.clone() {
                let value = if self.sequences[0][row] == self.sequences[1][column] {
                    at(row, column) + 1
                } else {
                    at(row, column + 1).max(at(row + 1, column))
                };
                self.cells[(row + 1) * WIDTH + column + 1].store(value, Relaxed);
            }
        }
    }

    fn tile(&self, row: usize, column: usize) {
        self.fill(row * EDGE..(row + 1) * EDGE, column * EDGE..(column + 1) * EDGE);
    }

    /// Each diagonal after the one before it; `all` runs the tiles of these rows.
    fn by_diagonals(self, mut all: impl FnMut(Range<usize>, &(dyn Fn(usize) + Sync))) -> Vec<u16> {
        for diagonal in 0..2 * TILES - 1 {
            let rows = (diagonal + 1).saturating_sub(TILES)..TILES.min(diagonal + 1);
            all(rows, &|row| self.tile(row, diagonal - row));
        }
        self.last_row()
    }

    fn last_row(self) -> Vec<u16> {
        self.cells.into_iter().skip(LENGTH * WIDTH).map(AtomicU16::into_inner).collect()
    }
}

/// A task for each tile, after those above and to the left.
fn by_tasks(longest: &Longest) {
    // What tasks say that they read and write.
    let marks = [0_u8; TILES * TILES];
    let mark = |row: usize, column: usize| &marks[row * TILES + column];
    scope(|s| {
        for row in 0..TILES {
            for column in 0..TILES {
                let mut task = s.task().writes(mark(row, column));
                if row > 0 {
                    task = task.reads(mark(row - 1, column));
                }
                if column > 0 {
                    task = task.reads(mark(row, column - 1));
                }
                task.spawn(move |_| longest.tile(row, column));
            }
        }
    });
}

pub(crate) fn wavefront() -> [Case; 3] {
    cases(Program {
        name: "LCS wavefront",
        input: Longest::new,
        one: |longest| {
            longest.fill(0..LENGTH, 0..LENGTH);
            longest.last_row()
        },
        is_right: equal,
        forms: vec![
            (
                "nanothreads pipeline",
                Form::Ours(|longest| {
                    pipeline(0..LENGTH, 0..LENGTH).run(|rows, columns| longest.fill(rows, columns));
                    longest.last_row()
                }),
            ),
            (
                "nanothreads depend",
                Form::Ours(|longest| {
                    by_tasks(&longest);
                    longest.last_row()
                }),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|longest| {
                    longest.by_diagonals(|rows, tile| {
                        rows.into_par_iter().with_max_len(1).on_engine().for_each(tile);
                    })
                }),
            ),
            (
                "rayon",
                Form::Rayon(|longest| {
                    longest.by_diagonals(|rows, tile| {
                        rows.into_par_iter().for_each(tile);
                    })
                }),
            ),
            (
                "chili",
                Form::Chili(|scope, longest| {
                    longest.by_diagonals(|rows, tile| {
                        halves(scope, rows, 1, &|rows| rows.for_each(tile), &|(), ()| ());
                    })
                }),
            ),
        ],
    })
}
