//! What OpenMP directives and tasks cost on our drop-in library, on libgomp and on libomp: the same
//! machine code.
//!
//! # Questions, and what refutes the claims
//! - `parallel`, `for`, `parallel for`, `barrier`, `single`, `reduction`: at most half of libgomp's
//!   overhead and 0.6 of libomp's. Every other directive and task pattern, and a task for a thread
//!   that waits: slower than the best of the others by at most 5 %, 2 ns or two standard errors of
//!   its samples. A row of ours above that refutes it. A library that does not run what the
//!   directive says (libomp deals `schedule(static, 1)` of ordered and doacross loops in blocks, by
//!   libgomp's entry points) stays in the table, which says so, and is no yardstick for that row;
//!   the same loop without a schedule, where blocks are right, is a row of its own.
//! - Nested teams of 2 x 2 with a barrier inside: at most 4.4 us.
//!
//! Ours runs with its default settings. libgomp and libomp are there twice: by their defaults, and
//! with the setting that each has for what its default is worst at (`OMP_WAIT_POLICY=passive`, hot
//! nested teams).
//!
//! The programs are those of `benches/peers/overheads.c`, in the manner of the EPCC
//! microbenchmarks: 0.1 us of work in each construct, the same work without it taken off; two
//! threads. `taken %` is the share of the tasks that ran on another thread than their creator,
//! `astray %` that of the iterations which ran on another thread than their schedule says. Every
//! program counts what ran. How samples are taken: `benches/README.md`; the library is made by
//! `cargo xtask shim`.

#[path = "../harness/mod.rs"]
mod harness;

use harness::native::entry;
use harness::sample::{Measure, Subject, overhead};
use harness::{Bar, Bench, Case, Engine, Runtime};
use std::process::ExitCode;

/// Constructs in a timed call: enough that the region around them counts for little.
const INNER: usize = 1000;
/// In regions whose second thread has nothing to do, or little: a timed call lasts 1 ms, as in
/// EPCC's calibration, so that waking a thread that fell asleep before it (some 10 us) counts less
/// than the row's limit.
const INNER_ALONE: usize = 10_000;

/// The largest allowed ratio of ours to each.
const FASTER: Bar = Bar::TimesOfEach(&[("libgomp", 0.5), ("libomp", 0.6)]);

/// A case: its name, the entry of `overheads.c`, how often the work runs for each construct, its
/// bar.
type Construct = (&'static str, &'static str, usize, Bar);

const DIRECTIVES: &[Construct] = &[
    ("parallel", "d_parallel", 2, FASTER),
    ("for", "d_for", 2, FASTER),
    ("parallel for", "d_parallel_for", 2, FASTER),
    ("barrier", "d_barrier", 2, FASTER),
    ("single", "d_single", 1, FASTER),
    ("reduction", "d_reduction", 2, FASTER),
    ("single copyprivate", "d_single_copyprivate", 1, Bar::NotBehind),
    ("sections", "d_sections", 2, Bar::NotBehind),
    ("for nowait", "d_for_nowait", 2, Bar::NotBehind),
    ("iteration of schedule(static, 1)", "d_static_chunk", 2, Bar::NotBehind),
    ("iteration of schedule(dynamic, 1)", "d_dynamic", 2, Bar::NotBehind),
    ("iteration of schedule(guided, 1)", "d_guided", 2, Bar::NotBehind),
    ("doacross without a schedule", "d_doacross_blocks", 1, Bar::NotBehind),
    ("critical", "d_critical", 1, Bar::NotBehind),
    ("critical (name)", "d_critical_named", 1, Bar::NotBehind),
    ("lock", "d_lock", 1, Bar::NotBehind),
    ("nestable lock", "d_nest_lock", 1, Bar::NotBehind),
    ("atomic by the processor", "d_atomic", 1, Bar::NotBehind),
    ("atomic by the library", "d_atomic_wide", 1, Bar::NotBehind),
];

/// Regions of [`INNER_ALONE`].
const ALONE: &[Construct] = &[
    ("masked", "d_masked", 1, Bar::NotBehind),
    ("critical of one thread", "d_critical_uncontended", 1, Bar::NotBehind),
];

/// Loops by `schedule(static, 1)` whose iterations the library deals: a case's name, its entry, and
/// the one that says how many of a thousand iterations went astray.
const DEALT: &[(&str, &str, &str)] =
    &[("ordered", "d_ordered", "dealt_ordered"), ("doacross", "d_doacross", "dealt_doacross")];

const TASKS: &[Construct] = &[
    ("parallel tasks", "t_parallel", 2, Bar::NotBehind),
    ("parallel tasks with depend", "t_parallel_depend", 2, Bar::NotBehind),
    ("one producer", "t_producer", 2, Bar::NotBehind),
    ("one producer with depend", "t_producer_depend", 2, Bar::NotBehind),
    ("one producer, the other busy", "t_producer_alone", 2, Bar::NotBehind),
    ("task, taskwait", "t_taskwait", 2, Bar::NotBehind),
    ("task in a taskgroup", "t_taskgroup", 2, Bar::NotBehind),
    ("task, barrier", "t_barrier", 2, Bar::NotBehind),
    ("undeferred task", "t_if0", 2, Bar::NotBehind),
    ("nested tasks", "t_nested", 2, Bar::NotBehind),
    ("nested tasks of one producer", "t_producer_nested", 2, Bar::NotBehind),
    ("taskloop", "t_taskloop", 2, Bar::NotBehind),
    ("task tree, work in nodes", "t_branch_tree", 2, Bar::NotBehind),
    ("task tree, work in leaves", "t_leaf_tree", 2, Bar::NotBehind),
];

fn main() -> ExitCode {
    let mut cases: Vec<Case> =
        DIRECTIVES.iter().map(|&construct| directive(construct, INNER)).collect();
    cases.extend(ALONE.iter().map(|&construct| directive(construct, INNER_ALONE)));
    cases.extend(DEALT.iter().map(|&case| dealt(case)));
    cases.extend(TASKS.iter().map(|&construct| tasks(construct)));
    cases.push(nested());
    cases.extend(
        [
            ("a task for a thread that waits", 5_000),
            ("a task for a thread that waited for 0.4 ms", 400_000),
        ]
        .map(taking),
    );
    harness::run(Bench { name: "openmp", cases, seconds: 300.0, programs: false })
}

/// A library, and variables of its own.
type Library = (&'static str, Runtime, &'static [(&'static str, &'static str)]);

/// Ours first, all by their defaults; then the settings of the others that are made for what they
/// are bad at by default: shared processors, and nested teams.
const LIBRARIES: [Library; 5] = [
    ("nanothreads omp", Runtime::Shim, &[]),
    ("libgomp", Runtime::Libgomp, &[]),
    ("libomp", Runtime::Libomp, &[]),
    ("libgomp passive", Runtime::Libgomp, &[("OMP_WAIT_POLICY", "passive")]),
    (
        "libomp hot nested",
        Runtime::Libomp,
        &[("KMP_HOT_TEAMS_MAX_LEVEL", "2"), ("KMP_HOT_TEAMS_MODE", "1")],
    ),
];

/// The libraries with what `make` gives for each; ours first.
fn engines(make: impl Fn(Runtime) -> Result<Subject, String> + Clone + 'static) -> Vec<Engine> {
    let engine = |(name, runtime, environment): Library| {
        let make = make.clone();
        Engine::new(name, runtime, move |_| make(runtime)).with(environment)
    };
    LIBRARIES.into_iter().map(engine).collect()
}

/// The construct `symbol` on `runtime`, found right before it is timed.
fn subject(runtime: Runtime, symbol: &str, each: usize, inner: usize) -> Result<Subject, String> {
    let (run, reference) = (entry(runtime, symbol)?, entry(runtime, "reference")?);
    let check = move |_| match run.call(inner, 1, 0) {
        ran if ran == each * inner => Ok(()),
        ran => Err(format!(
            "{inner} times the construct ran its work {ran} times instead of {}",
            each * inner
        )),
    };
    check(0)?;
    let subject = Subject::new(move || run.call(inner, 0, 0), check).of(inner as u32);
    Ok(subject.over(move || {
        reference.call(inner, 0, 0);
    }))
}

fn directive((name, symbol, each, bar): Construct, inner: usize) -> Case {
    let engines = engines(move |runtime| subject(runtime, symbol, each, inner));
    Case { name: name.into(), measure: overhead(), extras: &[], engines, bar: Some(bar) }
}

fn dealt((name, symbol, says): (&'static str, &'static str, &'static str)) -> Case {
    let engines = engines(move |runtime| {
        let astray = entry(runtime, says)?;
        Ok(subject(runtime, symbol, 1, INNER)?
            .telling(move || astray.call(INNER, 0, 0) as f64 / 10.0))
    });
    let measure = telling_too(overhead());
    let bar = Some(Bar::NotBehindWithout { index: 1 });
    Case { name: name.into(), measure, extras: &["astray %"], engines, bar }
}

/// What `timed` measures, and the number that the subject tells.
fn telling_too(timed: Measure) -> Measure {
    Box::new(move |subject| {
        let mut values = timed(subject);
        values.push(subject.tell());
        values
    })
}

fn tasks((name, symbol, each, bar): Construct) -> Case {
    const CALLS: u32 = 20;
    let engines = engines(move |runtime| {
        let (run, taken) = (entry(runtime, symbol)?, entry(runtime, "taken")?);
        let share = move || {
            let permille = (0..CALLS).map(|_| {
                run.call(INNER, 1, 0);
                taken.call(0, 0, 0)
            });
            permille.sum::<usize>() as f64 / f64::from(CALLS) / 10.0
        };
        Ok(subject(runtime, symbol, each, INNER)?.telling(share))
    });
    Case {
        name: name.into(),
        measure: telling_too(overhead()),
        extras: &["taken %"],
        engines,
        bar: Some(bar),
    }
}

/// Two by two threads, and a barrier in the inner teams.
fn nested() -> Case {
    const TIMES: usize = 100;
    let engines = engines(|runtime| {
        let run = entry(runtime, "d_nested")?;
        let check = move |_| match run.call(TIMES, 1, 0) {
            ran if ran == 4 * TIMES => Ok(()),
            ran => {
                Err(format!("{TIMES} nested regions had {ran} members instead of {}", 4 * TIMES))
            }
        };
        check(0)?;
        Ok(Subject::new(move || run.call(TIMES, 0, 0), check).of(TIMES as u32))
    });
    let measure = harness::sample::back_to_back_with_switches();
    Case {
        name: "2 x 2 with inner barrier".into(),
        measure,
        extras: &["switches"],
        engines,
        bar: Some(Bar::Nanoseconds(4_400.0)),
    }
}

/// The time from a task's creation to its begin on the other thread, which has waited for `gap` ns.
fn taking((name, gap): (&str, usize)) -> Case {
    // As many as fit into 40 ms.
    let rounds = 40_000_000 / (gap + 5_000);
    let engines = engines(move |runtime| {
        let taking = entry(runtime, "taking")?;
        let run = move || match taking.call(gap, rounds, 0) {
            // Never taken while its creator was busy.
            0 => f64::NAN,
            nanoseconds => nanoseconds as f64,
        };
        Ok(Subject::new(|| {}, |_| Ok(())).telling(run))
    });
    let measure: Measure = Box::new(|subject| vec![subject.tell()]);
    Case { name: name.into(), measure, extras: &[], engines, bar: Some(Bar::NotBehind) }
}
