//! Recursive joins on a team of eight, which is larger than most machines that run this test.

use engine::sizer::TeamSizer;
use nanothreads::{Team, broadcast, join, par_for, scope};
use proptest::prelude::*;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{
    AtomicI64, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// Processors that teams of this process have now.
static LIMIT: AtomicUsize = AtomicUsize::new(8);

struct Changing;

impl TeamSizer for Changing {
    fn limit(&self) -> usize {
        LIMIT.load(Relaxed)
    }
}

/// The tests of this process take turns; each begins with `size` processors.
fn processors(size: usize) -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ONCE.call_once(|| assert!(nanothreads::builder().sizer(Changing).install().is_ok()));
    LIMIT.store(size, Relaxed);
    // The thread of the test before counts until it has ended (D6).
    while Team::available().size() != size {
        std::thread::yield_now();
    }
    turn
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn a_recursion_gives_the_sequential_result_in_teams_of_any_size() {
    own_process!();
    for size in 1..=8 {
        let _turn = processors(size);
        for _ in 0..20 {
            assert_eq!(fib(17), 1597);
        }
    }
}

/// A tree of joins: at the leaves a number, or a panic with one.
#[derive(Clone, Debug)]
enum Tree {
    Leaf { number: i64, panics: bool, micros: u64 },
    Join(Box<Tree>, Box<Tree>),
}

fn trees(panics: f64) -> impl Strategy<Value = Tree> {
    let leaf =
        (any::<i32>(), prop::bool::weighted(panics), prop_oneof![9 => Just(0_u64), 1 => 1_u64..60])
            .prop_map(|(number, panics, micros)| Tree::Leaf {
                number: i64::from(number),
                panics,
                micros,
            });
    leaf.prop_recursive(12, 200, 2, |inner| {
        (inner.clone(), inner).prop_map(|(a, b)| Tree::Join(Box::new(a), Box::new(b)))
    })
}

/// The sequential result: a sum, or the panic of the first leaf that panics.
fn oracle(tree: &Tree) -> Result<i64, i64> {
    match tree {
        Tree::Leaf { number, panics: true, .. } => Err(*number),
        Tree::Leaf { number, .. } => Ok(*number),
        Tree::Join(a, b) => Ok(oracle(a)?.wrapping_add(oracle(b)?)),
    }
}

/// Counts what is alive: each half captures one.
struct Token<'a>(&'a AtomicI64);

impl<'a> Token<'a> {
    fn new(alive: &'a AtomicI64) -> Self {
        alive.fetch_add(1, Relaxed);
        Self(alive)
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

thread_local! {
    /// The joins that wait on this thread's stack, as paths from the root.
    static OPEN: RefCell<Vec<Vec<bool>>> = const { RefCell::new(Vec::new()) };
}

/// Marks a join as open on the calling thread until it is dropped.
struct OnStack;

impl OnStack {
    fn new(path: &[bool]) -> Self {
        OPEN.with(|open| {
            let mut open = open.borrow_mut();
            let is_part = open.last().is_none_or(|outer| path.starts_with(outer));
            open.push(path.to_vec());
            assert!(is_part, "{path:?} is no part of what {open:?} waits for");
        });
        Self
    }
}

impl Drop for OnStack {
    fn drop(&mut self) {
        OPEN.with(|open| open.borrow_mut().pop());
    }
}

struct Walk<'a> {
    leaves: &'a AtomicUsize,
    alive: &'a AtomicI64,
}

impl Walk<'_> {
    fn run(&self, tree: &Tree, path: &[bool]) -> i64 {
        let _open = OnStack::new(path);
        match tree {
            Tree::Leaf { number, panics, micros } => {
                self.leaves.fetch_add(1, Relaxed);
                spin(Duration::from_micros(*micros));
                if *panics {
                    panic_any(*number);
                }
                *number
            }
            Tree::Join(a, b) => {
                let below = |side| [path, &[side]].concat();
                let (first, second) = (Token::new(self.alive), Token::new(self.alive));
                let (a, b) = join(
                    || {
                        let _token = first;
                        self.run(a, &below(false))
                    },
                    || {
                        let _token = second;
                        self.run(b, &below(true))
                    },
                );
                a.wrapping_add(b)
            }
        }
    }
}

fn leaves_of(tree: &Tree) -> usize {
    match tree {
        Tree::Leaf { .. } => 1,
        Tree::Join(a, b) => leaves_of(a) + leaves_of(b),
    }
}

/// Runs `tree` as joins; checks that halves are run at most once, exactly once without a panic, and
/// dropped.
fn result_of(tree: &Tree) -> Result<i64, i64> {
    let (leaves, alive) = (AtomicUsize::new(0), AtomicI64::new(0));
    let walk = Walk { leaves: &leaves, alive: &alive };
    let result = catch_unwind(AssertUnwindSafe(|| walk.run(tree, &[])));
    assert_eq!(alive.into_inner(), 0, "each half is dropped once");
    assert!(OPEN.with(|open| open.borrow().is_empty()));
    let ran = leaves.into_inner();
    assert!(
        ran <= leaves_of(tree) && (result.is_err() || ran == leaves_of(tree)),
        "{ran} of {}",
        leaves_of(tree)
    );
    result.map_err(|payload| *payload.downcast::<i64>().expect("the payload is a leaf's"))
}

/// Panics of leaves are expected: they need no report.
fn quietly<R>(body: impl FnOnce() -> R) -> R {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<i64>() {
                report(info);
            }
        }));
    });
    body()
}

#[test]
fn random_trees_give_the_sequential_result_and_waiters_run_only_parts_of_their_halves() {
    own_process!();
    proptest!(ProptestConfig::with_cases(120), |(tree in trees(0.0), size in 1_usize..=8)| {
        let _turn = processors(size);
        for _ in 0..5 {
            prop_assert_eq!(result_of(&tree), oracle(&tree));
        }
    });
}

#[test]
fn random_panics_reach_the_caller_as_in_a_sequential_run() {
    own_process!();
    proptest!(ProptestConfig::with_cases(120), |(tree in trees(0.1), size in 1_usize..=8)| {
        let _turn = processors(size);
        for _ in 0..5 {
            prop_assert_eq!(quietly(|| result_of(&tree)), oracle(&tree));
        }
    });
}

#[test]
fn halves_that_take_long_are_waited_for_asleep() {
    own_process!();
    let _turn = processors(3);
    for _ in 0..5 {
        // Longer than any thread spins without a manager.
        let slow = || {
            let (a, b) = join(|| spin(Duration::from_millis(2)), || fib(10));
            ((), b) == (a, 55)
        };
        assert_eq!(join(|| 1, slow), (1, true));
    }
}

#[test]
fn a_late_recursion_finds_members_that_went_to_sleep() {
    own_process!();
    let _turn = processors(4);
    let (a, b) = join(
        || 0,
        || {
            spin(Duration::from_millis(3));
            fib(18)
        },
    );
    assert_eq!((a, b), (0, 2584));
}

#[test]
fn a_lock_that_is_held_across_a_join_is_not_wanted_by_what_the_waiter_runs() {
    own_process!();
    let _turn = processors(8);
    let lock = Mutex::new(0_u64);
    fn walk(lock: &Mutex<u64>, depth: u32) {
        if depth == 0 {
            *lock.lock().unwrap() += 1;
            return;
        }
        if depth == 3 {
            // The halves below do not want it; those beside do.
            let mut sum = lock.lock().unwrap();
            let (a, b) = join(|| fib(5), || fib(8));
            *sum += a + b;
        }
        join(|| walk(lock, depth - 1), || walk(lock, depth - 1));
    }
    for _ in 0..20 {
        walk(&lock, 8);
    }
    assert_eq!(lock.into_inner().unwrap(), 20 * (256 + 32 * (5 + 21)));
}

#[test]
fn several_threads_of_the_program_join_at_the_same_time() {
    own_process!();
    let _turn = processors(4);
    std::thread::scope(|threads| {
        for n in 10..16 {
            threads.spawn(move || {
                let expected = (2..=n).fold((0, 1), |(a, b), _| (b, a + b)).1;
                for _ in 0..20 {
                    assert_eq!(fib(n), expected);
                }
            });
        }
    });
}

#[test]
fn joins_stand_inside_regions_and_regions_inside_joins() {
    own_process!();
    let _turn = processors(4);
    let count = AtomicU32::new(0);
    let add = |n: u64| {
        count.fetch_add(u32::try_from(n).unwrap(), Relaxed);
    };
    par_for(0..40).run(|_| add(fib(9)));
    assert_eq!(count.swap(0, Relaxed), 40 * 34);
    let members = AtomicU32::new(0);
    broadcast(|_| {
        members.fetch_add(1, Relaxed);
        add(fib(9));
    });
    assert_eq!(count.swap(0, Relaxed), members.into_inner() * 34);
    scope(|s| (0..40).for_each(|_| s.spawn(|s| s.group(|s| s.spawn(|_| add(fib(9)))))));
    assert_eq!(count.swap(0, Relaxed), 40 * 34);
    fn regions(depth: u32, add: &(impl Fn(u64) + Sync)) {
        if depth > 0 {
            join(|| regions(depth - 1, add), || regions(depth - 1, add));
            return;
        }
        par_for(0..10).run(|_| add(fib(5)));
        scope(|s| (0..10).for_each(|_| s.spawn(|_| add(fib(5)))));
    }
    regions(5, &add);
    assert_eq!(count.into_inner(), 32 * 20 * 5);
}

#[test]
fn the_number_of_processors_may_change_between_joins_and_inside_them() {
    own_process!();
    let _turn = processors(8);
    for round in 0..60 {
        LIMIT.store(1 + round % 8, Relaxed);
        let (a, b) = join(
            || {
                LIMIT.store(1 + (round + 3) % 8, Relaxed);
                fib(12)
            },
            || fib(13),
        );
        assert_eq!((a, b), (144, 233));
    }
}

#[test]
fn the_second_half_sees_what_was_written_before_and_its_writes_are_seen_after() {
    own_process!();
    let _turn = processors(4);
    for round in 0..500_u32 {
        let (before, after) = (AtomicU32::new(0), AtomicU32::new(0));
        before.store(round, Relaxed);
        join(|| (), || after.store(before.load(Relaxed) + 1, Relaxed));
        assert_eq!(after.load(Relaxed), round + 1);
    }
}

#[test]
fn both_halves_run_at_the_same_time_when_there_are_processors() {
    own_process!();
    let _turn = processors(2);
    // Where another thread is late, or has no processor, the first half goes on without it.
    let meet = |own: &AtomicU32, other: &AtomicU32| {
        own.store(1, Release);
        let begin = Instant::now();
        while other.load(Acquire) == 0 && begin.elapsed() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        other.load(Acquire) == 1
    };
    let (begin, mut tries) = (Instant::now(), 0);
    loop {
        let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
        // A half that runs after the other one is not met by it.
        let met = join(|| meet(&first, &second), || meet(&second, &first));
        if met == (true, true) {
            return;
        }
        tries += 1;
        assert!(begin.elapsed() < Duration::from_secs(20), "{tries} joins, the last one {met:?}");
    }
}
