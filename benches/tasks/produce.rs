//! Tasks that do nothing, all from one producer: the cost of one.

use crate::harness::native::entry;
use crate::harness::regions::{self, Body};
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Case, Engine, Runtime};
use crate::tick::{counted, tick, with_share};
use orx_parallel::{Pool, Scope as _, ThreadPool as _};

const TASKS: u32 = 10_000;

extern "C" fn body(_: u32) {
    tick();
}

pub(super) fn case() -> Case {
    let native = |name: &str, runtime| {
        Engine::new(name, runtime, move |_| {
            let produce = entry(runtime, "produce")?;
            Ok(subject(move || produce.call(TASKS as usize, body as Body as usize, 0)))
        })
    };
    let engines = vec![
        Engine::new("nanothreads", Runtime::Ours, |row| {
            regions::configure(row);
            Ok(subject(|| {
                nanothreads::scope(|s| (0..TASKS).for_each(|n| s.spawn(move |_| body(n))))
            }))
        }),
        Engine::new("rayon scope", Runtime::Crate, |_| {
            let pool = regions::rayon_inside()?;
            Ok(subject(move || pool.scope(|s| (0..TASKS).for_each(|n| s.spawn(move |_| body(n))))))
        }),
        Engine::new("orx-parallel scope", Runtime::Crate, |_| {
            let pool = &*Box::leak(Box::new(Pool::basic(2)));
            Ok(subject(move || pool.scope(|s| (0..TASKS).for_each(|n| s.run(move || body(n))))))
        }),
        native("oneTBB task_group", Runtime::Tbb),
        native("libgomp", Runtime::Libgomp),
        native("libomp", Runtime::Libomp),
        Engine::absent("chili", "no tasks: it joins two closures"),
        Engine::absent("fork_union", "no tasks"),
    ];
    let measure = with_share(back_to_back());
    Case {
        name: "empty task, one producer".into(),
        measure,
        extras: &["second %"],
        engines,
        bar: None,
    }
}

fn subject<R>(run: impl FnMut() -> R + 'static) -> Subject {
    Subject::new(run, counted(TASKS.into())).of(TASKS)
}
