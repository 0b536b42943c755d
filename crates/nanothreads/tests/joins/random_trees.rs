//! Random programs around `join`: trees of joins whose leaves panic, or go on in loops, groups,
//! installed teams, tasks and broadcasts with joins of their own, from several threads of the
//! program at once, on teams that grow and shrink; each against a sequential oracle.
//!
//! Checked: the value, or that the panic is one that a sequential run could have met first; each
//! leaf runs at most once, and exactly once when nothing panics; what closures capture is dropped
//! once; no worker is lost.
//!
//! Settings: `NANOS_STRESS_SEED`, `NANOS_STRESS_SECONDS` (default 2), `NANOS_STRESS_PROGRAMS`, as
//! in `stress`.

#[path = "../stress/random.rs"]
#[expect(dead_code, reason = "shared with the stress test of everything")]
mod random;

use engine::sizer::TeamSizer;
use nanothreads::{Team, broadcast, groups, join, par_for, scope};
use random::{Random, mix};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Processors that teams of this process have now.
static LIMIT: AtomicUsize = AtomicUsize::new(4);

struct Changing;

impl TeamSizer for Changing {
    fn limit(&self) -> usize {
        LIMIT.load(Relaxed)
    }
}

/// A part of a program.
#[derive(Debug)]
enum Step {
    Leaf(Leaf),
    Join(Box<Step>, Box<Step>),
    /// A chain of joins, with the rest in the first or in the second half.
    Chain {
        items: Vec<Step>,
        rest_first: bool,
    },
    Loop(Vec<Step>),
    Tasks(Vec<Step>),
    /// Groups of processors that deal with the parts.
    Groups(usize, Vec<Step>),
    Install(usize, Box<Step>),
    /// Each member runs it with a copy of the leaves' counts; what it gives is that of member 0.
    Broadcast(Box<Step>),
}

#[derive(Debug)]
struct Leaf {
    number: usize,
    work: u32,
    panics: bool,
    /// Processors that teams have from now on.
    limit: Option<usize>,
}

/// The value, or what may be reported.
type Outcome = Result<u64, BTreeSet<u64>>;

/// The payload of a planted panic. It is thrown by `resume_unwind`, which prints nothing.
struct Planted(u64);

struct Plan<'a> {
    random: &'a mut Random,
    leaves: usize,
    panics: bool,
    /// Leaves that may still be added.
    budget: usize,
}

impl Plan<'_> {
    fn leaf(&mut self) -> Step {
        let number = self.leaves;
        self.leaves += 1;
        self.budget = self.budget.saturating_sub(1);
        let random = &mut *self.random;
        let work = match random.below(20) {
            0 => 20_000,
            1..4 => 500,
            _ => 0,
        };
        let panics = self.panics && random.once_in(12);
        let limit = random.once_in(30).then(|| 1 + random.below(6));
        Step::Leaf(Leaf { number, work, panics, limit })
    }

    fn some(&mut self, depth: usize, most: usize) -> Vec<Step> {
        let count = 1 + self.random.below(most);
        (0..count).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: usize) -> Step {
        if depth == 0 || self.budget == 0 {
            return self.leaf();
        }
        match self.random.below(24) {
            0..2 => self.leaf(),
            2..4 => Step::Chain {
                items: self.some(depth.min(3) - 1, 30),
                rest_first: self.random.once_in(2),
            },
            4 => Step::Loop(self.some(depth.min(4) - 1, 6)),
            5 => Step::Tasks(self.some(depth.min(4) - 1, 6)),
            6 => Step::Groups(1 + self.random.below(3), self.some(depth.min(3) - 1, 4)),
            7 => Step::Install(1 + self.random.below(4), Box::new(self.step(depth - 1))),
            8 => Step::Broadcast(Box::new(self.step(depth.min(3) - 1))),
            _ => Step::Join(Box::new(self.step(depth - 1)), Box::new(self.step(depth - 1))),
        }
    }
}

fn both(a: u64, b: u64) -> u64 {
    mix(a ^ b.rotate_left(9))
}

/// In sequence: the first panic is the one that is reported.
fn in_turn(a: Outcome, b: Outcome) -> Outcome {
    Ok(both(a?, b?))
}

/// At the same time: any panic may be the one.
fn at_once(parts: impl Iterator<Item = Outcome>) -> Outcome {
    let (mut value, mut panics) = (1, BTreeSet::new());
    for part in parts {
        match part {
            Ok(part) => value = both(value, part),
            Err(part) => panics.extend(part),
        }
    }
    if panics.is_empty() { Ok(value) } else { Err(panics) }
}

impl Leaf {
    fn value(&self) -> u64 {
        mix(self.number as u64)
    }
}

impl Step {
    /// What a sequential run gives.
    fn expected(&self) -> Outcome {
        match self {
            Self::Leaf(leaf) if leaf.panics => Err([leaf.value()].into()),
            Self::Leaf(leaf) => Ok(leaf.value()),
            Self::Join(a, b) => in_turn(a.expected(), b.expected()),
            Self::Chain { items, rest_first } => {
                let (last, before) = items.split_last().expect("a chain has items");
                before.iter().rev().fold(last.expected(), |rest, item| match rest_first {
                    true => in_turn(rest, item.expected()),
                    false => in_turn(item.expected(), rest),
                })
            }
            Self::Loop(parts) | Self::Tasks(parts) | Self::Groups(_, parts) => {
                at_once(parts.iter().map(Self::expected))
            }
            Self::Install(_, part) | Self::Broadcast(part) => part.expected(),
        }
    }

    fn run(&self, run: &Run) -> u64 {
        match self {
            Self::Leaf(leaf) => run.leaf(leaf),
            Self::Join(a, b) => {
                let (first, second) = (Token::new(run), Token::new(run));
                let (a, b) = join(|| first.around(|| a.run(run)), || second.around(|| b.run(run)));
                both(a, b)
            }
            Self::Chain { items, rest_first } => Self::chain(items, *rest_first, run),
            Self::Loop(parts) => {
                let values = Values::new(parts.len());
                par_for(0..parts.len()).run(|i| values.set(i, parts[i].run(run)));
                values.fold()
            }
            Self::Tasks(parts) => {
                let values = Values::new(parts.len());
                scope(|s| {
                    for (i, part) in parts.iter().enumerate() {
                        let (values, token) = (&values, Token::new(run));
                        s.spawn(move |_| values.set(i, token.around(|| part.run(run))));
                    }
                });
                values.fold()
            }
            Self::Groups(count, parts) => {
                let values = Values::new(parts.len());
                groups().equal(*count).run(|group| {
                    (group.index()..parts.len())
                        .step_by(group.count())
                        .for_each(|i| values.set(i, parts[i].run(run)));
                });
                values.fold()
            }
            Self::Install(size, part) => {
                Team::at_most(*size).expect("not 0").install(|| part.run(run))
            }
            Self::Broadcast(part) => {
                let value = Values::new(1);
                broadcast(|member| {
                    if member.id == 0 {
                        value.set(0, part.run(run));
                    } else {
                        // Joins of their own, beside.
                        let (a, b) = join(|| mix(1), || mix(2));
                        assert_eq!(both(a, b), both(mix(1), mix(2)));
                    }
                });
                value.first()
            }
        }
    }

    fn chain(items: &[Self], rest_first: bool, run: &Run) -> u64 {
        let (item, rest) = items.split_first().expect("a chain has items");
        if rest.is_empty() {
            return item.run(run);
        }
        let (a, b) = match rest_first {
            true => join(|| Self::chain(rest, rest_first, run), || item.run(run)),
            false => join(|| item.run(run), || Self::chain(rest, rest_first, run)),
        };
        both(a, b)
    }
}

/// What parts give that run at the same time.
struct Values(Mutex<Vec<Option<u64>>>);

impl Values {
    fn new(count: usize) -> Self {
        Self(Mutex::new(vec![None; count]))
    }

    fn set(&self, index: usize, value: u64) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner)[index].replace(value);
        assert_eq!(before, None, "a part runs once");
    }

    fn all(self) -> impl Iterator<Item = u64> {
        let values = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        values.into_iter().map(|value| value.expect("each part has run when the call returns"))
    }

    fn fold(self) -> u64 {
        self.all().fold(1, both)
    }

    fn first(self) -> u64 {
        self.all().next().expect("there is one")
    }
}

/// A run of a program: what it counts.
struct Run {
    leaves: Vec<AtomicU32>,
    alive: AtomicI64,
}

impl Run {
    fn leaf(&self, leaf: &Leaf) -> u64 {
        let before = self.leaves[leaf.number].fetch_add(1, Relaxed);
        assert_eq!(before, 0, "leaf {} runs once", leaf.number);
        (0..leaf.work).for_each(|_| std::hint::spin_loop());
        if let Some(limit) = leaf.limit {
            LIMIT.store(limit, Relaxed);
        }
        if leaf.panics {
            resume_unwind(Box::new(Planted(leaf.value())));
        }
        leaf.value()
    }
}

/// Captured by a closure: counts what is alive.
struct Token<'a>(&'a Run);

impl<'a> Token<'a> {
    fn new(run: &'a Run) -> Self {
        run.alive.fetch_add(1, Relaxed);
        Self(run)
    }

    fn around<R>(self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Relaxed);
    }
}

/// One program: parts for several threads.
fn program(seed: u64) -> Vec<(Step, usize)> {
    let mut random = Random::new(seed);
    let threads = 1 + random.below(3);
    let panics = random.once_in(2);
    let mut part = || {
        let depth = 1 + random.below(12);
        let budget = if random.once_in(6) { 2000 } else { 150 };
        let mut plan = Plan { random: &mut random, leaves: 0, panics, budget };
        let step = plan.step(depth);
        (step, plan.leaves)
    };
    (0..threads).map(|_| part()).collect()
}

/// Runs a part; says what is wrong.
fn check((step, leaves): &(Step, usize)) -> Result<(), String> {
    let run =
        Run { leaves: (0..*leaves).map(|_| AtomicU32::new(0)).collect(), alive: AtomicI64::new(0) };
    let result = catch_unwind(AssertUnwindSafe(|| step.run(&run)));
    let result = result.map_err(|payload| payload.downcast::<Planted>().map(|planted| planted.0));
    match (result, step.expected()) {
        (Ok(value), Ok(expected)) if value == expected => {
            if let Some(leaf) = run.leaves.iter().position(|runs| runs.load(Relaxed) != 1) {
                return Err(format!("leaf {leaf} did not run"));
            }
        }
        (Err(Ok(payload)), Err(possible)) if possible.contains(&payload) => {}
        (Err(Err(payload)), _) => {
            let text = payload
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "a foreign panic".into());
            return Err(text);
        }
        (result, expected) => return Err(format!("{result:?} in the place of {expected:?}")),
    }
    match run.alive.into_inner() {
        0 => Ok(()),
        count => Err(format!("{count} closures are not dropped, or twice")),
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}; give a whole number")))
}

#[test]
fn random_programs_of_joins_give_what_one_thread_gives() {
    own_process!();
    assert!(nanothreads::builder().sizer(Changing).install().is_ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let first = number("NANOS_STRESS_SEED").unwrap_or(now / 1000 % 1_000_000_000);
    let time = Duration::from_secs(number("NANOS_STRESS_SECONDS").unwrap_or(2));
    let most = number("NANOS_STRESS_PROGRAMS").unwrap_or(u64::MAX);
    println!("NANOS_STRESS_SEED={first}");
    let (begin, mut programs, mut leaves) = (Instant::now(), 0, 0);
    while programs < most && (programs == 0 || begin.elapsed() < time) {
        let seed = first.wrapping_add(programs);
        LIMIT.store(1 + (seed % 6) as usize, Relaxed);
        let parts = program(seed);
        let outcomes: Vec<_> = std::thread::scope(|threads| {
            let others: Vec<_> =
                parts[1..].iter().map(|part| threads.spawn(|| check(part))).collect();
            let own = check(&parts[0]);
            let joined =
                others.into_iter().map(|other| other.join().expect("a part's panics are caught"));
            std::iter::once(own).chain(joined).collect()
        });
        for outcome in outcomes {
            if let Err(what) = outcome {
                panic!("{what}: NANOS_STRESS_SEED={seed} NANOS_STRESS_PROGRAMS=1");
            }
        }
        leaves += parts.iter().map(|(_, leaves)| leaves).sum::<usize>();
        programs += 1;
    }
    LIMIT.store(3, Relaxed);
    assert_eq!(
        Team::exact(3).expect("three").map(|member| member.id()),
        [0, 1, 2],
        "no worker is lost"
    );
    println!(
        "{programs} programs of {leaves} leaves right in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}
