//! Loops of all shapes and schedules, some with steps inside.

use crate::random::{Random, fold, mix};
use crate::slots::Slots;
use crate::step::{Budget, Step, work};
use nanothreads::{
    Alpha, Schedule, doacross, par_chunks_mut, par_for, par_for_2d, par_for_3d, pipeline,
    pipeline_2d,
};
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};

/// What the iterations have to do with each other.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Run,
    Chunks,
    Reduce,
    /// The schedule must be static: then the values are combined in the order of the iterations.
    ReduceInOrder,
    Slices(usize),
    Rows(usize),
    Planes(usize, usize),
    /// One iteration in this many has no turn.
    Ordered(usize),
    /// Distance and chunk.
    Doacross(usize, NonZeroUsize),
    /// Length of the inner loop, and blocks.
    Pipeline(usize, NonZeroUsize),
    /// Lengths of the middle and inner loops, blocks, and whether the outer loop is free.
    Pipeline2d(usize, usize, NonZeroUsize, bool),
    /// Ends the search at this offset.
    Find(usize),
    Break(usize),
}

#[derive(Debug)]
pub(crate) struct Loop {
    range: Range<usize>,
    schedule: Schedule,
    shape: Shape,
    seed: u64,
    /// A step that one iteration in this many runs.
    inner: Option<(usize, Box<Step>)>,
}

fn n(random: &mut Random, most: usize) -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(random.below(most))
}

pub(crate) fn schedule(random: &mut Random) -> Schedule {
    match random.below(11) {
        0 => Schedule::Static,
        1 => Schedule::StaticChunks(n(random, 9)),
        2 => Schedule::PURE,
        3 => Schedule::Dynamic(n(random, 9)),
        4 => Schedule::Guided(n(random, 5)),
        5 => Schedule::Trapezoid,
        6 => Schedule::TrapezoidFrom { first: n(random, 30), last: n(random, 9) },
        7 => Schedule::Safe(
            Alpha::new(0.05 + random.below(90) as f64 / 100.0).expect("between 0 and 1"),
        ),
        8 => Schedule::Factoring,
        9 => Schedule::Affinity,
        _ => Schedule::Auto,
    }
}

impl Loop {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let begin = if random.once_in(3) { random.below(1000) } else { 0 };
        let length = match random.below(8) {
            0 => random.below(4),
            1 => 500 + random.below(3000),
            _ => random.below(200),
        };
        let shape = match random.below(16) {
            0..4 => Shape::Run,
            4 => Shape::Chunks,
            5 => Shape::Reduce,
            6 => Shape::ReduceInOrder,
            7 => Shape::Slices(1 + random.below(7)),
            8 => Shape::Rows(random.below(9)),
            9 => Shape::Planes(random.below(5), 1 + random.below(5)),
            10 => Shape::Ordered(2 + random.below(5)),
            11 => Shape::Doacross(1 + random.below(12), n(random, 4)),
            12 => Shape::Pipeline(1 + random.below(40), n(random, 12)),
            13 => Shape::Pipeline2d(
                1 + random.below(6),
                1 + random.below(12),
                n(random, 6),
                random.once_in(2),
            ),
            14 => Shape::Find(random.below(300)),
            _ => Shape::Break(random.below(300)),
        };
        let schedule =
            if matches!(shape, Shape::ReduceInOrder) { Schedule::Static } else { schedule(random) };
        let inner = (matches!(shape, Shape::Run) && random.once_in(2)).then(|| {
            let step = Step::random(random, budget.inside(8));
            (length / (1 + random.below(4)) + 1, Box::new(step))
        });
        Self { range: begin..begin + length, schedule, shape, seed: random.next(), inner }
    }

    pub(crate) fn inner(&self) -> Option<&Step> {
        self.inner.as_ref().map(|(_, step)| &**step)
    }

    /// The value of iteration `i`.
    fn value(&self, i: usize) -> u64 {
        mix(self.seed ^ i as u64)
    }

    /// The same, in its time.
    fn work(&self, i: usize) -> u64 {
        work(self.seed ^ i as u64)
    }

    /// Lengths of three loops around a point, outermost first.
    fn lengths(&self) -> [usize; 3] {
        match self.shape {
            Shape::Rows(columns) => [self.range.len(), columns, 1],
            Shape::Planes(rows, columns) => [self.range.len(), rows, columns],
            Shape::Pipeline(inner, _) => [self.range.len(), 1, inner],
            Shape::Pipeline2d(middle, inner, ..) => [self.range.len(), middle, inner],
            _ => [self.range.len(), 1, 1],
        }
    }

    /// The neighbours that a point of a wave needs: those before it in each loop that carries a
    /// dependence.
    fn wave(&self, at: impl Fn([usize; 3]) -> u64, [o, m, i]: [usize; 3]) -> u64 {
        let is_free = matches!(self.shape, Shape::Pipeline2d(.., true));
        let before = [(o > 0 && !is_free, [1, 0, 0]), (m > 0, [0, 1, 0]), (i > 0, [0, 0, 1])];
        let needed = before.iter().filter(|(is_needed, _)| *is_needed);
        needed
            .fold(self.value(o + m + i), |sum, (_, [x, y, z])| mix(sum ^ at([o - x, m - y, i - z])))
    }

    pub(crate) fn expected(&self) -> u64 {
        let (range, length) = (self.range.clone(), self.range.len());
        let values = range.clone().map(|i| self.value(i));
        match self.shape {
            Shape::Run => {
                let inner = self.inner.as_ref().map(|(every, step)| (*every, step.expected()));
                let of = |i: usize| {
                    inner
                        .map_or(0, |(every, value)| if i.is_multiple_of(every) { value } else { 0 })
                };
                fold(range.map(|i| self.value(i).wrapping_add(of(i - self.range.start))))
            }
            Shape::Chunks | Shape::Slices(_) => fold(values),
            Shape::Rows(_) | Shape::Planes(..) => {
                fold((0..self.lengths().iter().product()).map(|i| self.value(i)))
            }
            Shape::Reduce => values.fold(0, u64::wrapping_add),
            Shape::ReduceInOrder => fold(values),
            Shape::Ordered(skip) => fold(range.filter(|i| i % skip != 0).map(|i| self.value(i))),
            Shape::Doacross(distance, _) => {
                let mut values: Vec<u64> = values.collect();
                (distance..length).for_each(|i| values[i] = mix(values[i] ^ values[i - distance]));
                fold(values)
            }
            Shape::Pipeline(..) | Shape::Pipeline2d(..) => {
                let [outer, middle, inner] = self.lengths();
                let cells = Slots::new(outer * middle * inner);
                let place = |[o, m, i]: [usize; 3]| (o * middle + m) * inner + i;
                for point in (0..outer * middle * inner)
                    .map(|at| [at / inner / middle, at / inner % middle, at % inner])
                {
                    cells.set(place(point), self.wave(|other| cells.get(place(other)), point));
                }
                fold(cells.values())
            }
            Shape::Find(at) | Shape::Break(at) => {
                if at < length {
                    at as u64
                } else {
                    u64::MAX
                }
            }
        }
    }

    pub(crate) fn run(&self) -> u64 {
        let start = self.range.start;
        let par = || par_for(self.range.clone()).schedule(self.schedule);
        let [outer, middle, inner] = self.lengths();
        let cells = Slots::new(outer * middle * inner);
        match self.shape {
            Shape::Run => par().run(|i| {
                cells.add(i - start, self.work(i));
                if let Some((every, step)) = &self.inner
                    && (i - start).is_multiple_of(*every)
                {
                    cells.add(i - start, step.run());
                }
            }),
            Shape::Chunks => par().run_chunks(|chunk| {
                assert!(!chunk.is_empty());
                chunk.for_each(|i| cells.add(i - start, self.work(i)));
            }),
            Shape::Reduce => return par().reduce(0, |i| self.work(i), u64::wrapping_add),
            Shape::ReduceInOrder => {
                let list = |i| vec![self.work(i)];
                return fold(par().reduce(Vec::new(), list, |a, b| [a, b].concat()));
            }
            Shape::Slices(chunk) => {
                let mut values = vec![0_u64; outer];
                par_chunks_mut(&mut values, chunk).schedule(self.schedule).run(|number, part| {
                    for (i, value) in part.iter_mut().enumerate() {
                        *value = value.wrapping_add(self.work(start + number * chunk + i));
                    }
                });
                return fold(values);
            }
            Shape::Rows(_) => {
                par_for_2d(0..outer, 0..middle).schedule(self.schedule).run(|row, column| {
                    let at = row * middle + column;
                    cells.add(at, self.work(at));
                })
            }
            Shape::Planes(..) => {
                par_for_3d(0..outer, 0..middle, 0..inner).schedule(self.schedule).run_rows(
                    |o, m, row| {
                        row.map(|i| (o * middle + m) * inner + i)
                            .for_each(|at| cells.add(at, self.work(at)));
                    },
                );
            }
            Shape::Ordered(skip) => {
                let log = Slots::new(1);
                log.set(0, 1);
                par().ordered(|i, order| {
                    let value = self.work(i);
                    if !i.is_multiple_of(skip) {
                        order.wait_turn(|| {
                            log.set(0, mix(log.get(0) ^ value).wrapping_add(log.get(0)))
                        });
                    }
                });
                return log.get(0);
            }
            Shape::Doacross(distance, chunk) => {
                doacross(self.range.clone()).chunks(chunk).run(|i, cross| {
                    let (at, mut value) = (i - start, self.work(i));
                    cross.wait_back(distance);
                    if at >= distance {
                        value = mix(value ^ cells.get(at - distance));
                    }
                    cells.add(at, value);
                    if value.is_multiple_of(2) {
                        cross.post();
                        std::hint::spin_loop();
                    }
                })
            }
            Shape::Pipeline(_, blocks) => pipeline(0..outer, 0..inner)
                .blocks(blocks)
                .run(|outer, inner| self.block(&cells, [outer, 0..1, inner])),
            Shape::Pipeline2d(_, _, blocks, is_free) => {
                let plan = pipeline_2d(0..outer, 0..middle, 0..inner).blocks(blocks);
                let plan = if is_free { plan.outer_is_free() } else { plan };
                plan.run(|outer, middle, inner| self.block(&cells, [outer, middle, inner]));
            }
            Shape::Find(at) => {
                let find = |i: usize| {
                    (self.work(i) != 0 && i >= start + at && (i - start - at).is_multiple_of(3))
                        .then_some(i)
                };
                return par().find_first(find).map_or(u64::MAX, |i| (i - start) as u64);
            }
            Shape::Break(at) => {
                let body = |i: usize| match self.work(i) {
                    _ if i == start + at => ControlFlow::Break(at as u64),
                    _ => ControlFlow::Continue(()),
                };
                return match par().try_run(body) {
                    ControlFlow::Break(value) => value,
                    ControlFlow::Continue(()) => u64::MAX,
                };
            }
        }
        fold(cells.values())
    }

    /// Computes a block of a wave.
    fn block(&self, cells: &Slots, [outer, middle, inner]: [Range<usize>; 3]) {
        let [_, middles, inners] = self.lengths();
        let place = |[o, m, i]: [usize; 3]| (o * middles + m) * inners + i;
        for o in outer {
            for m in middle.clone() {
                for i in inner.clone() {
                    let value = self.wave(|other| cells.get(place(other)), [o, m, i]);
                    cells.add(place([o, m, i]), value);
                }
            }
        }
        work(self.seed ^ inner.start as u64);
    }
}
