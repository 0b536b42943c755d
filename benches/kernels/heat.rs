//! Heat on a rod, by many short steps: what a step costs beside its few microseconds of work.

use criterion::Criterion;
use nanothreads::{Schedule, Team, par_chunks_mut};
use rayon::prelude::*;

const CELLS: usize = 8192;
const STEPS: usize = 500;
const PART: usize = 1024;

fn input() -> Vec<f64> {
    (0..CELLS).map(|i| if i == CELLS / 2 { CELLS as f64 } else { 0.0 }).collect()
}

fn part(old: &[f64], begin: usize, new: &mut [f64]) {
    let end = CELLS - 1;
    for (k, x) in new.iter_mut().enumerate() {
        let i = begin + k;
        let (left, right) = (old[i.saturating_sub(1)], old[(i + 1).min(end)]);
        *x = old[i] + 0.25 * (left - 2.0 * old[i] + right);
    }
}

fn run(step: impl Fn(&[f64], &mut [f64])) -> Vec<f64> {
    let (mut now, mut next) = (input(), vec![0.0; CELLS]);
    for _ in 0..STEPS {
        step(&now, &mut next);
        std::mem::swap(&mut now, &mut next);
    }
    now
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let one = || run(|old, new| part(old, 0, new));
    let ours = || {
        run(|old, new| {
            let parts = par_chunks_mut(new, PART).schedule(Schedule::Static);
            parts.run(|number, new| part(old, number * PART, new));
        })
    };
    let kept = Team::available();
    let team = || {
        let (mut now, mut next) = (input(), vec![0.0; CELLS]);
        let last = kept.run_on_two(&mut now, &mut next, |_member, buffers| {
            (0..STEPS).for_each(|_| buffers.step(part));
        });
        last.to_vec()
    };
    let theirs = || {
        run(|old, new| {
            let parts = new.par_chunks_mut(PART).enumerate();
            parts.for_each(|(number, new)| part(old, number * PART, new));
        })
    };
    super::compare(
        criterion,
        "heat",
        &[
            ("one thread", &one),
            ("nanothreads", &ours),
            ("nanothreads, Team::run_on_two", &team),
            ("rayon", &theirs),
        ],
        |a, b| super::are_near(a, b),
    );
}
