//! Trees of tasks, one for each node: a deterministic unbalanced tree, and the queens' problem.

use crate::harness::native::entry;
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Bar, Case, Engine, Runtime, regions};
use crate::tick::{counted, tick, with_share};
use nanothreads::Scope;
use orx_parallel::ParRec;

/// Visits a node of this depth, and says how many children it has.
type Expand = extern "C" fn(u64, u32) -> u32;
/// The state of a node's child of this number.
type Child = extern "C" fn(u64, u32) -> u64;

/// A tree that is known only by visiting it. The same C functions run on every engine.
#[derive(Clone, Copy)]
struct Tree {
    root: u64,
    expand: Expand,
    child: Child,
    /// What the visits count.
    result: u64,
}

/// Children of the root of the unbalanced tree.
const ROOT_CHILDREN: u32 = 1000;
/// Each other node has this many children, or none: most of the subtrees are tiny, a few are large
/// (a binomial tree).
const CHILDREN: u32 = 8;
/// Of 2^32: how likely a node has children; 8 times this is 0.98.
const LIKELY: u64 = 526_133_494;
const SEED: u64 = 42;
/// Nodes of this tree, by sequential count.
const NODES: u64 = 68_977;

/// Rows of the board.
const QUEENS: u32 = 11;
const SOLUTIONS: u64 = 2680;

pub(super) fn cases() -> [Case; 2] {
    let unbalanced = Tree { root: SEED, expand: expand_hash, child: child_hash, result: NODES };
    let queens = Tree { root: 0, expand: expand_board, child: child_board, result: SOLUTIONS };
    let bar = Some(Bar::TimesOf { engines: &["rayon", "chili"], row: None, factor: 1.0 });
    [case("nqueens(11)", queens, bar), case("unbalanced tree", unbalanced, None)]
}

/// A node of the unbalanced tree is a hash.
extern "C" fn expand_hash(state: u64, depth: u32) -> u32 {
    tick();
    match depth {
        0 => ROOT_CHILDREN,
        _ if state >> 32 < LIKELY => CHILDREN,
        _ => 0,
    }
}

extern "C" fn child_hash(state: u64, number: u32) -> u64 {
    let mut hash = state ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Some work for each node.
    for _ in 0..20 {
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

/// A board: the columns taken, and those that the next row cannot have by each diagonal.
fn unpack(state: u64) -> [u64; 3] {
    let mask = (1 << QUEENS) - 1;
    [state & mask, state >> QUEENS & mask, state >> (2 * QUEENS) & mask]
}

fn free(state: u64) -> u64 {
    let [columns, left, right] = unpack(state);
    !(columns | left | right) & ((1 << QUEENS) - 1)
}

extern "C" fn expand_board(state: u64, depth: u32) -> u32 {
    if depth == QUEENS {
        tick();
        return 0;
    }
    free(state).count_ones()
}

extern "C" fn child_board(state: u64, number: u32) -> u64 {
    let mut free = free(state);
    for _ in 0..number {
        free &= free - 1;
    }
    let queen = free & free.wrapping_neg();
    let [columns, left, right] = unpack(state);
    let mask = (1 << QUEENS) - 1;
    let (columns, left, right) =
        (columns | queen, (left | queen) << 1 & mask, (right | queen) >> 1);
    columns | left << QUEENS | right << (2 * QUEENS)
}

fn case(name: &str, tree: Tree, bar: Option<Bar>) -> Case {
    let native = |name: &str, runtime| {
        Engine::new(name, runtime, move |_| {
            let visit = entry(runtime, "tree")?;
            let run =
                move || visit.call(tree.root as usize, tree.expand as usize, tree.child as usize);
            Ok(subject(tree, run))
        })
    };
    let engines = vec![
        Engine::new("nanothreads tasks", Runtime::Ours, move |row| {
            regions::configure(row);
            Ok(subject(tree, move || nanothreads::scope(|s| tree.tasks(s, tree.root, 0))))
        }),
        Engine::new("nanothreads join", Runtime::Ours, move |row| {
            regions::configure(row);
            Ok(subject(tree, move || tree.visit(&Ours, tree.root, 0)))
        }),
        Engine::new("sequential", Runtime::Crate, move |_| {
            Ok(subject(tree, move || tree.sequential(tree.root, 0)))
        }),
        Engine::new("rayon scope", Runtime::Crate, move |_| {
            let pool = regions::rayon_inside()?;
            Ok(subject(tree, move || pool.scope(|s| tree.rayon_tasks(s, tree.root, 0))))
        }),
        Engine::new("rayon join", Runtime::Crate, move |_| {
            let pool = regions::rayon_inside()?;
            Ok(subject(tree, move || pool.install(|| tree.visit(&Rayon, tree.root, 0))))
        }),
        Engine::new("chili join", Runtime::Crate, move |_| {
            let mut scope = regions::chili();
            Ok(subject(tree, move || tree.chili(&mut scope, tree.root, 0)))
        }),
        Engine::new("orx-parallel recursive", Runtime::Crate, move |_| {
            let children = move |&(state, depth): &(u64, u32)| {
                (0..(tree.expand)(state, depth))
                    .map(move |number| ((tree.child)(state, number), depth + 1))
            };
            let run = move || {
                orx_parallel::par_recursive([(tree.root, 0)], children)
                    .num_threads(2)
                    .for_each(|_| ())
            };
            Ok(subject(tree, run))
        }),
        native("oneTBB task_group", Runtime::Tbb),
        native("libgomp", Runtime::Libgomp),
        native("libomp", Runtime::Libomp),
        Engine::absent("fork_union", "no tasks"),
    ];
    Case {
        name: name.into(),
        measure: with_share(back_to_back()),
        extras: &["second %"],
        engines,
        bar,
    }
}

fn subject<R>(tree: Tree, run: impl FnMut() -> R + 'static) -> Subject {
    Subject::new(run, counted(tree.result))
}

/// A way to run two closures.
trait Join: Sync {
    fn join(&self, a: impl FnOnce() + Send, b: impl FnOnce() + Send);
}

struct Ours;

impl Join for Ours {
    fn join(&self, a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
        nanothreads::join(a, b);
    }
}

struct Rayon;

impl Join for Rayon {
    fn join(&self, a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
        rayon::join(a, b);
    }
}

impl Tree {
    fn sequential(self, state: u64, depth: u32) {
        for number in 0..(self.expand)(state, depth) {
            self.sequential((self.child)(state, number), depth + 1);
        }
    }

    fn tasks(self, s: &Scope<'_>, state: u64, depth: u32) {
        for number in 0..(self.expand)(state, depth) {
            let child = (self.child)(state, number);
            s.spawn(move |s| self.tasks(s, child, depth + 1));
        }
    }

    fn rayon_tasks(self, s: &rayon::Scope<'_>, state: u64, depth: u32) {
        for number in 0..(self.expand)(state, depth) {
            let child = (self.child)(state, number);
            s.spawn(move |s| self.rayon_tasks(s, child, depth + 1));
        }
    }

    fn visit(self, engine: &impl Join, state: u64, depth: u32) {
        self.visit_some(engine, state, depth, 0, (self.expand)(state, depth));
    }

    /// The children of these numbers, by halves.
    fn visit_some(self, engine: &impl Join, state: u64, depth: u32, begin: u32, end: u32) {
        match end - begin {
            0 => {}
            1 => self.visit(engine, (self.child)(state, begin), depth + 1),
            count => {
                let middle = begin + count / 2;
                let half = |begin, end| move || self.visit_some(engine, state, depth, begin, end);
                engine.join(half(begin, middle), half(middle, end));
            }
        }
    }

    fn chili(self, scope: &mut chili::Scope<'_>, state: u64, depth: u32) {
        self.chili_some(scope, state, depth, 0, (self.expand)(state, depth));
    }

    fn chili_some(
        self,
        scope: &mut chili::Scope<'_>,
        state: u64,
        depth: u32,
        begin: u32,
        end: u32,
    ) {
        match end - begin {
            0 => {}
            1 => self.chili(scope, (self.child)(state, begin), depth + 1),
            count => {
                let middle = begin + count / 2;
                scope.join(
                    |scope| self.chili_some(scope, state, depth, begin, middle),
                    |scope| self.chili_some(scope, state, depth, middle, end),
                );
            }
        }
    }
}
