//! Cholesky's factorisation by tiles: a graph of tasks with dependences, against phases.

use crate::tiles;
use criterion::Criterion;

pub(crate) fn bench(criterion: &mut Criterion) {
    let one = || tiles::one(tiles::input());
    let ours = || tiles::ours(tiles::input());
    let theirs = || tiles::theirs(tiles::input());
    super::compare(
        criterion,
        "cholesky",
        &[("one thread", &one), ("nanothreads", &ours), ("rayon", &theirs)],
        |a, b| a.iter().zip(b).all(|(a, b)| super::are_near(a, b)),
    );
}
