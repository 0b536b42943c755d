//! Heat on a small plate: 10,000 regions of a few microseconds.

use crate::harness::Case;
use crate::program::{Form, Program, cases, equal};
use nanothreads::{Schedule, Team, par_chunks_mut};
use nanothreads_rayon::OnEngine;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::sync::Mutex;

const EDGE: usize = 96;
const STEPS: usize = 10_000;
/// Cells of a part: half of the plate, for each of two threads.
const PART: usize = EDGE * EDGE / 2;

type Plate = Vec<f32>;

fn input() -> (Plate, Plate) {
    let heated = |i: usize| if i / EDGE == EDGE / 3 { 1000.0 } else { 0.0 };
    ((0..EDGE * EDGE).map(heated).collect(), vec![0.0; EDGE * EDGE])
}

/// A step of the cells from `begin` on, whole rows or not; the border stays as it is.
fn part(old: &[f32], begin: usize, new: &mut [f32]) {
    let mut at = begin;
    let mut rest = new;
    while !rest.is_empty() {
        let (row, column) = (at / EDGE, at % EDGE);
        let (cells, later) = rest.split_at_mut(rest.len().min(EDGE - column));
        let count = cells.len();
        if row == 0 || row == EDGE - 1 {
            cells.copy_from_slice(&old[at..at + count]);
        } else {
            inner(old, at, column, cells);
        }
        at += count;
        rest = later;
    }
}

/// Cells of one row, beginning in this column.
fn inner(old: &[f32], at: usize, column: usize, cells: &mut [f32]) {
    let count = cells.len();
    let (up, here, down) = (
        &old[at - EDGE..at - EDGE + count],
        &old[at - 1..at + count + 1],
        &old[at + EDGE..at + EDGE + count],
    );
    for (k, cell) in cells.iter_mut().enumerate() {
        let (left, middle, right) = (here[k], here[k + 1], here[k + 2]);
        *cell = middle + 0.2 * (up[k] + down[k] + left + right - 4.0 * middle);
    }
    if column == 0 {
        cells[0] = old[at];
    }
    if column + count == EDGE {
        cells[count - 1] = old[at + count - 1];
    }
}

/// All steps; `step` makes one.
fn run((mut now, mut next): (Plate, Plate), mut step: impl FnMut(&[f32], &mut [f32])) -> Plate {
    for _ in 0..STEPS {
        step(&now, &mut next);
        std::mem::swap(&mut now, &mut next);
    }
    now
}

pub(crate) fn heat() -> [Case; 3] {
    cases(Program {
        name: "heat",
        input,
        one: |plates| run(plates, |old, new| part(old, 0, new)),
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|plates| {
                    run(plates, |old, new| {
                        let parts = par_chunks_mut(new, PART).schedule(Schedule::Static);
                        parts.run(|number, new| part(old, number * PART, new));
                    })
                }),
            ),
            (
                "nanothreads Team",
                Form::Ours(|(mut now, mut next)| {
                    let team = Team::available();
                    let last = team.run_on_two(&mut now, &mut next, |_member, buffers| {
                        (0..STEPS).for_each(|_| buffers.step(part));
                    });
                    last.to_vec()
                }),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|plates| {
                    run(plates, |old, new| {
                        let parts = new.par_chunks_mut(PART).enumerate().on_engine();
                        parts.for_each(|(number, new)| part(old, number * PART, new));
                    })
                }),
            ),
            (
                "rayon",
                Form::Rayon(|plates| {
                    run(plates, |old, new| {
                        let parts = new.par_chunks_mut(PART).enumerate();
                        parts.for_each(|(number, new)| part(old, number * PART, new));
                    })
                }),
            ),
            (
                "rayon join",
                Form::Rayon(|plates| {
                    run(plates, |old, new| {
                        let (upper, lower) = new.split_at_mut(PART);
                        rayon::join(|| part(old, 0, upper), || part(old, PART, lower));
                    })
                }),
            ),
            (
                "chili",
                Form::Chili(|scope, plates| {
                    run(plates, |old, new| {
                        let (upper, lower) = new.split_at_mut(PART);
                        scope.join(|_| part(old, 0, upper), |_| part(old, PART, lower));
                    })
                }),
            ),
            (
                "fork_union",
                Form::ForkUnion(|pool, plates| {
                    run(plates, |old, new| {
                        let (upper, lower) = new.split_at_mut(PART);
                        // Each part has one thread: no lock is waited for.
                        let parts = [Mutex::new(upper), Mutex::new(lower)];
                        drop(pool.for_n(2, |prong| {
                            let number = prong.task_index;
                            let mut new = parts[number].lock().expect("a step does not panic");
                            part(old, number * PART, &mut new);
                        }));
                    })
                }),
            ),
        ],
    })
}
