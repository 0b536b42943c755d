//! LU factorisation of a sparse matrix of dense blocks: tasks with dependences, or phases.
//!
//! The operations and what each reads and writes are found beforehand, symbolically; every engine
//! runs the same kernels on the same blocks. Where an engine has no dependences, each step is three
//! phases: the diagonal block; its row and column; the rest. Blocks are [`DataCell`]s: an engine
//! that runs two conflicting operations at once is found out.

use crate::harness::native::entry;
use crate::harness::regions::{self, Body};
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Case, Engine, Runtime};
use nanothreads::{DataCell, Schedule, par_for};
use orx_parallel::{IntoParIter, Par};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::ops::Range;
use std::sync::OnceLock;

/// Blocks in a row of the matrix.
const BLOCKS: usize = 24;
/// Numbers in a row of a block.
const SIZE: usize = 32;

type Block = [f64; SIZE * SIZE];

/// What an operation reads and writes, as the peers in C take it; negative: nothing.
#[repr(C)]
#[derive(Clone, Copy)]
struct Operation {
    reads: [i32; 2],
    writes: i32,
}

struct Problem {
    initial: Vec<Block>,
    expected: Vec<Block>,
    operations: Vec<Operation>,
    /// Where each phase ends.
    phases: Vec<u32>,
    blocks: Vec<DataCell<Block>>,
}

fn problem() -> &'static Problem {
    static PROBLEM: OnceLock<Problem> = OnceLock::new();
    PROBLEM.get_or_init(Problem::new)
}

impl Problem {
    fn new() -> Self {
        let mut is_present = [[false; BLOCKS]; BLOCKS];
        let mut initial = vec![[0.0; SIZE * SIZE]; BLOCKS * BLOCKS];
        // A linear congruence: any numbers do.
        let mut random = 1_u32;
        for (i, row) in is_present.iter_mut().enumerate() {
            for (j, is_present) in row.iter_mut().enumerate() {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *is_present = i.abs_diff(j) < 2 || random >> 30 == 0;
                if !*is_present {
                    continue;
                }
                for (at, number) in initial[i * BLOCKS + j].iter_mut().enumerate() {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // A dominant diagonal: no pivots are needed.
                    let on_diagonal = i == j && at / SIZE == at % SIZE;
                    *number =
                        f64::from(random >> 16) / 65536.0 + if on_diagonal { 1000.0 } else { 0.0 };
                }
            }
        }
        let (operations, phases) = plan(&mut is_present);
        let blocks = initial.iter().map(|block| DataCell::new(*block)).collect();
        let mut problem = Self { initial, expected: Vec::new(), operations, phases, blocks };
        (0..problem.operations.len()).for_each(|number| problem.run(number));
        problem.expected = problem.blocks.iter().map(|block| *block.read()).collect();
        problem
    }

    /// Runs one operation.
    fn run(&self, number: usize) {
        let block = |number: i32| usize::try_from(number).ok().map(|number| &self.blocks[number]);
        let Operation { reads: [a, b], writes } = self.operations[number];
        let Some(target) = block(writes) else { return };
        let mut target = target.write();
        match (block(a), block(b)) {
            (Some(left), Some(upper)) => multiply(&mut target, &left.read(), &upper.read()),
            (Some(diagonal), None) => {
                let (row, diagonal_row) = (writes as usize / BLOCKS, a as usize / BLOCKS);
                if row == diagonal_row {
                    forward(&mut target, &diagonal.read());
                } else {
                    divide(&mut target, &diagonal.read());
                }
            }
            _ => factor(&mut target),
        }
    }

    fn reset(&self) {
        for (block, initial) in self.blocks.iter().zip(&self.initial) {
            *block.write() = *initial;
        }
    }

    /// The operations are those of the sequential program, in its order for each block: the same
    /// bits.
    fn check(&self) -> Result<(), String> {
        let wrong = self
            .blocks
            .iter()
            .zip(&self.expected)
            .filter(|(block, expected)| *block.read() != **expected)
            .count();
        if wrong == 0 { Ok(()) } else { Err(format!("{wrong} blocks of the factors are wrong")) }
    }

    fn phases(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let ends = self.phases.iter().map(|&end| end as usize);
        ends.scan(0, |begin, end| Some(std::mem::replace(begin, end)..end))
    }
}

/// The operations in sequential order. Blocks that come up on the way are added to `is_present`.
fn plan(is_present: &mut [[bool; BLOCKS]; BLOCKS]) -> (Vec<Operation>, Vec<u32>) {
    let number = |i: usize, j: usize| i32::try_from(i * BLOCKS + j).unwrap_or(i32::MAX);
    let (mut operations, mut phases) = (Vec::new(), Vec::new());
    for k in 0..BLOCKS {
        let mut end_phase = |operations: &Vec<Operation>| {
            phases.push(u32::try_from(operations.len()).unwrap_or(u32::MAX))
        };
        operations.push(Operation { reads: [-1, -1], writes: number(k, k) });
        end_phase(&operations);
        let row: Vec<usize> = (k + 1..BLOCKS).filter(|&j| is_present[k][j]).collect();
        let column: Vec<usize> = (k + 1..BLOCKS).filter(|&i| is_present[i][k]).collect();
        operations.extend(
            row.iter().map(|&j| Operation { reads: [number(k, k), -1], writes: number(k, j) }),
        );
        operations.extend(
            column.iter().map(|&i| Operation { reads: [number(k, k), -1], writes: number(i, k) }),
        );
        end_phase(&operations);
        for &i in &column {
            for &j in &row {
                is_present[i][j] = true;
                operations
                    .push(Operation { reads: [number(i, k), number(k, j)], writes: number(i, j) });
            }
        }
        end_phase(&operations);
    }
    (operations, phases)
}

/// Factors a diagonal block.
fn factor(block: &mut Block) {
    for k in 0..SIZE {
        for i in k + 1..SIZE {
            block[i * SIZE + k] /= block[k * SIZE + k];
            for j in k + 1..SIZE {
                block[i * SIZE + j] -= block[i * SIZE + k] * block[k * SIZE + j];
            }
        }
    }
}

/// A block right of the diagonal: what its lower triangle leaves.
fn forward(block: &mut Block, diagonal: &Block) {
    for k in 0..SIZE {
        for i in k + 1..SIZE {
            for j in 0..SIZE {
                block[i * SIZE + j] -= diagonal[i * SIZE + k] * block[k * SIZE + j];
            }
        }
    }
}

/// A block below the diagonal, divided by its upper triangle.
fn divide(block: &mut Block, diagonal: &Block) {
    for i in 0..SIZE {
        for k in 0..SIZE {
            block[i * SIZE + k] /= diagonal[k * SIZE + k];
            for j in k + 1..SIZE {
                block[i * SIZE + j] -= block[i * SIZE + k] * diagonal[k * SIZE + j];
            }
        }
    }
}

/// Takes a product from any other block.
fn multiply(block: &mut Block, left: &Block, upper: &Block) {
    for i in 0..SIZE {
        for k in 0..SIZE {
            for j in 0..SIZE {
                block[i * SIZE + j] -= left[i * SIZE + k] * upper[k * SIZE + j];
            }
        }
    }
}

extern "C" fn run(number: u32) {
    problem().run(number as usize);
}

pub(super) fn case() -> Case {
    let depending = |name: &str, runtime| {
        Engine::new(name, runtime, move |_| {
            let dependent = entry(runtime, "dependent")?;
            let (operations, count) =
                (problem().operations.as_ptr() as usize, problem().operations.len());
            Ok(subject(move || dependent.call(operations, count, run as Body as usize)))
        })
    };
    let engines = vec![
        Engine::new("nanothreads depend", Runtime::Ours, |row| {
            regions::configure(row);
            Ok(subject(with_dependences))
        }),
        Engine::new("nanothreads phases", Runtime::Ours, |row| {
            regions::configure(row);
            Ok(in_phases(|phase| par_for(phase).schedule(Schedule::PURE).run(|n| problem().run(n))))
        }),
        Engine::new("sequential", Runtime::Crate, |_| {
            Ok(subject(|| (0..problem().operations.len()).for_each(|n| problem().run(n))))
        }),
        depending("libgomp depend", Runtime::Libgomp),
        depending("libomp depend", Runtime::Libomp),
        Engine::new("rayon phases", Runtime::Crate, |_| {
            let pool = regions::rayon_inside()?;
            Ok(in_phases(move |phase| {
                pool.install(|| phase.into_par_iter().for_each(|n| problem().run(n)))
            }))
        }),
        Engine::new("chili phases", Runtime::Crate, |_| {
            let mut scope = regions::chili();
            Ok(in_phases(move |phase| chili_phase(&mut scope, phase)))
        }),
        Engine::new("fork_union phases", Runtime::Crate, |_| {
            let mut pool =
                fork_union::ThreadPool::try_spawn(2).map_err(|error| format!("{error:?}"))?;
            Ok(in_phases(move |phase| {
                let begin = phase.start;
                drop(
                    pool.for_n_dynamic(phase.len(), |prong| {
                        problem().run(begin + prong.task_index)
                    }),
                );
            }))
        }),
        Engine::new("orx-parallel phases", Runtime::Crate, |_| {
            Ok(in_phases(|phase| {
                phase.into_par().num_threads(2).chunk_size(1).for_each(|n| problem().run(n))
            }))
        }),
        Engine::new("oneTBB phases", Runtime::Tbb, |_| {
            let phased = entry(Runtime::Tbb, "phased")?;
            let (phases, count) = (problem().phases.as_ptr() as usize, problem().phases.len());
            Ok(subject(move || phased.call(phases, count, run as Body as usize)))
        }),
    ];
    Case { name: "sparse LU".into(), measure: back_to_back(), extras: &[], engines, bar: None }
}

fn subject<R>(run: impl FnMut() -> R + 'static) -> Subject {
    problem();
    Subject::new(run, |_| problem().check()).prepared_by(|| problem().reset())
}

fn in_phases(mut phase: impl FnMut(Range<usize>) + 'static) -> Subject {
    subject(move || problem().phases().for_each(&mut phase))
}

fn with_dependences() {
    let problem = problem();
    let block = |number: i32| usize::try_from(number).ok().map(|number| &problem.blocks[number]);
    nanothreads::scope(|s| {
        for (number, operation) in problem.operations.iter().enumerate() {
            let mut task = s.task();
            for read in operation.reads.into_iter().filter_map(block) {
                task = task.reads(read);
            }
            if let Some(written) = block(operation.writes) {
                task = task.writes(written);
            }
            task.spawn(move |_| problem.run(number));
        }
    });
}

fn chili_phase(scope: &mut chili::Scope<'_>, phase: Range<usize>) {
    match phase.len() {
        0 => {}
        1 => problem().run(phase.start),
        count => {
            let middle = phase.start + count / 2;
            scope.join(
                |scope| chili_phase(scope, phase.start..middle),
                |scope| chili_phase(scope, middle..phase.end),
            );
        }
    }
}
