//! Gravity among all pairs: equal rows, all of the input read by each.

use crate::bodies::{self, Body, part};
use criterion::Criterion;
use nanothreads::par_chunks_mut;
use rayon::prelude::*;

const BODIES: usize = 600;
const STEPS: usize = 5;
/// Bodies that a thread takes at a time.
const PART: usize = 25;

/// All steps; `step` makes one, from the first buffer into the second.
fn run(step: impl Fn(&[Body], &mut [Body])) -> Vec<f64> {
    let (mut now, mut next) = (bodies::input(BODIES), bodies::input(BODIES));
    for _ in 0..STEPS {
        step(&now, &mut next);
        std::mem::swap(&mut now, &mut next);
    }
    now.iter().flat_map(|body| body.at).collect()
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
