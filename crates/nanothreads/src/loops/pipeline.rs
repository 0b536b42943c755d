//! Pipelined loops: iterations that depend on their neighbours, run in blocks as a wave over the
//! members.
//!
//! # How it works
//! The outer loop is cut into one part for each member, the inner one into blocks. A member runs
//! the blocks in order; block b starts when the member before it, which has the part of the outer
//! loop before, has finished block b. With P members and B blocks the wave needs P - 1 blocks to
//! fill, and costs one cache line for each block and member. In two dimensions the members form a
//! grid, and a block waits for two neighbours, or, when one of the loops carries no dependence, for
//! one.
//!
//! # Papers
//! P1 section 5.2 (F9): ordered loops pipelined with blocking, one and two dimensions.

use super::chunk::static_block;
use super::stages::Stage;
use super::stop::Stop;
use crate::parts;
use crate::per_member::PerMember;
use engine::local::local;
use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::ops::Range;

/// Blocks for each member of the pipeline, unless the program says how many: the wave is full for
/// four fifths of the time.
const BLOCKS_PER_STAGE: usize = 4;

/// A pipelined loop to be run; made by [`pipeline`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct Pipeline {
    plan: Pipeline2d,
}

/// A pair of loops in which iteration (o, i) needs (o - 1, i) and (o, i - 1).
///
/// ```
/// use nanothreads::pipeline;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// // The number of ways to each corner of a street map: from the north and from the west.
/// const SIZE: usize = 16;
/// let ways: Vec<AtomicU32> = (0..SIZE * SIZE).map(|_| AtomicU32::new(1)).collect();
/// let at = |row: usize, column: usize| &ways[row * SIZE + column];
/// pipeline(1..SIZE, 1..SIZE).run(|rows, columns| {
///     for row in rows {
///         for column in columns.clone() {
///             let sum = at(row - 1, column).load(Relaxed) + at(row, column - 1).load(Relaxed);
///             at(row, column).store(sum, Relaxed);
///         }
///     }
/// });
/// assert_eq!(at(15, 15).load(Relaxed), 155_117_520);
/// ```
pub fn pipeline(outer: Range<usize>, inner: Range<usize>) -> Pipeline {
    Pipeline { plan: pipeline_2d(outer, 0..1, inner) }
}

impl Pipeline {
    /// Cuts the inner loop into this many blocks (at most one for each iteration). More blocks fill
    /// the pipeline sooner and cost more hand-overs.
    pub fn blocks(self, blocks: NonZeroUsize) -> Self {
        Self { plan: self.plan.blocks(blocks) }
    }

    /// Runs `body` for each part of the outer and block of the inner loop: after the same block of
    /// the part before, and after the block before of the same part. What those wrote is visible.
    ///
    /// # Panics
    /// With the payload of the first block that panics; blocks that need it do not run.
    pub fn run<F: Fn(Range<usize>, Range<usize>) + Sync>(self, body: F) {
        self.plan.run(|outer, _, inner| body(outer, inner));
    }
}

/// Three pipelined loops to be run; made by [`pipeline_2d`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct Pipeline2d {
    outer: Range<usize>,
    middle: Range<usize>,
    inner: Range<usize>,
    blocks: Option<NonZeroUsize>,
    outer_is_free: bool,
}

/// Three loops, the outer two of which run in parallel, in which iteration (o, m, i) needs (o - 1,
/// m, i), (o, m - 1, i) and (o, m, i - 1).
///
/// ```
/// use nanothreads::pipeline_2d;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// // Shortest ways through a cube whose points cost 1 each: from corner to corner.
/// const SIZE: usize = 8;
/// let cost: Vec<AtomicU64> = (0..SIZE.pow(3)).map(|_| AtomicU64::new(0)).collect();
/// let at = |o: usize, m: usize, i: usize| &cost[(o * SIZE + m) * SIZE + i];
/// pipeline_2d(0..SIZE, 0..SIZE, 0..SIZE).run(|outer, middle, inner| {
///     for o in outer {
///         for m in middle.clone() {
///             for i in inner.clone() {
///                 let before = [(o > 0, 1, 0, 0), (m > 0, 0, 1, 0), (i > 0, 0, 0, 1)];
///                 let ways = before.iter().filter(|step| step.0);
///                 let shortest = ways.map(|&(_, x, y, z)| at(o - x, m - y, i - z).load(Relaxed)).min();
///                 at(o, m, i).store(shortest.unwrap_or(0) + 1, Relaxed);
///             }
///         }
///     }
/// });
/// assert_eq!(at(7, 7, 7).load(Relaxed), 22);
/// ```
pub fn pipeline_2d(outer: Range<usize>, middle: Range<usize>, inner: Range<usize>) -> Pipeline2d {
    Pipeline2d { outer, middle, inner, blocks: None, outer_is_free: false }
}

impl Pipeline2d {
    /// Cuts the inner loop into this many blocks (at most one for each iteration).
    pub fn blocks(self, blocks: NonZeroUsize) -> Self {
        Self { blocks: Some(blocks), ..self }
    }

    /// States that the outer loop carries no dependence: two loops are parallel, and only the
    /// middle one is ordered. The members then form independent pipelines.
    pub fn outer_is_free(self) -> Self {
        Self { outer_is_free: true, ..self }
    }

    /// Runs `body` for each part of the outer and middle loops and block of the inner loop, after
    /// the blocks that it needs. What those wrote is visible.
    ///
    /// # Panics
    /// As [`Pipeline::run`].
    pub fn run<F: Fn(Range<usize>, Range<usize>, Range<usize>) + Sync>(self, body: F) {
        let (rows, columns, length) = (self.outer.len(), self.middle.len(), self.inner.len());
        if rows == 0 || columns == 0 || length == 0 {
            return;
        }
        let team = parts::reserve(local().wish().min(rows.saturating_mul(columns)));
        let grid = Grid::choose(team.size(), rows, columns, self.outer_is_free);
        let blocks = match self.blocks {
            Some(blocks) => blocks.get(),
            None if team.size() == 1 => 1,
            None => BLOCKS_PER_STAGE.saturating_mul(team.size()),
        };
        let wave = Wave {
            grid,
            blocks: blocks.min(length),
            outer_is_free: self.outer_is_free,
            stages: PerMember::new(grid.size(), |_| Stage::default()),
            stop: Stop::default(),
        };
        let offset = |part: Range<usize>, range: &Range<usize>| {
            range.start + part.start..range.start + part.end
        };
        parts::run(&team, |member| {
            let id = member.id as usize;
            // Beyond the grid: more members than the shape of the loops can use.
            if id >= grid.size() {
                return;
            }
            let outer = offset(static_block(rows, grid.row(id), grid.rows), &self.outer);
            let middle = offset(static_block(columns, grid.column(id), grid.columns), &self.middle);
            let guard = wave.stop.raise_on_unwind(|| wave.wake_all());
            wave.run(id, |block| {
                let inner = offset(static_block(length, block, wave.blocks), &self.inner);
                body(outer.clone(), middle.clone(), inner);
            });
            guard.disarm();
        });
    }
}

/// How the members are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grid {
    rows: usize,
    columns: usize,
}

impl Grid {
    /// The grid for loops of `rows` x `columns` iterations that uses most of `members`, and of
    /// those the one whose wave fills it soonest.
    fn choose(members: usize, rows: usize, columns: usize, rows_are_free: bool) -> Self {
        let grids =
            (1..=members.min(rows)).map(|r| Grid { rows: r, columns: (members / r).min(columns) });
        let fill =
            |grid: &Grid| if rows_are_free { grid.columns } else { grid.rows + grid.columns };
        let best = grids.max_by_key(|grid| (grid.size(), Reverse(fill(grid))));
        best.expect("a team has at least one member and the loops at least one iteration")
    }

    fn size(self) -> usize {
        self.rows * self.columns
    }

    fn row(self, id: usize) -> usize {
        id / self.columns
    }

    fn column(self, id: usize) -> usize {
        id % self.columns
    }
}

/// One run of a pipeline.
struct Wave {
    grid: Grid,
    blocks: usize,
    outer_is_free: bool,
    stages: PerMember<Stage>,
    stop: Stop,
}

impl Wave {
    /// Runs the blocks of member `id`, each when its neighbours have finished theirs.
    fn run(&self, id: usize, mut run_block: impl FnMut(usize)) {
        let above = (self.grid.row(id) > 0 && !self.outer_is_free)
            .then(|| &self.stages[id - self.grid.columns]);
        let left = (self.grid.column(id) > 0).then(|| &self.stages[id - 1]);
        for block in 0..self.blocks {
            for stage in [above, left].into_iter().flatten() {
                let is_ready = || stage.has_finished(block + 1);
                engine::wait(stage.point(), || is_ready() || self.stop.is_raised());
            }
            // A stage that was stopped has not finished what this block needs.
            if self.stop.is_raised() {
                return;
            }
            run_block(block);
            self.stages[id].finish_block();
        }
    }

    fn wake_all(&self) {
        for id in 0..self.grid.size() {
            self.stages[id].point().notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn grids_use_as_many_members_as_the_loops_allow_and_are_square_when_they_can() {
        let grid = |rows, columns| Grid { rows, columns };
        assert_eq!(Grid::choose(1, 9, 9, false), grid(1, 1));
        assert_eq!(Grid::choose(4, 9, 9, false), grid(2, 2));
        assert_eq!(Grid::choose(64, 100, 100, false), grid(8, 8));
        assert_eq!(Grid::choose(8, 2, 100, false), grid(2, 4));
        assert_eq!(Grid::choose(8, 100, 1, false), grid(8, 1));
        assert_eq!(Grid::choose(8, 1, 3, false), grid(1, 3));
        assert_eq!(Grid::choose(4, 9, 9, true), grid(4, 1));
        assert_eq!(Grid::choose(8, 2, 9, true), grid(2, 4));
        // Exhaustively: nothing uses more members.
        for members in 1..40 {
            for rows in 1..12 {
                for columns in 1..12 {
                    let most = (1..=rows)
                        .flat_map(|r| (1..=columns).map(move |c| r * c))
                        .filter(|&size| size <= members)
                        .max();
                    for rows_are_free in [false, true] {
                        let chosen = Grid::choose(members, rows, columns, rows_are_free);
                        assert_eq!(Some(chosen.size()), most);
                        assert!(chosen.rows <= rows && chosen.columns <= columns);
                    }
                }
            }
        }
    }
}
