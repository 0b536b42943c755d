//! What runs in this one process, on criterion: regions, barriers, loops, joins, tasks and sorting
//! of `nanothreads`, beside the same on one thread; decisions of policies; the words that a program
//! and its manager share.
//!
//! For one's own changes: `cargo bench --bench micro -- --save-baseline before`, then, with the
//! change, `cargo bench --bench micro -- --baseline before`. Not for claims against other engines:
//! engines in one process disturb each other, which is why `fork_join`, `tasks`, `loops` and
//! `openmp` have a process for each, and interleave them.

mod arena;
mod decide;
mod loops;
mod regions;
mod sort;
mod tasks;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    regions::benches,
    loops::benches,
    tasks::benches,
    sort::benches,
    decide::benches,
    arena::benches
);
criterion_main!(benches);
