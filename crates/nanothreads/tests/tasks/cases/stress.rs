//! Random trees of tasks: everything at once, from a seed that is printed (`NANOS_SEED=n` repeats
//! it).

use super::team;
use nanothreads::{Access, DataCell, Scope, TaskRef, scope};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A small generator (xorshift64*): each task has its own, so that the tree does not depend on the
/// schedule.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }

    fn child(&mut self) -> Self {
        Self(self.next() | 1)
    }
}

#[derive(Default)]
struct Counts {
    created: AtomicU64,
    ran: AtomicU64,
}

/// Something that a creator knows to be expected: a payload that a child threw on purpose.
struct Planted;

fn grow<'s>(
    s: &Scope<'s>,
    counts: &'s Counts,
    cells: &'s [DataCell<u64>],
    mut random: Random,
    depth: u64,
) {
    counts.ran.fetch_add(1, Relaxed);
    let mut tasks: Vec<TaskRef> = Vec::new();
    for _ in 0..random.below(6) {
        let child = random.child();
        match random.below(if depth == 0 { 2 } else { 8 }) {
            0 => s.yield_now(),
            1 => s.wait(),
            2 => {
                counts.created.fetch_add(1, Relaxed);
                s.spawn(move |s| grow(s, counts, cells, child, depth - 1));
            }
            3 => {
                counts.created.fetch_add(1, Relaxed);
                let priority = random.below(5) as i32 - 2;
                tasks.push(
                    s.task()
                        .priority(priority)
                        .spawn(move |s| grow(s, counts, cells, child, depth - 1)),
                );
            }
            4 => {
                let mut task = s.task();
                for _ in 0..random.below(7) {
                    if let Some(before) =
                        tasks.get(random.below(tasks.len().max(1) as u64) as usize)
                    {
                        task = task.depends_on(before);
                    }
                }
                for _ in 0..random.below(3) {
                    let kinds = [Access::Read, Access::Write, Access::Exclude, Access::Share];
                    task = task.accesses(
                        kinds[random.below(4) as usize],
                        &cells[random.below(4) as usize],
                    );
                }
                counts.created.fetch_add(1, Relaxed);
                tasks.push(task.spawn(move |s| grow(s, counts, cells, child, depth - 1)));
            }
            5 => s.group(|g| {
                let own: Vec<DataCell<u64>> = (0..3).map(|_| DataCell::new(0)).collect();
                let own = &own;
                g.group(|g| {
                    for number in 0..random.below(8) {
                        let cell = &own[random.below(3) as usize];
                        counts.created.fetch_add(1, Relaxed);
                        let task = if random.below(2) == 0 {
                            g.task().writes(cell)
                        } else {
                            g.task().excludes(cell)
                        };
                        task.spawn(move |s| {
                            counts.ran.fetch_add(1, Relaxed);
                            let mut inside = cell.write();
                            s.yield_now();
                            *inside += number;
                        });
                    }
                });
                counts.created.fetch_add(1, Relaxed);
                g.spawn(move |s| grow(s, counts, cells, child, depth - 1));
            }),
            6 => {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    s.group(|g| {
                        counts.created.fetch_add(1, Relaxed);
                        g.spawn(move |s| {
                            grow(s, counts, cells, child, depth - 1);
                            resume_unwind(Box::new(Planted));
                        });
                    });
                }));
                assert!(outcome.is_err_and(|payload| payload.is::<Planted>()));
            }
            _ => s.suspend(|completion| {
                let spawner = s.spawner();
                counts.created.fetch_add(1, Relaxed);
                spawner.spawn(move |s| {
                    grow(s, counts, cells, child, depth - 1);
                    completion.complete();
                });
            }),
        }
    }
}

#[test]
fn random_trees_of_tasks_run_whole_and_once() {
    own_process!();
    team();
    let fresh =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let seed = std::env::var("NANOS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(fresh);
    println!("NANOS_SEED={seed}");
    let mut random = Random(seed | 1);
    let begin = Instant::now();
    let mut trees = 0;
    // Bounded in time and in trees: debug builds on busy machines get through fewer.
    while trees < 400 && begin.elapsed().as_secs() < 5 {
        let counts = Counts::default();
        let cells: Vec<DataCell<u64>> = (0..4).map(|_| DataCell::new(0)).collect();
        let depth = 2 + random.below(4);
        let start = random.child();
        scope(|s| {
            for _ in 0..3 {
                counts.created.fetch_add(1, Relaxed);
                let (counts, cells, mut start) = (&counts, &cells[..], start.clone());
                s.spawn(move |s| grow(s, counts, cells, start.child(), depth));
            }
        });
        assert_eq!(
            counts.ran.into_inner(),
            counts.created.into_inner(),
            "NANOS_SEED={seed} tree {trees}"
        );
        trees += 1;
    }
    assert!(trees > 0);
}
