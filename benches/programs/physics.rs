//! Two kernels of the bench `kernels`: n-body, and Cholesky's factorisation by tiles.

use crate::bodies::{Body, input, moved, part};
use crate::harness::Case;
use crate::program::{Form, Program, cases, near};
use crate::tiles;
use nanothreads::{par_chunks_mut, par_for};
use nanothreads_rayon::OnEngine;
use orx_parallel::{IntoParIter, Par};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::thread;

const BODIES: usize = 600;
const STEPS: usize = 5;
/// Bodies that a thread takes at a time.
const PART: usize = 25;

type Pair = (Vec<Body>, Vec<Body>);

/// All steps; `step` makes one, from the first buffer into the second.
fn run((mut now, mut next): Pair, mut step: impl FnMut(&[Body], &mut Vec<Body>)) -> Vec<f64> {
    for _ in 0..STEPS {
        step(&now, &mut next);
        std::mem::swap(&mut now, &mut next);
    }
    now.iter().flat_map(|body| body.at).collect()
}

pub(crate) fn bodies() -> [Case; 3] {
    cases(Program {
        name: "n-body",
        input: || (input(BODIES), input(BODIES)),
        one: |pair| run(pair, |old, new| part(old, 0, new)),
        is_right: |a: &Vec<f64>, b| near(a, b),
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|pair| {
                    run(pair, |old, new| {
                        par_chunks_mut(new, PART).run(|number, new| part(old, number * PART, new));
                    })
                }),
            ),
            (
                "nanothreads collect",
                Form::Ours(|pair| {
                    run(pair, |old, new| {
                        *new = par_for(0..old.len()).collect(|i| moved(old[i], old));
                    })
                }),
            ),
            (
                "nanothreads-rayon",
                Form::Ours(|pair| {
                    run(pair, |old, new| {
                        let parts = new.par_chunks_mut(PART).enumerate().on_engine();
                        parts.for_each(|(number, new)| part(old, number * PART, new));
                    })
                }),
            ),
            (
                "rayon",
                Form::Rayon(|pair| {
                    run(pair, |old, new| {
                        let parts = new.par_chunks_mut(PART).enumerate();
                        parts.for_each(|(number, new)| part(old, number * PART, new));
                    })
                }),
            ),
            (
                "orx-parallel",
                Form::Plain(|pair| {
                    run(pair, |old, new| {
                        let all = (0..old.len()).into_par().num_threads(2);
                        *new = all.map(|i| moved(old[i], old)).collect();
                    })
                }),
            ),
            (
                "std threads",
                Form::Plain(|pair| {
                    run(pair, |old, new| {
                        let (low, high) = new.split_at_mut(BODIES / 2);
                        thread::scope(|s| {
                            s.spawn(|| part(old, BODIES / 2, high));
                            part(old, 0, low);
                        });
                    })
                }),
            ),
        ],
    })
}

pub(crate) fn cholesky() -> [Case; 3] {
    cases(Program {
        name: "Cholesky",
        input: tiles::input,
        one: tiles::one,
        is_right: |a: &Vec<tiles::Tile>, b| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(a, b))
        },
        forms: vec![
            ("nanothreads depend", Form::Ours(tiles::ours)),
            ("rayon phases", Form::Rayon(tiles::theirs)),
        ],
    })
}
