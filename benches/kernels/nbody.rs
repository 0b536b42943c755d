//! Gravity among all pairs: equal rows, all of the input read by each.

use criterion::Criterion;
use nanothreads::par_chunks_mut;
use rayon::prelude::*;

const BODIES: usize = 600;
const STEPS: usize = 5;
const STEP: f64 = 1e-3;
/// Bodies that a thread takes at a time.
const PART: usize = 25;

#[derive(Clone, Copy)]
struct Body {
    at: [f64; 3],
    speed: [f64; 3],
    mass: f64,
}

fn input() -> Vec<Body> {
    let place = |i: usize, k: usize| ((i * 3 + k) as f64 * 0.618_033_988_75).fract() * 10.0 - 5.0;
    (0..BODIES)
        .map(|i| Body {
            at: [place(i, 0), place(i, 1), place(i, 2)],
            speed: [0.0; 3],
            mass: 1.0 + (i % 7) as f64,
        })
        .collect()
}

/// `body` among `all`, a step later.
fn moved(body: Body, all: &[Body]) -> Body {
    let mut pull = [0.0; 3];
    for other in all {
        let apart = [0, 1, 2].map(|k| other.at[k] - body.at[k]);
        let square = apart.iter().map(|d| d * d).sum::<f64>() + 1e-4;
        let force = other.mass / (square * square.sqrt());
        (0..3).for_each(|k| pull[k] += force * apart[k]);
    }
    let speed = [0, 1, 2].map(|k| body.speed[k] + STEP * pull[k]);
    Body { at: [0, 1, 2].map(|k| body.at[k] + STEP * speed[k]), speed, ..body }
}

/// All steps; `step` makes one, from the first buffer into the second.
fn run(step: impl Fn(&[Body], &mut [Body])) -> Vec<f64> {
    let (mut now, mut next) = (input(), input());
    for _ in 0..STEPS {
        step(&now, &mut next);
        std::mem::swap(&mut now, &mut next);
    }
    now.iter().flat_map(|body| body.at).collect()
}

fn part(old: &[Body], begin: usize, new: &mut [Body]) {
    new.iter_mut().zip(&old[begin..]).for_each(|(new, &body)| *new = moved(body, old));
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let one = || run(|old, new| part(old, 0, new));
    let ours = || {
        run(|old, new| par_chunks_mut(new, PART).run(|number, new| part(old, number * PART, new)))
    };
    let theirs = || {
        run(|old, new| {
            let parts = new.par_chunks_mut(PART).enumerate();
            parts.for_each(|(number, new)| part(old, number * PART, new));
        })
    };
    super::compare(
        criterion,
        "n-body",
        &[("one thread", &one), ("nanothreads", &ours), ("rayon", &theirs)],
        |a, b| super::are_near(a, b),
    );
}
