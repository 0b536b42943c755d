//! What all benches share: cases, engines, paired samples in processes of their own, the closing
//! table.
//!
//! # Method
//! 1. A *case* is one construct (an empty region, a loop, a task tree) on each *engine* that has
//!    it. What a peer does not have, or could not run here, is a row with the reason; one that
//!    could not run, or gave wrong results, leaves our bars of the case unmet.
//! 2. The parent runs rounds: each case, each engine, bound and unbound in turn. Each sample is a
//!    process of its own, so that a peer's spinning threads disturb no other sample.
//! 3. Before and after each sample the parent measures the round trip of one cache line between the
//!    two processors. The sample checks the case's result: a wrong one fails the bench.
//! 4. Samples whose round trips differ by more than [`AGREE`] are dropped: the processors moved
//!    meanwhile. The others are sorted into near and far ([`FAR_NS`]). A bench of whole programs
//!    keeps all, and sorts none.
//! 5. The table has medians with the least and the most of the samples, the median of the samples'
//!    own ratios to their round trip, and the ratio to the first engine of the case, which is ours.
//!    The raw record has every sample, also the dropped ones; a file beside it says on what it was
//!    taken.
//!
//! Every process has the first two processors of the mask, and every engine two threads unless the
//! case says otherwise.

#![allow(dead_code, reason = "each bench uses its part of the harness")]

pub(crate) mod about;
pub(crate) mod closing;
pub(crate) mod native;
pub(crate) mod options;
pub(crate) mod place;
pub(crate) mod regions;
mod report;
pub(crate) mod round_trip;
pub(crate) mod sample;
pub(crate) mod situation;
pub(crate) mod table;

use options::Options;
use place::Row;
use sample::{Measure, Subject};
use std::process::{Command, ExitCode};
use std::time::Instant;
use table::{Record, Table};

/// Largest ratio of the round trips before and after a sample that counts.
const AGREE: f64 = 1.5;
/// Round trips above this are called far (ns).
const FAR_NS: f64 = 150.0;
/// A sample that is dropped is taken again, this often in all.
const ATTEMPTS: u32 = 3;
/// Seconds after which a sample is given up.
const SAMPLE_LIMIT: u32 = 60;
/// Exit code of a sample whose result was wrong.
const WRONG: i32 = 3;
/// Exit code of a sample that cannot be taken here.
const ABSENT: i32 = 4;

/// A bench: what `main` hands to [`run`].
pub(crate) struct Bench {
    pub name: &'static str,
    pub cases: Vec<Case>,
    /// Time of a default run, without the builds.
    pub seconds: f64,
    /// Whole programs, of milliseconds: no sample is dropped or sorted by its round trips, and the
    /// closing table has our best form of each case beside the best peer.
    pub programs: bool,
}

/// One construct, on each engine.
pub(crate) struct Case {
    pub name: String,
    pub measure: Measure,
    /// Names of what the measure returns besides the time.
    pub extras: &'static [&'static str],
    /// The first one is ours.
    pub engines: Vec<Engine>,
    pub bar: Option<Bar>,
}

/// The limit that our row has to keep.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// Round trips of one line.
    RoundTrips { near: f64, far: f64 },
    /// Nanoseconds for one operation.
    Nanoseconds(f64),
    /// Times the median of the fastest engine whose name begins with one of these, in the given row
    /// or the same one.
    TimesOf { engines: &'static [&'static str], row: Option<Row>, factor: f64 },
    /// Times the median of each of these engines, in the same row.
    TimesOfEach(&'static [(&'static str, f64)]),
    /// As fast as the fastest other engine: within 5 %, 2 ns, or 2 standard errors of its samples.
    NotBehind,
    /// The same, of those whose value of this number is 0: others do something else than the case
    /// says. Ours has to be one of them.
    NotBehindWithout { index: usize },
    /// The measure's value of this number, the time being number 0.
    Extra { index: usize, limit: f64 },
}

/// The library that brings the threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// nanothreads.
    Ours,
    /// Our drop-in libgomp.so.1.
    Shim,
    /// A crate.
    Crate,
    /// gcc's OpenMP library.
    Libgomp,
    /// LLVM's OpenMP library, under programs that gcc compiled.
    Libomp,
    /// oneTBB.
    Tbb,
}

type Make = Box<dyn Fn(Row) -> Result<Subject, String>>;

/// One engine's form of a case.
pub(crate) struct Engine {
    pub name: String,
    pub runtime: Runtime,
    /// Environment of the sample, besides that of the runtime.
    pub environment: &'static [(&'static str, &'static str)],
    pub rows: &'static [Row],
    make: Result<Make, &'static str>,
}

impl Engine {
    pub(crate) fn new(
        name: impl Into<String>,
        runtime: Runtime,
        make: impl Fn(Row) -> Result<Subject, String> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            runtime,
            environment: &[],
            rows: &Row::ALL,
            make: Ok(Box::new(make)),
        }
    }

    /// An engine that does not have the construct.
    pub(crate) fn absent(name: &'static str, why: &'static str) -> Self {
        Self {
            name: name.into(),
            runtime: Runtime::Crate,
            environment: &[],
            rows: &Row::ALL,
            make: Err(why),
        }
    }

    /// With settings from the environment.
    pub(crate) fn with(self, environment: &'static [(&'static str, &'static str)]) -> Self {
        Self { environment, ..self }
    }
}

/// Runs the bench as the command line says: the whole comparison, or one sample.
pub(crate) fn run(bench: Bench) -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{}: {message}", bench.name);
            return ExitCode::FAILURE;
        }
    };
    match options {
        Options::Test => ExitCode::SUCCESS,
        Options::Sample { case, engine, row } => take_sample(&bench, &case, &engine, row),
        Options::Compare(compare_options) => match compare(&bench, &compare_options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => {
                eprintln!("{}: {message}", bench.name);
                ExitCode::FAILURE
            }
        },
    }
}

/// The child: one sample, as a line of CSV.
fn take_sample(bench: &Bench, case: &str, engine: &str, row: Row) -> ExitCode {
    let found = bench.cases.iter().find(|known| known.name == case);
    let Some((case, engine)) = found
        .and_then(|case| Some((case, case.engines.iter().find(|known| known.name == engine)?)))
    else {
        eprintln!("no engine {engine} in a case {case}: --list shows them");
        return ExitCode::FAILURE;
    };
    place::remember_mask();
    // An engine that hangs ends here, and its row says so.
    // SAFETY: - alarm takes a number; nothing here handles SIGALRM.
    unsafe { libc::alarm(SAMPLE_LIMIT) };
    let subject = match &engine.make {
        Ok(make) => make(row),
        Err(why) => Err((*why).into()),
    };
    let subject = match subject {
        Ok(subject) => subject,
        Err(why) => {
            println!("{why}");
            return u8::try_from(ABSENT).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match sample::take(&case.measure, subject, engine.runtime, row) {
        Ok(values) => {
            println!(
                "{}",
                values.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(",")
            );
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            println!("{wrong}");
            u8::try_from(WRONG).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

/// The parent. False when a result was wrong or a sample broke.
fn compare(bench: &Bench, options: &options::Compare) -> Result<bool, String> {
    if options.list {
        for (case, engine) in selected(bench, options) {
            println!("{:<40} {}", case.name, engine.name);
        }
        return Ok(true);
    }
    place::use_two_processors()?;
    place::remember_mask();
    native::prepare(selected(bench, options).map(|(_, engine)| engine.runtime));
    let jobs: Vec<(usize, &Case, &Engine, Row)> = bench
        .cases
        .iter()
        .enumerate()
        .flat_map(|(index, case)| case.engines.iter().map(move |engine| (index, case, engine)))
        .filter(|(_, case, engine)| options.wants(case, engine))
        .flat_map(|(index, case, engine)| {
            engine.rows.iter().map(move |&row| (index, case, engine, row))
        })
        .collect();
    let mut table = Table::new(bench.programs);
    let seconds = options.seconds.unwrap_or(bench.seconds);
    let share = seconds / jobs.len().max(1) as f64;
    let mut spent = vec![0.0; jobs.len()];
    let begin = Instant::now();
    let mut before = round_trip::nanoseconds();
    for round in 0..options.rounds {
        eprintln!(
            "{}: round {} of up to {}, {} samples",
            bench.name,
            round + 1,
            options.rounds,
            jobs.len()
        );
        if round > 0
            && begin.elapsed().as_secs_f64() * f64::from(round + 1) > seconds * f64::from(round)
        {
            println!("{round} rounds fit into {seconds:.0} s");
            break;
        }
        for (job, spent) in jobs.iter().zip(&mut spent) {
            let &(index, case, engine, row) = job;
            // A slow peer gets fewer samples, at least one.
            if table.is_closed(index, engine, row)
                || (round > 0 && *spent / f64::from(round) * f64::from(round + 1) > 3.0 * share)
            {
                continue;
            }
            let start = Instant::now();
            for _ in 0..ATTEMPTS {
                let record = start_sample(case, engine, row)?;
                let after = round_trip::nanoseconds();
                let is_kept = table.add((index, case), engine, row, round, (before, after), record);
                before = after;
                if is_kept {
                    break;
                }
            }
            *spent += start.elapsed().as_secs_f64();
        }
    }
    let right = report::print(&table, bench, options);
    table.write(bench, options)?;
    if let Some(path) = &options.markdown {
        report::write_markdown(path, &table, bench, options)?;
    }
    if bench.programs {
        print!("\n{}", closing::table(&table, bench, options));
    }
    Ok(right)
}

/// Runs the child and reads what it says.
fn start_sample(case: &Case, engine: &Engine, row: Row) -> Result<Record, String> {
    let me =
        std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let output = Command::new(&me)
        .args(["--sample", &case.name, &engine.name, row.name()])
        .envs(place::environment(row))
        .envs(native::environment(engine.runtime))
        .envs(engine.environment.iter().copied())
        .output()
        .map_err(|error| format!("{}: {error}", me.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(match output.status.code() {
        Some(0) => Record::parse(&text),
        Some(ABSENT) => Record::Absent(text.trim().into()),
        Some(WRONG) => Record::Wrong(text.trim().into()),
        _ => {
            let error = String::from_utf8_lossy(&output.stderr);
            let message =
                error.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
            Record::Wrong(format!("{}: {message}", output.status))
        }
    })
}

fn selected<'a>(
    bench: &'a Bench,
    options: &'a options::Compare,
) -> impl Iterator<Item = (&'a Case, &'a Engine)> {
    let all =
        bench.cases.iter().flat_map(|case| case.engines.iter().map(move |engine| (case, engine)));
    all.filter(|(case, engine)| options.wants(case, engine))
}

/// The middle value, of an even number the mean of the two in the middle; the slice is sorted
/// afterwards.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}
