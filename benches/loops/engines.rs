//! The loop on each engine, by each of its schedules.

use crate::body::{self, Kind, LENGTH, iterate};
use crate::harness::native::entry;
use crate::harness::regions::{self, Body};
use crate::harness::sample::Subject;
use crate::harness::{Engine, Runtime};
use nanothreads::{Alpha, Schedule, par_for};
use orx_parallel::{IntoParIter, Par};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::num::NonZero;

/// Length of chunks where a schedule wants one.
const CHUNK: usize = 16;
const COUNT: u32 = LENGTH as u32;

fn subject<R>(kind: Kind, run: impl FnMut() -> R + 'static) -> Subject {
    body::choose(kind);
    Subject::new(run, body::check)
}

fn run(i: usize) {
    iterate(u32::try_from(i).expect("the loop is short"));
}

pub(crate) fn all(kind: Kind) -> Vec<Engine> {
    let mut engines = ours(kind);
    engines.push(Engine::new("sequential", Runtime::Crate, move |_| {
        Ok(subject(kind, || (0..COUNT).for_each(|i| iterate(i))))
    }));
    engines.extend(openmp(kind));
    engines.extend(tbb(kind));
    engines.extend(rayon(kind));
    engines.extend(others(kind));
    engines
}

fn ours(kind: Kind) -> Vec<Engine> {
    let chunk = NonZero::new(CHUNK).expect("16 is not 0");
    let schedules = [
        ("auto", Schedule::Auto),
        ("static", Schedule::Static),
        ("static chunks", Schedule::StaticChunks(chunk)),
        ("dynamic", Schedule::Dynamic(chunk)),
        ("pure", Schedule::PURE),
        ("guided", Schedule::Guided(NonZero::<usize>::MIN)),
        ("factoring", Schedule::Factoring),
        ("trapezoid", Schedule::Trapezoid),
        ("safe", Schedule::Safe(Alpha::HALF)),
        ("affinity", Schedule::Affinity),
    ];
    let engine = |(name, schedule): (&str, Schedule)| {
        Engine::new(format!("nanothreads {name}"), Runtime::Ours, move |row| {
            regions::configure(row);
            Ok(subject(kind, move || par_for(0..LENGTH).schedule(schedule).run(run)))
        })
    };
    schedules.map(engine).into()
}

fn openmp(kind: Kind) -> Vec<Engine> {
    let mut engines = Vec::new();
    for (library, runtime) in [("libgomp", Runtime::Libgomp), ("libomp", Runtime::Libomp)] {
        let forms = [
            ("static", "loop_static", 0),
            ("static chunks", "loop_static", CHUNK),
            ("dynamic", "loop_dynamic", CHUNK),
            ("guided", "loop_guided", 1),
        ];
        for (name, function, chunk) in forms {
            engines.push(Engine::new(format!("{library} {name}"), runtime, move |_| {
                let run = entry(runtime, function)?;
                Ok(subject(kind, move || run.call(iterate as Body as usize, LENGTH, chunk)))
            }));
        }
    }
    // What libomp has beyond the standard.
    let forms: [(&str, &[_]); 2] = [
        ("libomp trapezoidal", &[("OMP_SCHEDULE", "trapezoidal")]),
        ("libomp static_steal", &[("OMP_SCHEDULE", "static_steal,16")]),
    ];
    for (name, environment) in forms {
        let engine = Engine::new(name, Runtime::Libomp, move |_| {
            let run = entry(Runtime::Libomp, "loop_runtime")?;
            Ok(subject(kind, move || run.call(iterate as Body as usize, LENGTH, 0)))
        });
        engines.push(engine.with(environment));
    }
    engines
}

fn tbb(kind: Kind) -> Vec<Engine> {
    // In the order of tbb.cpp.
    let partitioners = ["auto", "simple", "static", "affinity"];
    let engine = |(number, name): (usize, &str)| {
        Engine::new(format!("oneTBB {name}"), Runtime::Tbb, move |_| {
            let run = entry(Runtime::Tbb, "loop")?;
            Ok(subject(kind, move || run.call(iterate as Body as usize, LENGTH, number)))
        })
    };
    partitioners.into_iter().enumerate().map(engine).collect()
}

fn rayon(kind: Kind) -> Vec<Engine> {
    let form = |name: &str, each: fn()| {
        Engine::new(format!("rayon {name}"), Runtime::Crate, move |_| {
            let pool = regions::rayon_inside()?;
            Ok(subject(kind, move || pool.install(each)))
        })
    };
    vec![
        form("par_iter", || (0..LENGTH).into_par_iter().for_each(run)),
        form("min_len 16", || (0..LENGTH).into_par_iter().with_min_len(CHUNK).for_each(run)),
        form("max_len 16", || (0..LENGTH).into_par_iter().with_max_len(CHUNK).for_each(run)),
    ]
}

fn others(kind: Kind) -> Vec<Engine> {
    let pool = || fork_union::ThreadPool::try_spawn(2).map_err(|error| format!("{error:?}"));
    vec![
        Engine::new("fork_union for_n", Runtime::Crate, move |_| {
            let mut pool = pool()?;
            Ok(subject(kind, move || drop(pool.for_n(LENGTH, |prong| run(prong.task_index)))))
        }),
        Engine::new("fork_union dynamic", Runtime::Crate, move |_| {
            let mut pool = pool()?;
            Ok(subject(kind, move || {
                drop(pool.for_n_dynamic(LENGTH, |prong| run(prong.task_index)))
            }))
        }),
        Engine::new("orx-parallel auto", Runtime::Crate, move |_| {
            Ok(subject(kind, || (0..LENGTH).into_par().num_threads(2).for_each(run)))
        }),
        Engine::new("orx-parallel chunks", Runtime::Crate, move |_| {
            Ok(subject(kind, || {
                (0..LENGTH).into_par().num_threads(2).chunk_size(CHUNK).for_each(run)
            }))
        }),
        Engine::new("chili join", Runtime::Crate, move |_| {
            let mut scope = regions::chili();
            Ok(subject(kind, move || halves(&mut scope, 0, COUNT)))
        }),
    ]
}

/// The loop by joins: how a program writes it where there are no loops.
fn halves(scope: &mut chili::Scope<'_>, begin: u32, end: u32) {
    let middle = u32::midpoint(begin, end);
    if middle == begin {
        iterate(begin);
    } else {
        scope.join(|scope| halves(scope, begin, middle), |scope| halves(scope, middle, end));
    }
}
