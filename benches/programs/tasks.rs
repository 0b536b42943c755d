//! Tasks in a scope: many small ones, a few big ones, a tree.

use crate::harness::Case;
use crate::program::{Form, Program, cases, equal, grain, steps};
use nanothreads::Scope;
use orx_parallel::{BasicPool, ParRec, Pool, Scope as _, ThreadPool as _, par_recursive};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

const SMALL: usize = 100_000;

/// The scopes of orx-parallel have a pool.
fn orx() -> &'static BasicPool {
    static POOL: LazyLock<BasicPool> = LazyLock::new(|| Pool::basic(2));
    &POOL
}

pub(crate) fn many() -> [Case; 3] {
    fn small(i: usize) -> u64 {
        steps(i, 100)
    }
    cases(Program {
        name: "many small tasks",
        input: || vec![0; SMALL],
        one: |mut slots| {
            slots.iter_mut().enumerate().for_each(|(i, slot)| *slot = small(i));
            slots
        },
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|mut slots| {
                    nanothreads::scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.spawn(move |_| *slot = small(i));
                        }
                    });
                    slots
                }),
            ),
            (
                "rayon",
                Form::Rayon(|mut slots| {
                    rayon::scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.spawn(move |_| *slot = small(i));
                        }
                    });
                    slots
                }),
            ),
            (
                "orx-parallel",
                Form::Plain(|mut slots| {
                    orx().scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.run(move || *slot = small(i));
                        }
                    });
                    slots
                }),
            ),
        ],
    })
}

const BIG: usize = 16;

pub(crate) fn few() -> [Case; 3] {
    /// Some 0.9 ms.
    fn big(i: usize) -> u64 {
        (i * 40_000..(i + 1) * 40_000).map(grain).fold(0, u64::wrapping_add)
    }
    cases(Program {
        name: "16 big tasks",
        input: || vec![0; BIG],
        one: |mut slots| {
            slots.iter_mut().enumerate().for_each(|(i, slot)| *slot = big(i));
            slots
        },
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|mut slots| {
                    nanothreads::scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.spawn(move |_| *slot = big(i));
                        }
                    });
                    slots
                }),
            ),
            (
                "rayon",
                Form::Rayon(|mut slots| {
                    rayon::scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.spawn(move |_| *slot = big(i));
                        }
                    });
                    slots
                }),
            ),
            (
                "orx-parallel",
                Form::Plain(|mut slots| {
                    orx().scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.run(move || *slot = big(i));
                        }
                    });
                    slots
                }),
            ),
            (
                "std threads",
                Form::Plain(|mut slots| {
                    thread::scope(|s| {
                        for (i, slot) in slots.iter_mut().enumerate() {
                            s.spawn(move || *slot = big(i));
                        }
                    });
                    slots
                }),
            ),
        ],
    })
}

/// Nodes of a tree of this depth, numbered as in a heap.
const NODES: usize = (2 << 16) - 1;

pub(crate) fn tree() -> [Case; 3] {
    type Slots = Vec<AtomicU64>;
    fn visit(slots: &[AtomicU64], at: usize) {
        // ORDERING: Relaxed - one task writes a slot, and it is read after the scope.
        slots[at].store(steps(at, 100), Relaxed);
    }
    fn children(at: usize) -> impl Iterator<Item = usize> {
        [2 * at + 1, 2 * at + 2].into_iter().filter(|&child| child < NODES)
    }
    fn values(slots: Slots) -> Vec<u64> {
        slots.into_iter().map(AtomicU64::into_inner).collect()
    }
    fn ours<'s>(s: &Scope<'s>, slots: &'s [AtomicU64], at: usize) {
        visit(slots, at);
        for child in children(at) {
            s.spawn(move |s| ours(s, slots, child));
        }
    }
    fn theirs<'s>(s: &rayon::Scope<'s>, slots: &'s [AtomicU64], at: usize) {
        visit(slots, at);
        for child in children(at) {
            s.spawn(move |s| theirs(s, slots, child));
        }
    }
    cases(Program {
        name: "tree of tasks",
        input: || (0..NODES).map(|_| AtomicU64::new(0)).collect::<Slots>(),
        one: |slots| {
            (0..NODES).for_each(|at| visit(&slots, at));
            values(slots)
        },
        is_right: equal,
        forms: vec![
            (
                "nanothreads",
                Form::Ours(|slots| {
                    nanothreads::scope(|s| ours(s, &slots, 0));
                    values(slots)
                }),
            ),
            (
                "rayon",
                Form::Rayon(|slots| {
                    rayon::scope(|s| theirs(s, &slots, 0));
                    values(slots)
                }),
            ),
            (
                "orx-parallel recursive",
                Form::Plain(|slots| {
                    let all = par_recursive([0], |&at| children(at)).num_threads(2);
                    all.for_each(|at| visit(&slots, at));
                    values(slots)
                }),
            ),
        ],
    })
}
